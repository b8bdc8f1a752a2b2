"""Jobs, each changed by one rule at a time under a lock of its row."""

import asyncio
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import Row, Select, and_, func, or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from service.probes import lifecycle
from service.probes.job_spec import JobSpec, ProbeKind
from service.probes.job_state import ENDED, HELD, State
from service.probes.lifecycle import (
    Job,
    JobEnding,
    Lease,
    Rule,
)
from service.serialization import SPEC, written
from service.store.database import Database
from service.store.measurements import insert_measurement, measurement_of
from service.store.tables import JOBS

SWEPT_AT_ONCE: Final = 100
PRUNED_AT_ONCE: Final = 500
QUEUE_LIMIT: Final = 1000
QUEUE_PAUSE_SECONDS: Final = 30
"""When to ask again where the queue is full: a probe takes at least that long."""
Clock = Callable[[], float]


class JobNotFound(LookupError):
    """No job has this id."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"there is no probe {job_id[:40]!r}")


class KeyReused(ValueError):
    """An idempotency key came with another request before."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the Idempotency-Key {key[:40]!r} belongs to another request")


class QueueFull(Exception):
    """So many jobs wait that no more are taken.

    Attributes:
        retry_after: seconds after which asking again makes sense.
    """

    retry_after: Final = QUEUE_PAUSE_SECONDS

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit:,} probes wait for a worker already: cancel some, or ask again later")


@dataclass(frozen=True, slots=True)
class Offer:
    """What a worker can run."""

    worker: str
    kinds: tuple[ProbeKind, ...]
    gpu_names: tuple[str, ...] = ()
    gpu_uuids: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()
    """Engines that it has installed."""
    gpus: int = 0


class JobStore:
    """The jobs of one database; several services may share it."""

    def __init__(
        self,
        database: Database,
        clock: Clock = time.time,
        *,
        lease_seconds: float = lifecycle.LEASE_SECONDS,
        queue_limit: int = QUEUE_LIMIT,
    ) -> None:
        """Take how many jobs may wait: what is asked for at one moment may exceed it by its own number."""
        self._database = database
        self._clock = clock
        self._queue_limit = queue_limit
        self.lease_seconds = lease_seconds

    async def add(self, spec: JobSpec, key: str | None, request_digest: str) -> tuple[Job, bool]:
        """Queue a job, or return the one that the same key queued before; and whether it is new.

        Raises:
            KeyReused: the key came with another request.
            QueueFull: too many jobs wait.
        """
        now = self._clock()
        job = Job(uuid.uuid4().hex, spec, State.QUEUED, now, now, now + lifecycle.QUEUE_SECONDS)
        try:
            async with self._database.writing() as connection:
                if (found := await _by_key(connection, key, request_digest)) is not None:
                    return found, False
                waiting = select(func.count()).where(JOBS.c.state == State.QUEUED)
                if (await connection.scalar(waiting) or 0) >= self._queue_limit:
                    raise QueueFull(self._queue_limit)
                row = {**_row(job), **_fixed(job), "idempotency_key": key, "request_digest": request_digest}
                await connection.execute(JOBS.insert().values(row))
        except IntegrityError:
            # Another replica was faster with the same key.
            async with self._database.reading() as connection:
                if (found := await _by_key(connection, key, request_digest)) is None:
                    raise
                return found, False
        return job, True

    async def get(self, job_id: str) -> Job:
        """Return one job.

        Raises:
            JobNotFound: there is none.
        """
        async with self._database.reading() as connection:
            return await _one(connection, select(JOBS).where(JOBS.c.id == job_id), job_id)

    async def latest(self, state: State | None, limit: int, before: Job | None = None) -> tuple[Job, ...]:
        """Return jobs, the newest first."""
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
        """Hand the oldest job that a worker can run over to it."""
        await self.sweep()
        query = select(JOBS).where(JOBS.c.state == State.QUEUED, *_fits(offer))
        query = query.order_by(JOBS.c.created_at, JOBS.c.id).limit(1).with_for_update(skip_locked=True)
        async with self._database.reading() as connection:  # spares writers most of the polls
            if (await connection.execute(query.with_only_columns(JOBS.c.id))).first() is None:
                return None
        async with self._database.writing() as connection:
            found = (await connection.execute(query)).first()
            if found is None:
                return None
            return await _save(
                connection, lifecycle.leased(_job(found), offer.worker, self._clock(), self.lease_seconds)
            )

    async def heartbeat(self, job_id: str, lease: Lease, phase: str) -> Job:
        """Prolong a lease.

        Raises:
            JobNotFound: there is no such job.
            LeaseLost: it is not this worker's.
        """
        seconds = self.lease_seconds
        return await self._change(
            job_id, lambda job, now: lifecycle.heartbeat(job, lease, phase, now, seconds)
        )

    async def finish(self, job_id: str, lease: Lease, ending: JobEnding) -> Job:
        """End a job, and keep what it measured in the same transaction.

        Raises:
            JobNotFound: there is no such job.
            LeaseLost: it is not this worker's.
            ResultConflict: it ended with another result.
        """
        async with self._database.writing() as connection:
            job = await _locked(connection, job_id)
            after = lifecycle.finished(job, lease, ending, self._clock())
            if after is not job:
                await _save(connection, after)
                if (measurement := measurement_of(ending)) is not None:
                    await insert_measurement(connection, measurement, self._clock(), job_id)
            return after

    async def cancel(self, job_id: str) -> Job:
        """Cancel a job, or ask its worker to.

        Raises:
            JobNotFound: there is no such job.
        """
        return await self._change(job_id, lifecycle.cancelled)

    async def sweep(self) -> int:
        """Move on the jobs whose time has run out; return how many there were."""
        now = self._clock()
        waiting = JOBS.c.state.in_([State.QUEUED, *HELD])
        query = select(JOBS).where(waiting, JOBS.c.expires_at <= now).limit(SWEPT_AT_ONCE)
        async with self._database.reading() as connection:
            if (await connection.execute(query.limit(1))).first() is None:
                return 0
        async with self._database.writing() as connection:
            found = list(map(_job, await connection.execute(query.with_for_update(skip_locked=True))))
            for job in found:
                await _save(connection, lifecycle.swept(job, now))
            return len(found)

    async def prune(self, seconds: float) -> int:
        """Forget jobs that were asked for longer ago than that and have ended; return how many.

        What they measured stays. Their idempotency keys may be used anew.
        """
        ended = and_(JOBS.c.state.in_(ENDED), JOBS.c.created_at < self._clock() - seconds)
        query = select(JOBS.c.id).where(ended).limit(PRUNED_AT_ONCE)
        async with self._database.reading() as connection:
            if (await connection.execute(query.limit(1))).first() is None:
                return 0
        async with self._database.writing() as connection:
            done = await connection.execute(JOBS.delete().where(JOBS.c.id.in_(query)))
            return done.rowcount

    async def _change(self, job_id: str, rule: Rule) -> Job:
        async with self._database.writing() as connection:
            job = await _locked(connection, job_id)
            after = rule(job, self._clock())
            return job if after is job else await _save(connection, after)


def _fits(offer: Offer) -> Sequence[Any]:
    def free_or_among(column: Any, names: tuple[str, ...]) -> Any:  # noqa: ANN401 - SQL's expressions
        return or_(column.is_(None), column.in_(names)) if names else column.is_(None)

    return (
        JOBS.c.kind.in_(offer.kinds),
        JOBS.c.gpus <= offer.gpus,
        free_or_among(JOBS.c.gpu_name, offer.gpu_names),
        free_or_among(JOBS.c.gpu_uuid, offer.gpu_uuids),
        free_or_among(JOBS.c.label, offer.labels),
        free_or_among(JOBS.c.engine_release, offer.releases),
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


CHANGING: Final = (
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
)


def _row(job: Job) -> dict[str, Any]:
    return {name: getattr(job, name) for name in CHANGING}


def _fixed(job: Job) -> dict[str, Any]:
    """Return what never changes, the target in columns of its own so that a worker's offer can be matched."""
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
    values = {name: getattr(row, name) for name in CHANGING}
    return replace(blank, **{**values, "state": State(row.state)})
