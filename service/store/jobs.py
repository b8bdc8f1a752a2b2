"""JobStore: the queue of probe jobs. Each change applies one lifecycle rule while its row is locked."""

import asyncio
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import structlog
from sqlalchemy import Row, Select, and_, func, or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from service.probes import lifecycle
from service.probes.job_spec import JobSpec
from service.probes.job_state import ENDED, HELD, State
from service.probes.lifecycle import (
    Job,
    JobEnding,
    Lease,
    Rule,
)
from service.probes.limits import QueueLimits
from service.probes.offer import Offer
from service.serialization import SPEC, written
from service.store.database import Database
from service.store.errors import JobNotFound, KeyReused, QueueFull
from service.store.job_counts import Census, JobCounts
from service.store.measurements import insert_measurement, measurement_of
from service.store.tables import JOBS

SWEPT_AT_ONCE: Final = 100
PRUNED_AT_ONCE: Final = 500
Clock = Callable[[], float]

_log: Final = structlog.stdlib.get_logger("dryserve.jobs")


class JobStore:
    """The jobs of one database. Several services may use the same database."""

    def __init__(
        self,
        database: Database,
        clock: Clock | None = None,
        *,
        limits: QueueLimits | None = None,
        counts: JobCounts | None = None,
    ) -> None:
        """Set the limits. Requests at the same moment may together exceed that of the queue by their number.

        ``clock``: left out, the time is that of the database's host, which all replicas share.
        """
        self._database = database
        self._clock = clock
        self._limits = limits or QueueLimits()
        self.lease_seconds = self._limits.lease_seconds
        self.counts = counts or JobCounts()

    async def add(self, spec: JobSpec, key: str | None, request_digest: str) -> tuple[Job, bool]:
        """Queue a job; return it and True, or the job queued earlier with the same key and False.

        Raises:
            KeyReused: the key was already used for another request.
            QueueFull: as many jobs as may wait do so already.
        """
        try:
            async with self._database.writing() as connection:
                if (found := await _by_key(connection, key, request_digest)) is not None:
                    return found, False
                waiting = select(func.count()).where(JOBS.c.state == State.QUEUED)
                if (await connection.scalar(waiting) or 0) >= self._limits.waiting:
                    raise QueueFull(self._limits.waiting)
                now = await self._now(connection)
                job = Job(uuid.uuid4().hex, spec, State.QUEUED, now, now, now + lifecycle.QUEUE_SECONDS)
                row = {**_row(job), **_fixed(job), "idempotency_key": key, "request_digest": request_digest}
                await connection.execute(JOBS.insert().values(row))
        except IntegrityError:
            # Another replica has just queued a job with the same key.
            async with self._database.reading() as connection:
                if (found := await _by_key(connection, key, request_digest)) is None:
                    raise
                return found, False
        return job, True

    async def get(self, job_id: str) -> Job:
        """Return one job.

        Raises:
            JobNotFound: no job has this id.
        """
        async with self._database.reading() as connection:
            return await _one(connection, select(JOBS).where(JOBS.c.id == job_id), job_id)

    async def latest(self, state: State | None, limit: int, before: Job | None = None) -> tuple[Job, ...]:
        """Return up to `limit` jobs, the newest first, of one state and older than `before` if given."""
        if not self._database.exists:
            return ()
        query = select(JOBS).order_by(JOBS.c.created_at.desc(), JOBS.c.id.desc()).limit(limit)
        if state is not None:
            query = query.where(JOBS.c.state == state)
        if before is not None:
            same = and_(JOBS.c.created_at == before.created_at, JOBS.c.id < before.id)
            query = query.where(or_(JOBS.c.created_at < before.created_at, same))
        async with self._database.reading() as connection:
            found = (await connection.execute(query)).all()
        return await asyncio.to_thread(lambda: tuple(map(_job, found)))

    async def lease(self, offer: Offer) -> Job | None:
        """Lease the oldest queued job that fits a worker's offer to it; return None if no job fits."""
        self.counts.note_worker(offer.worker)
        await self.sweep()
        query = select(JOBS).where(JOBS.c.state == State.QUEUED, *_fits(offer))
        query = query.order_by(JOBS.c.created_at, JOBS.c.id).limit(1).with_for_update(skip_locked=True)
        async with (
            self._database.reading() as connection
        ):  # most polls find nothing and then need no write lock
            if (await connection.execute(query.with_only_columns(JOBS.c.id))).first() is None:
                return None
        async with self._database.writing() as connection:
            found = (await connection.execute(query)).first()
            if found is None:
                return None
            now = await self._now(connection)
            return await _save(
                connection, lifecycle.leased(_job(found), offer.worker, now, self.lease_seconds)
            )

    async def heartbeat(self, job_id: str, lease: Lease, phase: str) -> Job:
        """Renew a lease and record the job's phase.

        Raises:
            JobNotFound: no job has this id.
            LeaseLost: the lease is not valid any more.
        """
        seconds = self.lease_seconds
        return await self._change(
            job_id, lambda job, now: lifecycle.heartbeat(job, lease, phase, now, seconds)
        )

    async def finish(self, job_id: str, lease: Lease, ending: JobEnding) -> Job:
        """End a job and store its measurement in the same transaction.

        Raises:
            JobNotFound: no job has this id.
            LeaseLost: the lease is not valid any more.
            ResultConflict: the job already ended with another result.
        """
        async with self._database.writing() as connection:
            job = await _locked(connection, job_id)
            now = await self._now(connection)
            after = lifecycle.finished(job, lease, ending, now)
            if after is not job:
                await _save(connection, after)
                if (measurement := measurement_of(ending)) is not None:
                    await insert_measurement(connection, measurement, now, job_id)
            return after

    async def cancel(self, job_id: str) -> Job:
        """Cancel a queued job; for a leased job, request that its worker stops it.

        Raises:
            JobNotFound: no job has this id.
        """
        return await self._change(job_id, lifecycle.cancelled)

    async def sweep(self) -> int:
        """Expire or requeue the jobs whose lease or time in the queue has ended; return how many."""
        waiting = JOBS.c.state.in_([State.QUEUED, *HELD])
        async with self._database.reading() as connection:
            now = await self._now(connection)
            query = select(JOBS).where(waiting, JOBS.c.expires_at <= now).limit(SWEPT_AT_ONCE)
            if (await connection.execute(query.limit(1))).first() is None:
                return 0
        async with self._database.writing() as connection:
            found = list(map(_job, await connection.execute(query.with_for_update(skip_locked=True))))
            for job in found:
                after = lifecycle.after_expiry(job, now, self._limits.attempts)
                await _save(connection, after)
                if job.state in HELD:
                    self.counts.lose_lease()
                    _log.warning("a lease was lost", probe=job.id, state=after.state, reason=after.reason)
            return len(found)

    async def count(self) -> None:
        """Count the jobs anew; `counts` holds the result."""
        counting = select(JOBS.c.state, func.count(), func.min(JOBS.c.updated_at)).group_by(JOBS.c.state)
        async with self._database.reading() as connection:
            now = await self._now(connection)
            found = (await connection.execute(counting)).all()
        oldest = next((each[2] for each in found if each[0] == State.QUEUED), now)
        self.counts.census = Census({State(each[0]): each[1] for each in found}, max(0.0, now - oldest))

    async def prune(self, seconds: float) -> int:
        """Delete ended jobs that were created more than `seconds` ago; return how many were deleted.

        Their measurements stay. Their idempotency keys may be used again.
        """
        async with self._database.reading() as connection:
            before = await self._now(connection) - seconds
            ended = and_(JOBS.c.state.in_(ENDED), JOBS.c.created_at < before)
            query = select(JOBS.c.id).where(ended).limit(PRUNED_AT_ONCE)
            if (await connection.execute(query.limit(1))).first() is None:
                return 0
        async with self._database.writing() as connection:
            done = await connection.execute(JOBS.delete().where(JOBS.c.id.in_(query)))
            return done.rowcount

    async def _now(self, connection: AsyncConnection) -> float:
        """Return the time of one clock that all replicas share. Those of SQLite are on one host."""
        if self._clock is not None:
            return self._clock()
        return time.time() if self._database.embedded else await _server_time(connection)

    async def _change(self, job_id: str, rule: Rule) -> Job:
        async with self._database.writing() as connection:
            job = await _locked(connection, job_id)
            after = rule(job, await self._now(connection))
            return job if after is job else await _save(connection, after)


async def _server_time(connection: AsyncConnection) -> float:
    """Return the time of PostgreSQL's host, in seconds since the epoch."""
    found = await connection.exec_driver_sql("SELECT extract(epoch FROM clock_timestamp())::float8")
    return float(found.scalar_one())


def _fits(offer: Offer) -> Sequence[Any]:
    def unset_or_among(column: Any, names: tuple[str, ...]) -> Any:  # noqa: ANN401 - SQL expressions
        return or_(column.is_(None), column.in_(names)) if names else column.is_(None)

    return (
        JOBS.c.kind.in_(offer.kinds),
        JOBS.c.gpus <= offer.gpus,
        unset_or_among(JOBS.c.gpu_name, offer.gpu_names),
        unset_or_among(JOBS.c.gpu_uuid, offer.gpu_uuids),
        unset_or_among(JOBS.c.label, offer.labels),
        unset_or_among(JOBS.c.engine_release, offer.releases),
    )


async def _by_key(connection: AsyncConnection, key: str | None, request_digest: str) -> Job | None:
    if key is None:
        return None
    found = (await connection.execute(select(JOBS).where(JOBS.c.idempotency_key == key))).first()
    if found is None:
        return None
    if found.request_digest != request_digest:
        raise KeyReused(key)
    return _job(found)


async def _locked(connection: AsyncConnection, job_id: str) -> Job:
    return await _one(connection, select(JOBS).where(JOBS.c.id == job_id).with_for_update(), job_id)


async def _one(connection: AsyncConnection, query: Select[Any], job_id: str) -> Job:
    found = (await connection.execute(query)).first()
    if found is None:
        raise JobNotFound(job_id)
    return _job(found)


async def _save(connection: AsyncConnection, job: Job) -> Job:
    await connection.execute(JOBS.update().where(JOBS.c.id == job.id).values(_row(job)))
    return job


MUTABLE_COLUMNS: Final = (  # columns that change during a job's life
    "state",
    "updated_at",
    "expires_at",
    "fence",
    "worker",
    "attempts",
    "cancel_requested",
    "phase",
    "result",
    "result_digest",
    "reason",
)


def _row(job: Job) -> dict[str, Any]:
    return {name: getattr(job, name) for name in MUTABLE_COLUMNS}


def _fixed(job: Job) -> dict[str, Any]:
    """Return the columns that never change. The target has its own columns, to be matched with offers."""
    target = job.spec.target
    return {
        "id": job.id,
        "created_at": job.created_at,
        "kind": job.spec.work.kind,
        "spec": written(SPEC, job.spec),
        "gpu_name": target.gpu_name,
        "gpu_uuid": target.gpu_uuid,
        "label": target.label,
        "engine_release": target.engine_release,
        "gpus": target.gpus,
    }


def _job(row: Row[Any]) -> Job:
    blank = Job(
        id=row.id,
        spec=SPEC.validate_json(row.spec),
        state=State.QUEUED,
        created_at=row.created_at,
        updated_at=row.updated_at,
        expires_at=row.expires_at,
    )
    values = {name: getattr(row, name) for name in MUTABLE_COLUMNS}
    return replace(blank, **{**values, "state": State(row.state)})
