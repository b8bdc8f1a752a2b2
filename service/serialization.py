"""Converts job specs, results and measurements to JSON and back."""

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
NOT_IN_DIGEST: Final = frozenset({"reporter"})
"""Fields outside a measurement's digest: the same measurement is stored once, whoever reports it."""
NOT_IN_DIGEST_OF_LOGS: Final = NOT_IN_DIGEST | {"node", "measured_at"}
"""Fields of a log outside the digest: the same figures count once, whoever sends them and whenever."""


def written(adapter: TypeAdapter[Document], value: Document) -> str:
    """Return a value as JSON text. Equal values give equal texts."""
    return adapter.dump_json(value).decode()


def identity(measurement: Measurement) -> str:
    """Return the SHA-256 that identifies a measurement, so that it is stored only once."""
    document = MEASUREMENT.dump_python(measurement, mode="json")
    excluded = NOT_IN_DIGEST_OF_LOGS if measurement.origin is Origin.LOG else NOT_IN_DIGEST
    return digest({name: value for name, value in document.items() if name not in excluded})
