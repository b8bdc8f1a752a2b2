"""Jobs' parts and measurements as JSON, and back."""

from typing import Final, TypeVar

from pydantic import TypeAdapter

from service.probe.jobs import Spec
from service.probe.measurements import Measurement, Origin, Result, digest

SPEC: Final = TypeAdapter(Spec)
RESULT: Final = TypeAdapter(Result)
MEASUREMENT: Final = TypeAdapter(Measurement)

Document = TypeVar("Document")
UNTOLD: Final = frozenset({"witness"})
"""What is no part of what was measured: the same measurement is kept once, whoever hands it in."""
UNTOLD_BY_LOGS: Final = UNTOLD | {"node", "measured_at"}
"""What tells of whoever sent a log, and not of the log: the same figures sent again are the same evidence."""


def written(adapter: TypeAdapter[Document], value: Document) -> str:
    """Return a value as JSON; equal values give equal text."""
    return adapter.dump_json(value).decode()


def identity(measurement: Measurement) -> str:
    """Return the digest by which a measurement is kept once."""
    document = MEASUREMENT.dump_python(measurement, mode="json")
    untold = UNTOLD_BY_LOGS if measurement.origin is Origin.LOG else UNTOLD
    return digest({name: value for name, value in document.items() if name not in untold})
