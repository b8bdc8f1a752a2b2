"""Stores results on disk until the service has them, so that a killed worker reports them after a restart."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Spooled:
    """A result that is not reported yet."""

    probe_id: str
    fence: int
    result: Mapping[str, Any]


class Spool:
    """A folder with one file for each result."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def put(self, spooled: Spooled) -> None:
        """Write a result. The write is atomic: the file is complete or does not exist."""
        path = self._path(spooled)
        partial = path.with_suffix(".partial")
        document = {"probe_id": spooled.probe_id, "fence": spooled.fence, "result": spooled.result}
        partial.write_text(json.dumps(document, default=dict), "utf-8")
        partial.replace(path)

    def drop(self, spooled: Spooled) -> None:
        """Delete a result."""
        self._path(spooled).unlink(missing_ok=True)

    def __iter__(self) -> Iterator[Spooled]:
        for path in sorted(self._folder.glob("*.json")):
            document = json.loads(path.read_text("utf-8"))
            yield Spooled(document["probe_id"], document["fence"], document["result"])

    def _path(self, spooled: Spooled) -> Path:
        return self._folder / f"{spooled.probe_id}-{spooled.fence}.json"
