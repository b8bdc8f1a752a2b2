"""When a probe must not start, and when it must stop."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.units import GIB
from service.worker.devices import DeviceState
from service.worker.guard import (
    ProbeDemand,
    disturbed,
    endangered,
    guard_refusal,
    reserve_of,
)

IDLE = DeviceState("GPU-1", "NVIDIA H100 80GB HBM3", "9.0", 80 * GIB, 79 * GIB, GIB // 2)
DEMAND = ProbeDemand(20 * GIB)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (replace(IDLE, mig=True), "MIG"),
        (replace(IDLE, virtual=True), "virtual"),
        (replace(IDLE, awaits_reset=True), "reset"),
        (replace(IDLE, exclusive=True, pids=(7,)), "exclusive"),
        (replace(IDLE, exclusive=True, used=30 * GIB), "exclusive"),
        (replace(IDLE, pids=(7,)), "1 other process uses"),
        (replace(IDLE, pids=(7, 8)), "2 other processes use"),
        (replace(IDLE, utilization=1), "computing"),
        (replace(IDLE, used=30 * GIB, free=50 * GIB), "cannot see"),
        (replace(IDLE, free=23 * GIB), "stay free"),
    ],
)
def test_what_a_probe_must_not_disturb(state: DeviceState, words: str) -> None:
    reason = guard_refusal([IDLE, IDLE, state], DEMAND, 4 * GIB)
    assert reason is not None
    assert words in reason


def test_an_idle_gpu_may_be_probed() -> None:
    assert guard_refusal([IDLE] * 3, DEMAND, 4 * GIB) is None


def test_what_was_seen_once_counts() -> None:
    for glimpse in (replace(IDLE, pids=(7,)), replace(IDLE, utilization=80)):
        assert guard_refusal([glimpse, IDLE, IDLE], DEMAND, 4 * GIB) is not None


def test_force_runs_beside_others_but_never_into_the_reserve() -> None:
    shared = replace(IDLE, pids=(7,), used=48 * GIB, free=32 * GIB, utilization=90)
    forced = ProbeDemand(20 * GIB, force=True)
    assert guard_refusal([shared] * 3, forced, 4 * GIB) is None
    assert guard_refusal([shared] * 3, replace(forced, bytes=29 * GIB), 4 * GIB) is not None
    assert guard_refusal([replace(shared, mig=True)] * 3, forced, 4 * GIB) is not None


def test_a_job_keeps_to_its_own_limit() -> None:
    reason = guard_refusal([IDLE] * 3, replace(DEMAND, max_bytes=10 * GIB), 4 * GIB)
    assert reason is not None
    assert "its own limit" in reason


def test_the_reserve_is_the_most_that_anyone_asks_for() -> None:
    # 5 % of 80 GiB are 4; of 24 GiB 1.2, less than the 2 that are kept anyway.
    assert reserve_of(IDLE, None, DEMAND) == 4 * GIB
    assert reserve_of(replace(IDLE, total=24 * GIB), None, DEMAND) == 2 * GIB
    assert reserve_of(IDLE, 6 * GIB, DEMAND) == 6 * GIB
    assert reserve_of(IDLE, None, replace(DEMAND, reserve=8 * GIB)) == 8 * GIB
    assert reserve_of(IDLE, None, replace(DEMAND, reserve=0)) == 4 * GIB


@given(
    total=st.integers(8 * GIB, 300 * GIB),
    share=st.floats(0, 1),
    wanted=st.integers(0, 300 * GIB),
    force=st.booleans(),
)
def test_no_probe_that_starts_can_reach_into_the_reserve(
    total: int, share: float, wanted: int, force: bool
) -> None:
    free = int(total * share)
    state = replace(IDLE, total=total, free=free, used=0)
    demand = ProbeDemand(wanted, force=force)
    reserve = reserve_of(state, None, demand)
    if guard_refusal([state] * 3, demand, reserve) is None:
        assert not endangered(replace(state, free=free - wanted), reserve)


def test_a_measurement_that_others_disturbed_is_marked() -> None:
    nobody: frozenset[int] = frozenset()
    assert not disturbed(IDLE, IDLE, frozenset({11}), frozenset({11}))
    assert disturbed(IDLE, IDLE, frozenset({11, 12}), frozenset({11}))
    assert disturbed(replace(IDLE, pids=(7,)), IDLE, nobody, nobody)
    assert disturbed(IDLE, replace(IDLE, used=IDLE.used + GIB), nobody, nobody)
