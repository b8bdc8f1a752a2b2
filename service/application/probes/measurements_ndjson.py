"""Measurements as JSON lines."""

import time
from collections.abc import Iterable
from typing import Final

from pydantic import ValidationError

from service.application.errors import InvalidRequest, escaped
from service.application.problems.field_words import field_words
from service.application.schemas.probes.lease import ExportedMeasurementInput
from service.calibration.measurement import Measurement
from service.serialization import MEASUREMENT, written

LINES: Final = "application/x-ndjson"
MAX_FAULTS: Final = 20
CLOCK_SKEW_SECONDS: Final = 300
"""Seconds by which the clock of another service may be ahead of this one."""


def written_lines(measurements: Iterable[Measurement]) -> str:
    """Return measurements as JSON, one a line."""
    return "".join(f"{written(MEASUREMENT, each)}\n" for each in measurements)


def read_lines(text: bytes) -> tuple[Measurement, ...]:
    """Read measurements from JSON, one a line; empty lines are passed over.

    Raises:
        InvalidRequest: lines that are no measurements; the first ``MAX_FAULTS`` are listed by number.
    """
    found, faults = [], []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            found.append(_read(line))
        except (ValidationError, ValueError, RecursionError) as error:
            faults.append(_fault(number, error))
    if faults:
        raise InvalidRequest(faults[:MAX_FAULTS])
    return tuple(found)


def _read(line: bytes) -> Measurement:
    specified = ExportedMeasurementInput.model_validate_json(line)
    flags = specified.flags.model_dump(exclude_none=True)
    measurement = MEASUREMENT.validate_python({**specified.model_dump(), "flags": flags})
    if measurement.measured_at > time.time() + CLOCK_SKEW_SECONDS:
        raise ValueError("measured_at lies in the future")
    return measurement


def _fault(number: int, error: Exception) -> tuple[str, str]:
    """Return the place of a fault, the line first, with what is wrong there."""
    if not isinstance(error, ValidationError):
        return f"/{number}", f"is no measurement: {error}"
    first = error.errors(include_url=False)[0]
    return "".join(f"/{escaped(part)}" for part in (number, *first["loc"])), field_words(first)
