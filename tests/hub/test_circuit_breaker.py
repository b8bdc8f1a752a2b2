"""When the Hub is left alone, and for how long."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle

import httpx2
import pytest

from service.hub.caches.single_flight import SingleFlight
from service.hub.errors import HubError, HubRateLimited, HubUnreachable
from service.hub.limits import TransferLimits
from service.hub.transport.circuit_breaker import FAILURES, CircuitBreaker
from service.hub.transport.requests import Quota
from service.hub.transport.transfer import CONNECTIONS_OF_AN_OWNER
from tests.hub.fake_hub import (
    COMMIT,
    LLAMA,
    MODEL,
    FakeHub,
    hub_with_model,
)

OWNER = ""


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def wait_of(breaker: CircuitBreaker, owner: str = OWNER, quota: Quota = Quota.API) -> int | None:
    try:
        breaker.check(owner, quota, MODEL)
    except (HubRateLimited, HubUnreachable) as refusal:
        return refusal.retry_after
    return None


def test_a_refusal_closes_every_quota_of_one_owner_until_it_is_renewed() -> None:
    clock = Clock()
    breaker = CircuitBreaker(clock)
    assert breaker.record_rate_limit(OWNER, 55) == 55
    assert (wait_of(breaker), wait_of(breaker, quota=Quota.FILES), wait_of(breaker, "another")) == (
        55,
        55,
        None,
    )
    clock.now = 54.2
    assert wait_of(breaker) == 1
    clock.now = 55.0
    assert wait_of(breaker) is None


def test_a_spent_quota_leaves_the_other_open() -> None:
    breaker = CircuitBreaker(Clock())
    breaker.record_used_up_quota(OWNER, Quota.API, 30)
    assert (wait_of(breaker), wait_of(breaker, quota=Quota.FILES)) == (30, None)


OWNERS = ("acme", "bolt", "cork")


MODELS = tuple(f"{owner}/m" for owner in OWNERS)


def fail(breaker: CircuitBreaker, times: int = FAILURES, models: Sequence[str] = MODELS) -> None:
    for _, model in zip(range(times), cycle(models), strict=False):
        breaker.record_failure(model)


def test_a_hub_that_fails_now_and_then_is_asked_on() -> None:
    breaker = CircuitBreaker(Clock())
    for _ in range(20):
        fail(breaker, FAILURES - 1)
        for owner in OWNERS:
            breaker.record_success(f"{owner}/m")
    assert wait_of(breaker) is None


def test_after_failures_in_a_row_one_trial_decides_for_all() -> None:
    clock = Clock()
    breaker = CircuitBreaker(clock)
    fail(breaker)
    assert wait_of(breaker) == 60
    clock.now = 60.0
    assert wait_of(breaker) is None  # the trial
    assert wait_of(breaker) == 10  # everybody else
    breaker.record_failure(MODEL)
    assert wait_of(breaker) == 60
    clock.now = 120.0
    assert wait_of(breaker) is None
    breaker.record_success(MODEL)
    assert wait_of(breaker) is None
    assert wait_of(breaker) is None


def test_many_owners_whose_repositories_fail_once_each_are_enough() -> None:
    breaker = CircuitBreaker(Clock())
    fail(breaker, FAILURES, [f"owner-{number}/m" for number in range(FAILURES)])
    assert wait_of(breaker) == 60


@pytest.mark.parametrize(
    "models", [["evil/m"], ["evil/a", "evil/b", "evil/c"], ["evil/a", "evil/b", "other/c", "other/d"]]
)
def test_repositories_of_one_or_two_owners_leave_the_hub_to_the_others(models: list[str]) -> None:
    breaker = CircuitBreaker(Clock())
    fail(breaker, 1000, models)
    assert wait_of(breaker) is None
    for model in models:
        with pytest.raises(HubUnreachable, match="for this repository"):
            breaker.check(OWNER, Quota.API, model)


def test_a_repository_that_fails_is_tried_once_after_a_rest() -> None:
    clock = Clock()
    breaker = CircuitBreaker(clock)
    fail(breaker, FAILURES, [MODEL])
    assert wait_of(breaker) == 60
    clock.now = 60.0
    assert (wait_of(breaker), wait_of(breaker)) == (None, 10)
    breaker.record_failure(MODEL)
    assert wait_of(breaker) == 60
    clock.now = 120.0
    assert wait_of(breaker) is None
    breaker.record_success(MODEL)
    assert wait_of(breaker) is None


def test_no_connection_at_all_is_enough() -> None:
    breaker = CircuitBreaker(Clock())
    breaker.record_failure(MODEL, connected=False)
    assert wait_of(breaker) == 60


def test_what_is_kept_of_failing_repositories_is_bounded() -> None:
    breaker = CircuitBreaker(Clock())
    for number in range(3000):
        breaker.record_success(MODEL)
        fail(breaker, FAILURES, [f"evil/m{number}"])
    assert wait_of(breaker) is None
    breaker.check(OWNER, Quota.API, "evil/m0")  # forgotten
    with pytest.raises(HubUnreachable):
        breaker.check(OWNER, Quota.API, "evil/m2999")


OTHER = "good/model"


def two_repositories() -> FakeHub:
    hub = hub_with_model()
    hub.repositories[OTHER] = hub.repositories[MODEL]
    return hub


def raising(error: Exception) -> Callable[[], httpx2.Response]:
    def answer() -> httpx2.Response:
        raise error

    return answer


ONES_OWN_FAULTS: list[Callable[[], httpx2.Response]] = [
    lambda: httpx2.Response(500),
    lambda: httpx2.Response(504),
    raising(httpx2.ReadTimeout("slow")),
    raising(httpx2.ReadError("cut")),
    raising(httpx2.RemoteProtocolError("odd")),
    lambda: httpx2.Response(200, content=b"{" * 1000),
    lambda: httpx2.Response(200, content=b"[]"),
    lambda: httpx2.Response(302, headers={"Location": "https://evil.test/"}),
    lambda: httpx2.Response(200, headers={"Content-Encoding": "gzip"}),
]


@pytest.mark.parametrize("fault", ONES_OWN_FAULTS)
@pytest.mark.parametrize(
    "ending", [f"/models/{MODEL}/revision/main", f"{MODEL}/resolve/{COMMIT}/config.json"]
)
async def test_one_repository_that_fails_fails_for_nobody_else(
    ending: str, fault: Callable[[], httpx2.Response]
) -> None:
    clock, hub = Clock(), two_repositories()
    client = hub.client(clock=clock)
    hub.play(ending, fault)
    hub.play(f"{MODEL}/resolve/main/config.json", fault)
    for _ in range(3 * FAILURES):
        clock.now += 1
        with pytest.raises(HubError):
            await client.fetch(MODEL)
    assert (await client.fetch(OTHER)).config == LLAMA


async def test_a_repository_in_a_store_that_stalls_fails_for_nobody_else() -> None:
    hub = two_repositories()
    limits = TransferLimits(total_seconds=0.05)

    async def stalling(request: httpx2.Request) -> httpx2.Response:
        if request.url.host == "hub.test":
            return httpx2.Response(302, headers={"Location": "https://cdn-lfs.hf.co/x"})
        await asyncio.Event().wait()
        raise AssertionError

    hub.faults[f"{MODEL}/resolve/{COMMIT}/config.json"] = hub.faults["/x"] = stalling
    client = hub.client(limits=limits)
    for _ in range(2 * FAILURES):
        with pytest.raises(HubError):
            await client.fetch(MODEL)
    assert (await client.fetch(OTHER)).config == LLAMA


async def test_a_hub_that_fails_for_several_owners_is_left_alone() -> None:
    hub = FakeHub({f"{owner}/m": hub_with_model().repositories[MODEL] for owner in (*OWNERS, "last")})
    hub.play("", lambda: httpx2.Response(503))
    client = hub.client(clock=Clock())
    for owner in OWNERS:
        with pytest.raises(HubUnreachable):
            await client.fetch(f"{owner}/m")
    requested = len(hub.requests)
    with pytest.raises(HubUnreachable, match="recently"):
        await client.fetch("last/m")
    assert len(hub.requests) == requested


async def test_an_owner_has_a_share_of_the_connections() -> None:
    hub = FakeHub({f"evil/m{number}": hub_with_model().repositories[MODEL] for number in range(40)})
    hub.repositories[OTHER] = hub.repositories["evil/m0"]
    released, stalled = asyncio.Event(), 0

    async def stall(request: httpx2.Request) -> httpx2.Response:
        nonlocal stalled
        if "/evil/" in request.url.path:
            stalled += 1
            await released.wait()
        return httpx2.Response(200, json={"sha": COMMIT, "siblings": [{"rfilename": "config.json"}]})

    hub.faults["/revision/main"] = stall
    client = hub.client()
    slow = [asyncio.create_task(client.fetch(f"evil/m{number}")) for number in range(40)]
    await asyncio.sleep(0.05)
    assert stalled == CONNECTIONS_OF_AN_OWNER
    assert (await client.fetch(OTHER)).config == LLAMA
    released.set()
    assert [(await each).config for each in slow] == [LLAMA] * 40


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
