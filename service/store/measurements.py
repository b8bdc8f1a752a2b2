"""MeasurementStore: measurements, which are written once and never changed."""

import asyncio
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
from service.store.batches import batches
from service.store.database import Database
from service.store.tables import MEASUREMENTS


class MeasurementStore:
    """The measurements of one database."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    async def add(self, measurements: Sequence[Measurement]) -> int:
        """Store measurements; return how many are new."""
        async with self._database.writing() as connection:
            added = [await insert_measurement(connection, each, self._clock()) for each in measurements]
        return sum(added)

    async def digests(self) -> tuple[str, ...]:
        """Return the digests of all measurements, the oldest first; none where there is no database yet."""
        if not self._database.exists:
            return ()
        query = select(MEASUREMENTS.c.digest).order_by(MEASUREMENTS.c.measured_at, MEASUREMENTS.c.digest)
        async with self._database.reading() as connection:
            return tuple(await connection.scalars(query))

    async def read(self, digests: Sequence[str]) -> Mapping[str, Measurement]:
        """Return the measurements of up to ``BATCH_SIZE`` digests, in the same order."""
        query = select(MEASUREMENTS.c.digest, MEASUREMENTS.c.document)
        query = query.where(MEASUREMENTS.c.digest.in_(digests))
        async with self._database.reading() as connection:
            found = {row.digest: row.document for row in await connection.execute(query)}
        return await asyncio.to_thread(_read, {name: found[name] for name in digests if name in found})

    async def by_digest(self) -> Mapping[str, Measurement]:
        """Return every measurement by its digest, the oldest first; none where there is no database yet."""
        names = await self.digests()
        return {name: each for part in batches(names) for name, each in (await self.read(part)).items()}

    async def state(self) -> tuple[int, float]:
        """Return the number of measurements, and when the last was stored in seconds since the epoch.

        The pair changes whenever a measurement is added.
        """
        if not self._database.exists:
            return 0, 0.0
        query = select(func.count(), func.coalesce(func.max(MEASUREMENTS.c.stored_at), 0.0))
        async with self._database.reading() as connection:
            number, newest = (await connection.execute(query)).one()
        return number, newest


def _read(documents: Mapping[str, str]) -> Mapping[str, Measurement]:
    return {name: MEASUREMENT.validate_json(document) for name, document in documents.items()}


def measurement_of(ending: JobEnding) -> Measurement | None:
    """Return the measurement in a job's result; None if it has none."""
    return RESULT.validate_json(ending.result).measurement


async def insert_measurement(
    connection: AsyncConnection, measurement: Measurement, now: float, job_id: str | None = None
) -> bool:
    """Store a measurement unless one with the same digest exists; return whether it was stored."""
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
