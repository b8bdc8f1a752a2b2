"""The same behaviour on SQLite and on PostgreSQL."""

import asyncio
import json

import pytest

from service.application.workers_seen import can_take
from service.calibration.measurement import (
    MeasuredModel,
    Measurement,
    MeasurementOutcome,
    Result,
)
from service.probes import lifecycle
from service.probes.job_spec import (
    Engine,
    Inventory,
    JobSpec,
    ProbeKind,
    ProbeLimits,
    Target,
)
from service.probes.job_state import ENDED, State
from service.probes.lifecycle import (
    JobEnding,
    Lease,
    LeaseLost,
    ResultConflict,
)
from service.probes.limits import LEASE_SECONDS, QueueLimits
from service.probes.offer import Offer
from service.serialization import RESULT, written
from service.store.database import Database
from service.store.errors import JobNotFound, KeyReused, QueueFull
from service.store.jobs import JobStore
from service.store.measurements import MeasurementStore
from tests.calibration.test_measurements import MEASURED
from tests.store.conftest import SetClock

SPEC = JobSpec(Inventory())
OFFER = Offer("red", tuple(ProbeKind), gpus=8)


def ending(state: State = State.SUCCEEDED, measurement: Measurement | None = None) -> JobEnding:
    text = written(RESULT, Result(MeasurementOutcome.MEASURED, measurement=measurement))
    return JobEnding(state, text, f"digest-{state}-{measurement is not None}")


async def leased(jobs: JobStore, offer: Offer = OFFER) -> tuple[str, Lease]:
    job = await jobs.lease(offer)
    assert job is not None
    return job.id, Lease(offer.worker, job.fence)


async def test_a_job_comes_back_as_it_was_asked_for(jobs: JobStore) -> None:
    model = MeasuredModel("a/b", {"architectures": ["X"], "n": [1]}, 7)
    work = Engine(model, {"block_size": 16}, "0.32.0", 2, 1, 64, 10)
    spec = JobSpec(work, Target("H100", label="a", gpus=2), ProbeLimits(force=True), {"memory": {"total": 1}})
    job, new = await jobs.add(spec, None, "digest")
    assert new
    assert await jobs.get(job.id) == job
    assert job.spec == spec


async def test_the_same_key_queues_one_job(jobs: JobStore) -> None:
    results = await asyncio.gather(*(jobs.add(SPEC, "key", "digest") for _ in range(10)))
    assert len({job.id for job, _ in results}) == 1
    assert [new for _, new in results].count(True) == 1
    with pytest.raises(KeyReused):
        await jobs.add(SPEC, "key", "another digest")


async def test_two_workers_never_get_the_same_job(
    database: Database, database_url: str, clock: SetClock
) -> None:
    other = Database(database_url)
    replicas = JobStore(database, clock), JobStore(other, clock)
    added = {(await replicas[0].add(SPEC, None, "d"))[0].id for _ in range(20)}

    async def take(worker: int) -> list[str]:
        taken = []
        while (
            job := await replicas[worker % 2].lease(Offer(f"w{worker}", tuple(ProbeKind), gpus=1))
        ) is not None:
            taken.append(job.id)
        return taken

    taken = [job for many in await asyncio.gather(*map(take, range(6))) for job in many]
    await other.close()
    assert sorted(taken) == sorted(added)


async def test_the_oldest_job_comes_first(jobs: JobStore, clock: SetClock) -> None:
    first, _ = await jobs.add(SPEC, None, "d")
    clock.now += 1
    second, _ = await jobs.add(SPEC, None, "d")
    assert [(await leased(jobs))[0], (await leased(jobs))[0]] == [first.id, second.id]
    assert await jobs.lease(OFFER) is None
    assert [job.id for job in await jobs.latest(None, 10)] == [second.id, first.id]
    assert [job.id for job in await jobs.latest(None, 10, second)] == [first.id]
    assert await jobs.latest(State.QUEUED, 10) == ()


@pytest.mark.parametrize(
    ("target", "offer", "fits"),
    [
        (Target(), Offer("w", (ProbeKind.INVENTORY,), gpus=1), True),
        (Target(), Offer("w", (ProbeKind.ALLOC,), gpus=1), False),
        (Target(gpu_name="H100"), Offer("w", tuple(ProbeKind), ("H100", "T4"), gpus=1), True),
        (Target(gpu_name="H100"), Offer("w", tuple(ProbeKind), ("T4",), gpus=1), False),
        (Target(gpu_name="H100"), Offer("w", tuple(ProbeKind), gpus=1), False),
        (Target(gpu_uuid="GPU-1"), Offer("w", tuple(ProbeKind), gpu_uuids=("GPU-1",), gpus=1), True),
        (Target(gpu_uuid="GPU-1"), Offer("w", tuple(ProbeKind), gpu_uuids=("GPU-2",), gpus=1), False),
        (Target(label="rack-7"), Offer("w", tuple(ProbeKind), labels=("a", "rack-7"), gpus=1), True),
        (Target(label="rack-7"), Offer("w", tuple(ProbeKind), gpus=1), False),
        (Target(engine_release="0.32.0"), Offer("w", tuple(ProbeKind), releases=("0.32.0",), gpus=1), True),
        (Target(engine_release="0.32.0"), Offer("w", tuple(ProbeKind), releases=("0.31.0",), gpus=1), False),
        (Target(gpus=4), Offer("w", tuple(ProbeKind), gpus=4), True),
        (Target(gpus=4), Offer("w", tuple(ProbeKind), gpus=2), False),
    ],
)
async def test_a_worker_gets_what_it_can_run(
    jobs: JobStore, target: Target, offer: Offer, fits: bool
) -> None:
    await jobs.add(JobSpec(Inventory(), target), None, "d")
    assert (await jobs.lease(offer) is not None) is fits


async def test_a_result_and_its_measurement_are_kept_once(jobs: JobStore, database: Database) -> None:
    await jobs.add(SPEC, None, "d")
    job_id, lease = await leased(jobs)
    end = ending(measurement=MEASURED)
    assert (await jobs.finish(job_id, lease, end)).state is State.SUCCEEDED
    again = await jobs.finish(job_id, lease, end)
    assert json.loads(again.result or "")["outcome"] == "measured"
    with pytest.raises(ResultConflict):
        await jobs.finish(job_id, lease, ending(State.FAILED))
    stored = MeasurementStore(database)
    assert tuple((await stored.by_digest()).values()) == (MEASURED,)
    assert await stored.add([MEASURED]) == 0
    assert (await stored.state())[0] == 1


async def test_a_forged_fence_or_worker_is_refused(jobs: JobStore) -> None:
    await jobs.add(SPEC, None, "d")
    job_id, lease = await leased(jobs)
    for forged in (Lease(lease.worker, lease.fence + 1), Lease(lease.worker, 0), Lease("green", lease.fence)):
        with pytest.raises(LeaseLost):
            await jobs.heartbeat(job_id, forged, "")
        with pytest.raises(LeaseLost):
            await jobs.finish(job_id, forged, ending())
    assert (await jobs.heartbeat(job_id, lease, "loading")).phase == "loading"


async def test_a_lost_lease_goes_to_another_worker(jobs: JobStore, clock: SetClock) -> None:
    await jobs.add(SPEC, None, "d")
    job_id, lost = await leased(jobs)
    clock.now += LEASE_SECONDS
    again, lease = await leased(jobs, Offer("green", tuple(ProbeKind), gpus=1))
    assert (again, lease.fence) == (job_id, lost.fence + 1)
    with pytest.raises(LeaseLost):
        await jobs.finish(job_id, lost, ending())
    assert (await jobs.finish(job_id, lease, ending())).worker == "green"


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0])
async def test_a_clock_that_jumps_costs_a_run_and_never_a_result(
    jobs: JobStore, clock: SetClock, jump: float
) -> None:
    await jobs.add(SPEC, None, "d")
    job_id, lease = await leased(jobs)
    clock.now += jump
    if jump < 0:
        assert (await jobs.finish(job_id, lease, ending())).state is State.SUCCEEDED
        return
    with pytest.raises(LeaseLost):
        await jobs.finish(job_id, lease, ending())
    again, second = await leased(jobs)
    assert again == job_id
    assert (await jobs.finish(job_id, second, ending())).state is State.SUCCEEDED


async def test_what_nobody_takes_expires(jobs: JobStore, clock: SetClock) -> None:
    job, _ = await jobs.add(SPEC, None, "d")
    clock.now += lifecycle.QUEUE_SECONDS
    assert await jobs.sweep() == 1
    assert await jobs.sweep() == 0
    assert (await jobs.get(job.id)).state is State.EXPIRED


async def test_jobs_that_ended_long_ago_are_forgotten_and_their_measurements_are_not(
    jobs: JobStore, database: Database, clock: SetClock
) -> None:
    old: dict[State, str] = {}
    await jobs.add(SPEC, "key", "d")
    job_id, lease = await leased(jobs)
    await jobs.finish(job_id, lease, ending(measurement=MEASURED))
    old[State.SUCCEEDED] = job_id
    for state in (State.FAILED, State.REFUSED):
        await jobs.add(SPEC, None, "d")
        old[state], lease = await leased(jobs)
        await jobs.finish(old[state], lease, ending(state))
    cancelled, _ = await jobs.add(SPEC, None, "d")
    old[State.CANCELLED] = (await jobs.cancel(cancelled.id)).id
    expired, _ = await jobs.add(SPEC, None, "d")
    clock.now += lifecycle.QUEUE_SECONDS
    await jobs.sweep()
    old[State.EXPIRED] = expired.id
    assert set(old) == ENDED

    # Held and queued jobs stay, however old, and so does what ended a moment ago.
    await jobs.add(SPEC, None, "d")
    held, lease = await leased(jobs)
    queued, _ = await jobs.add(SPEC, None, "d")
    clock.now += 100
    young, _ = await jobs.add(SPEC, None, "d")
    await jobs.cancel(young.id)
    assert await jobs.prune(lifecycle.QUEUE_SECONDS + 200) == 0
    assert await jobs.prune(50) == len(old)
    assert await jobs.prune(50) == 0
    assert {job.id for job in await jobs.latest(None, 20)} == {held, queued.id, young.id}
    for gone in old.values():
        with pytest.raises(JobNotFound):
            await jobs.get(gone)
    assert tuple((await MeasurementStore(database).by_digest()).values()) == (MEASURED,)
    # Its key names nothing any more.
    assert (await jobs.add(SPEC, "key", "another digest"))[1]


async def test_old_jobs_are_forgotten_in_parts(
    jobs: JobStore, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.store.jobs.PRUNED_AT_ONCE", 3)
    for _ in range(5):
        job, _ = await jobs.add(SPEC, None, "d")
        await jobs.cancel(job.id)
    clock.now += 2
    assert [await jobs.prune(1) for _ in range(3)] == [3, 2, 0]


async def test_a_full_queue_takes_no_more(database: Database, clock: SetClock) -> None:
    jobs = JobStore(database, clock, limits=QueueLimits(waiting=3))
    first, _ = await jobs.add(SPEC, "first", "d")
    for _ in range(2):
        await jobs.add(SPEC, None, "d")
    with pytest.raises(QueueFull):
        await jobs.add(SPEC, None, "d")
    # Who asked before is told the same again.
    assert await jobs.add(SPEC, "first", "d") == (first, False)
    await leased(jobs)
    assert (await jobs.add(SPEC, None, "d"))[1]
    with pytest.raises(QueueFull):
        await jobs.add(SPEC, None, "d")


async def test_a_lease_outlives_the_service_that_gave_it(
    jobs: JobStore, database: Database, database_url: str, clock: SetClock
) -> None:
    await jobs.add(SPEC, None, "d")
    job_id, lease = await leased(jobs)
    await database.close()
    restarted = Database(database_url)
    after = JobStore(restarted, clock)
    clock.now += LEASE_SECONDS / 2
    assert (await after.heartbeat(job_id, lease, "loading")).state is State.RUNNING
    assert await after.lease(OFFER) is None
    clock.now += LEASE_SECONDS - 1
    assert (await after.finish(job_id, lease, ending())).state is State.SUCCEEDED
    await restarted.close()


async def test_cancelling(jobs: JobStore) -> None:
    queued, _ = await jobs.add(SPEC, None, "d")
    assert (await jobs.cancel(queued.id)).state is State.CANCELLED
    await jobs.add(SPEC, None, "d")
    job_id, lease = await leased(jobs)
    await jobs.cancel(job_id)
    assert (await jobs.heartbeat(job_id, lease, "")).cancel_requested
    assert (await jobs.finish(job_id, lease, ending(State.CANCELLED))).state is State.CANCELLED


async def test_an_unknown_job(jobs: JobStore) -> None:
    for requested in (jobs.get("0" * 32), jobs.cancel("x"), jobs.finish("x", Lease("red", 1), ending())):
        with pytest.raises(JobNotFound):
            await requested


TARGETS = [
    Target(gpu_name=name, gpu_uuid=uuid, label=label, engine_release=release, gpus=gpus)
    for name in (None, "L4")
    for uuid in (None, "GPU-1")
    for label in (None, "a")
    for release in (None, "0.32.0")
    for gpus in (1, 2)
]
OFFERS = [
    Offer("w", tuple(ProbeKind)),
    Offer("w", (ProbeKind.INVENTORY,), gpus=8),
    Offer("w", (ProbeKind.INVENTORY,), ("L4",), ("GPU-1",), ("a",), ("0.32.0",), 1),
    Offer("w", (ProbeKind.INVENTORY,), ("L4", "T4"), (), ("a", "b"), (), 2),
    Offer("w", (ProbeKind.ALLOC,), ("L4",), ("GPU-1",), ("a",), ("0.32.0",), 8),
]


@pytest.mark.parametrize("offer", OFFERS, ids=str)
async def test_who_could_take_a_job_is_who_is_given_it(offer: Offer, jobs: JobStore) -> None:
    """The words about waiting jobs select in Python, leases in SQL: both by the same rules."""
    for target in TARGETS:
        spec = JobSpec(Inventory(), target)
        job, _ = await jobs.add(spec, None, "digest")
        taken = await jobs.lease(offer)
        assert (taken is not None) == can_take(offer, spec), target
        if taken is None:
            await jobs.cancel(job.id)
