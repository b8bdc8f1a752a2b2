"""Jobs' parts and measurements as JSON, and back."""

from typing import Final, TypeVar

from pydantic import TypeAdapter

from service.probe.jobs import Spec
from service.probe.measurements import Measurement, Result

SPEC: Final = TypeAdapter(Spec)
RESULT: Final = TypeAdapter(Result)
MEASUREMENT: Final = TypeAdapter(Measurement)

Document = TypeVar("Document")


def written(adapter: TypeAdapter[Document], value: Document) -> str:
    """Return a value as JSON; equal values give equal text."""
    return adapter.dump_json(value).decode()
