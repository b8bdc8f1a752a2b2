"""Measurements: written once, never changed."""

import time
from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from service.calibration.measurement import Measurement
from service.probes.lifecycle import JobEnding
from service.serialization import (
    MEASUREMENT,
    RESULT,
    identity,
    written,
)
from service.store.database import Database
from service.store.tables import MEASUREMENTS


class MeasurementStore:
    """The measurements of one database."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    async def keep(self, measurements: Sequence[Measurement]) -> int:
        """Store measurements; return how many were not there yet."""
        async with self._database.writing() as connection:
            kept = [await insert_measurement(connection, each, self._clock()) for each in measurements]
        return sum(kept)

    async def by_digest(self) -> Mapping[str, Measurement]:
        """Return every measurement, the oldest first; none where there is no database yet."""
        if not self._database.exists:
            return {}
        columns = (MEASUREMENTS.c.digest, MEASUREMENTS.c.document)
        query = select(*columns).order_by(MEASUREMENTS.c.measured_at, MEASUREMENTS.c.digest)
        async with self._database.reading() as connection:
            found = await connection.execute(query)
            return {row.digest: MEASUREMENT.validate_json(row.document) for row in found}

    async def state(self) -> tuple[int, float]:
        """Return what changes when a measurement is added: their number, and when the last one came."""
        if not self._database.exists:
            return 0, 0.0
        query = select(func.count(), func.coalesce(func.max(MEASUREMENTS.c.stored_at), 0.0))
        async with self._database.reading() as connection:
            number, newest = (await connection.execute(query)).one()
        return number, newest


def measurement_of(ending: JobEnding) -> Measurement | None:
    """Return what a result measured, if anything."""
    return RESULT.validate_json(ending.result).measurement


async def insert_measurement(
    connection: AsyncConnection, measurement: Measurement, now: float, job_id: str | None = None
) -> bool:
    """Store a measurement unless it is there; return whether it was not."""
    row = {
        "digest": identity(measurement),
        "key": measurement.key,
        "job_id": job_id,
        "measured_at": measurement.measured_at,
        "stored_at": now,
        "document": written(MEASUREMENT, measurement),
    }
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    new = insert(MEASUREMENTS).values(row).on_conflict_do_nothing(index_elements=[MEASUREMENTS.c.digest])
    return (await connection.execute(new)).rowcount > 0
