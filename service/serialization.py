"""Jobs' parts and measurements as JSON, and back."""

from typing import Final, TypeVar

from pydantic import TypeAdapter

from service.calibration.measurement import (
    Measurement,
    Origin,
    Result,
    digest,
)
from service.probes.job_spec import JobSpec

SPEC: Final = TypeAdapter(JobSpec)
RESULT: Final = TypeAdapter(Result)
MEASUREMENT: Final = TypeAdapter(Measurement)

Document = TypeVar("Document")
UNSET: Final = frozenset({"reporter"})
"""What is no part of what was measured: the same measurement is kept once, whoever hands it in."""
UNSET_IN_LOGS: Final = UNSET | {"node", "measured_at"}
"""What tells of whoever sent a log, and not of the log: the same figures sent again are the same evidence."""


def written(adapter: TypeAdapter[Document], value: Document) -> str:
    """Return a value as JSON; equal values give equal text."""
    return adapter.dump_json(value).decode()


def identity(measurement: Measurement) -> str:
    """Return the digest by which a measurement is kept once."""
    document = MEASUREMENT.dump_python(measurement, mode="json")
    unset = UNSET_IN_LOGS if measurement.origin is Origin.LOG else UNSET
    return digest({name: value for name, value in document.items() if name not in unset})
