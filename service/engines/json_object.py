"""The value of a flag that is a JSON object."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class JsonObject:
    """A JSON object in one spelling, so that equal objects are equal values and can be keys."""

    text: str
    """JSON without spaces, its keys in alphabetical order."""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Return the value of a document that JSON can express."""
        return cls(json.dumps(document, sort_keys=True, separators=(",", ":")))

    def document(self) -> dict[str, Any]:
        """Return the object."""
        read: dict[str, Any] = json.loads(self.text)
        return read
