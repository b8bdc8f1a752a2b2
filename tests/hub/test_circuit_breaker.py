"""When the Hub is left alone, and for how long."""

import asyncio
from dataclasses import dataclass

import httpx2
import pytest

from service.hub.circuit_breaker import FAILURES, CircuitBreaker
from service.hub.errors import HubRateLimited, HubUnreachable
from service.hub.requests import Quota
from service.hub.single_flight import SingleFlight
from tests.hub.fake_hub import (
    COMMIT,
    LLAMA,
    MODEL,
    hub_with_model,
)

OWNER = ""


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def wait_of(gate: CircuitBreaker, owner: str = OWNER, quota: Quota = Quota.API) -> int | None:
    try:
        gate.check(owner, quota, MODEL)
    except (HubRateLimited, HubUnreachable) as refusal:
        return refusal.retry_after
    return None


def test_a_refusal_closes_every_quota_of_one_owner_until_it_is_renewed() -> None:
    clock = Clock()
    gate = CircuitBreaker(clock)
    assert gate.refused(OWNER, 55) == 55
    assert (wait_of(gate), wait_of(gate, quota=Quota.FILES), wait_of(gate, "another")) == (55, 55, None)
    clock.now = 54.2
    assert wait_of(gate) == 1
    clock.now = 55.0
    assert wait_of(gate) is None


def test_a_spent_quota_leaves_the_other_open() -> None:
    gate = CircuitBreaker(Clock())
    gate.spent(OWNER, Quota.API, 30)
    assert (wait_of(gate), wait_of(gate, quota=Quota.FILES)) == (30, None)


def test_a_hub_that_fails_now_and_then_is_asked_on() -> None:
    gate = CircuitBreaker(Clock())
    for _ in range(20):
        for _ in range(FAILURES - 1):
            gate.failed()
        gate.answered()
    assert wait_of(gate) is None


def test_after_failures_in_a_row_one_trial_decides_for_all() -> None:
    clock = Clock()
    gate = CircuitBreaker(clock)
    for _ in range(FAILURES):
        gate.failed()
    assert wait_of(gate) == 60
    clock.now = 60.0
    assert wait_of(gate) is None  # the trial
    assert wait_of(gate) == 10  # everybody else
    gate.failed()
    assert wait_of(gate) == 60
    clock.now = 120.0
    assert wait_of(gate) is None
    gate.answered()
    assert wait_of(gate) is None
    assert wait_of(gate) is None


def test_no_connection_at_all_is_enough() -> None:
    gate = CircuitBreaker(Clock())
    gate.failed(connected=False)
    assert wait_of(gate) == 60


@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_a_servers_fault_is_tried_once_more(status: int) -> None:
    hub = hub_with_model()
    answers = iter([httpx2.Response(status), httpx2.Response(200, json={"sha": COMMIT})])
    hub.play("/revision/main", lambda: next(answers))
    assert (await hub.client().fetch(MODEL)).config == LLAMA


@pytest.mark.parametrize("status", [400, 403, 404, 429])
async def test_what_would_be_refused_again_is_not_tried_again(status: int) -> None:
    hub = hub_with_model()
    hub.play(
        "", lambda: httpx2.Response(status, headers={"X-Error-Code": "GatedRepo"} if status == 403 else {})
    )
    with pytest.raises(Exception, match=r"."):
        await hub.client().fetch(MODEL)
    paths = hub.paths()
    assert len(paths) == len(set(paths))


async def test_when_all_have_left_the_fetch_ends() -> None:
    flights: SingleFlight[int] = SingleFlight()
    ended = asyncio.Event()

    async def fetch() -> int:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return 1

    callers = [asyncio.create_task(flights.join("key", fetch)) for _ in range(3)]
    await asyncio.sleep(0)
    for caller in callers[:2]:
        caller.cancel()
    await asyncio.sleep(0)
    assert not ended.is_set()
    callers[2].cancel()
    await asyncio.gather(*callers, return_exceptions=True)
    assert ended.is_set()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_failed_fetch_is_not_remembered() -> None:
    flights: SingleFlight[int] = SingleFlight()

    async def failing() -> int:
        raise ValueError("no")

    async def working() -> int:
        return 1

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            await flights.join("key", failing)
    assert await flights.join("key", working) == 1
