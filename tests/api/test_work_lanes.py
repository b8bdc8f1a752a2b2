"""Work that waits for its run: the order, the bounds, and those who do not wait for the answer."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from starlette.requests import Request

from service.advisor.candidates.plan_types import Plan
from service.advisor.request.plan_request import PlanRequest
from service.api.app import create_app
from service.api.app_options import AppOptions
from service.api.durations import Durations
from service.api.errors import CallerLeft, Overloaded
from service.api.lane import Lane
from service.api.work_lanes import WorkLanes, WorkLimits
from service.application.services import Services
from service.checkpoints import checkpoint
from tests.api.conftest import Client

PATIENCE = 30
QUICK = {"model": "Qwen/Qwen3-8B", "gpus": ["h100-sxm-80gb"]}
LARGE = {"model": "Qwen/Qwen3-8B"}


class Gate:
    """Holds work up until it is opened, and counts what went through."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.started = threading.Event()
        self.planned: list[int] = []

    def plan(self, planned: Callable[[PlanRequest], Plan], question: PlanRequest) -> Plan:
        self.planned.append(len(question.gpus))
        if len(question.gpus) > 1:
            self.started.set()
            assert self.opened.wait(PATIENCE)
        return planned(replace(question, gpus=question.gpus[:1]))


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.opened.set()


@pytest.fixture
def gated(services: Services, gate: Gate) -> FastAPI:
    held = replace(services, plan=lambda question: gate.plan(services.plan, question))
    return create_app(held, AppOptions(work=WorkLimits(large_waiting=2)))


def caller(app: FastAPI, peer: str = "10.0.0.1") -> Client:
    return Client(transport=httpx2.ASGITransport(app=app, client=(peer, 1)), base_url="http://dryserve.test")


async def waits(lane: Lane, number: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while lane.waiting != number:  # noqa: ASYNC110 - it tells of no event
            await asyncio.sleep(0.001)


async def test_operators_and_small_questions_do_not_wait_behind_large_ones(
    gated: FastAPI, gate: Gate
) -> None:
    async with caller(gated) as client, asyncio.timeout(PATIENCE):
        large = [asyncio.create_task(client.post("/plan", json=LARGE)) for _ in range(3)]
        await waits(gated.state.lanes.large, 2)
        for path in ("/livez", "/readyz", "/health", "/gpus", "/engines", "/models", "/problems"):
            assert (await client.get(path)).status_code == 200
        metrics = (await client.get("/metrics")).text
        assert 'dryserve_requests_waiting{size="large"} 2.0' in metrics
        assert 'dryserve_requests_running{size="large"} 1.0' in metrics
        assert (await client.post("/plan", json=QUICK)).status_code == 200
        assert (await client.get("/models/Qwen/Qwen3-8B")).status_code == 200
        assert not any(task.done() for task in large)
        gate.opened.set()
        assert [reply.status_code for reply in await asyncio.gather(*large)] == [200] * 3


async def test_a_full_queue_says_when_to_ask_again(gated: FastAPI, gate: Gate) -> None:
    async with caller(gated) as client, asyncio.timeout(PATIENCE):
        large = [asyncio.create_task(client.post("/plan", json=LARGE)) for _ in range(3)]
        await waits(gated.state.lanes.large, 2)
        reply = await client.post("/plan", json=LARGE)
        assert (reply.status_code, reply.json()["type"]) == (503, "/problems/overloaded")
        assert reply.headers["content-type"] == "application/problem+json"
        assert int(reply.headers["retry-after"]) == reply.json()["retry_after"] >= 1
        gate.opened.set()
        await asyncio.gather(*large)


async def test_a_caller_with_many_questions_makes_room_for_another(gated: FastAPI, gate: Gate) -> None:
    async with caller(gated) as greedy, caller(gated, "10.0.0.2") as other, asyncio.timeout(PATIENCE):
        first, second, third = (asyncio.create_task(greedy.post("/plan", json=LARGE)) for _ in range(3))
        await waits(gated.state.lanes.large, 2)
        fourth = asyncio.create_task(other.post("/plan", json=LARGE))
        # The latest of the caller who has most waiting.
        assert (await third).status_code == 503
        assert not fourth.done()
        gate.opened.set()
        assert [(await each).status_code for each in (first, second, fourth)] == [200] * 3


async def test_the_work_of_a_caller_who_hung_up_is_dropped(gated: FastAPI, gate: Gate) -> None:
    body = json.dumps(LARGE).encode()
    heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    heard.put_nowait({"type": "http.request", "body": body, "more_body": False})
    sent: list[dict[str, Any]] = []
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/plan",
        "raw_path": b"/plan",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
        "client": ("10.0.0.3", 1),
        "server": ("dryserve.test", 80),
        "scheme": "http",
        "root_path": "",
    }

    async def send(message: Any) -> None:  # noqa: ANN401 - the server's own
        sent.append(message)

    async with caller(gated) as client, asyncio.timeout(PATIENCE):
        first = asyncio.create_task(client.post("/plan", json=LARGE))
        await asyncio.to_thread(gate.started.wait, PATIENCE)
        leaving = asyncio.create_task(gated(scope, heard.get, send))
        await waits(gated.state.lanes.large, 1)
        heard.put_nowait({"type": "http.disconnect"})
        await leaving
        assert gated.state.lanes.large.waiting == 0
        gate.opened.set()
        assert (await first).status_code == 200
    assert sent[0]["status"] == 499
    assert len(gate.planned) == 1


def request_of(peer: str, left: asyncio.Event | None = None) -> Request:
    async def receive() -> Any:  # noqa: ANN401 - the server's own
        await (left or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    return Request({"type": "http", "client": (peer, 1), "headers": []}, receive)


async def test_callers_are_served_in_rotation_and_each_in_its_order() -> None:
    lane, opened, done = Lane(100, 1000), threading.Event(), list[str]()

    def work(name: str) -> Callable[[], None]:
        return lambda: done.append(name)

    held = asyncio.create_task(lane.run(lambda: opened.wait(PATIENCE), request_of("x")))
    await asyncio.sleep(0.01)
    names = ["a1", "a2", "a3", "b1", "b2", "c1"]
    tasks = []
    for name in names:
        tasks.append(asyncio.create_task(lane.run(work(name), request_of(name[0]))))
        await waits(lane, len(tasks))
    opened.set()
    await asyncio.gather(held, *tasks)
    assert done == ["a1", "b1", "c1", "a2", "b2", "a3"]
    assert (lane.busy, lane.waiting) == (False, 0)


async def test_the_lane_goes_on_after_faults_and_after_those_who_leave() -> None:
    lane, opened, left = Lane(100, 1000), threading.Event(), asyncio.Event()

    def fail() -> None:
        raise ValueError("x")

    held = asyncio.create_task(lane.run(lambda: opened.wait(PATIENCE), request_of("a")))
    await asyncio.sleep(0.01)
    failing = asyncio.create_task(lane.run(fail, request_of("a")))
    leaving = asyncio.create_task(lane.run(fail, request_of("a", left)))
    cancelled = asyncio.create_task(lane.run(fail, request_of("a")))
    last = asyncio.create_task(lane.run(lambda: 5, request_of("a")))
    await waits(lane, 4)
    left.set()
    cancelled.cancel()
    await waits(lane, 2)
    opened.set()
    with pytest.raises(CallerLeft):
        await leaving
    with pytest.raises(ValueError, match="x"):
        await failing
    assert (await last, await held) == (5, True)
    assert cancelled.cancelled()
    assert (lane.busy, lane.waiting) == (False, 0)


async def test_who_is_alone_is_refused_at_the_bound() -> None:
    lane, opened = Lane(0, 1000), threading.Event()
    held = asyncio.create_task(lane.run(lambda: opened.wait(PATIENCE), request_of("a")))
    await asyncio.sleep(0.01)
    with pytest.raises(Overloaded):
        await lane.run(lambda: None, request_of("a"))
    opened.set()
    await held


async def test_running_work_ends_when_its_caller_leaves() -> None:
    lane, left, started = Lane(100, 1000), asyncio.Event(), threading.Event()

    def endless() -> None:
        started.set()
        while True:
            checkpoint()

    leaving = asyncio.create_task(lane.run(endless, request_of("a", left)))
    await asyncio.to_thread(started.wait, PATIENCE)
    left.set()
    with pytest.raises(CallerLeft):
        await asyncio.wait_for(leaving, PATIENCE)
    assert await lane.run(lambda: 5, request_of("b")) == 5


async def test_work_stops_for_a_moment_while_callers_are_refused() -> None:
    """It takes twice its processor time at most, as for other work that is more urgent."""
    lane, ended = Lane(100, 1000), asyncio.Event()

    def busy() -> float:
        began, end = time.monotonic(), time.thread_time() + 0.1
        while time.thread_time() < end:
            checkpoint()
        return time.monotonic() - began

    async def refuse() -> None:
        while not ended.is_set():
            lane.note_refusal()
            await asyncio.sleep(0.001)

    refusing = asyncio.create_task(refuse())
    taken = await lane.run(busy, request_of("a"))
    ended.set()
    await refusing
    assert taken >= 0.15


async def test_work_that_waited_as_long_as_it_may_is_refused() -> None:
    lane, opened = Lane(100, 0.5), threading.Event()
    held = asyncio.create_task(lane.run(lambda: opened.wait(PATIENCE), request_of("a")))
    await asyncio.sleep(0.01)
    with pytest.raises(Overloaded):
        await asyncio.wait_for(lane.run(lambda: None, request_of("a")), PATIENCE)
    opened.set()
    assert await held
    assert (lane.busy, lane.waiting) == (False, 0)


def test_a_request_is_refused_before_it_is_read_where_its_work_would_be() -> None:
    lane = Lane(2, 1000)
    with ExitStack() as inside:
        for _ in range(3):
            inside.enter_context(lane.admit(request_of("a")))
        with pytest.raises(Overloaded), lane.admit(request_of("a")):
            pass
        # Another caller may still displace one of the first caller's.
        with lane.admit(request_of("b")):
            pass
    with lane.admit(request_of("a")):
        pass


def test_so_much_may_wait_as_gets_its_turn_in_time() -> None:
    lane = Lane(1000, 10)
    with ExitStack() as inside:
        for _ in range(10):
            inside.enter_context(lane.admit(request_of("a")))
        with pytest.raises(Overloaded):
            [inside.enter_context(lane.admit(request_of("a"))) for _ in range(100)]


async def test_a_question_about_all_gpu_types_is_refused_unread(gated: FastAPI, gate: Gate) -> None:
    async with caller(gated) as client, asyncio.timeout(PATIENCE):
        large = [asyncio.create_task(client.post("/plan", json=LARGE)) for _ in range(3)]
        await waits(gated.state.lanes.large, 2)
        unreadable = b'{"model": '
        assert (await client.post("/plan", content=unreadable)).status_code == 503
        assert (await client.post("/plan", content=unreadable + b'"gpus"')).status_code == 415
        gate.opened.set()
        await asyncio.gather(*large)


async def test_work_that_takes_longer_than_before_leaves_the_loop() -> None:
    """The loop is held for two checkpoints at most; a thread does all of the work."""
    run = WorkLanes().of(request_of("10.0.0.1"))
    threads: list[int] = []

    def work(seconds: float) -> int:
        threads.append(threading.get_ident())
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            checkpoint()
        return len(threads)

    for _ in range(2):
        await run(partial(work, 0.0), kind="search")
    assert await run(partial(work, 0.05), kind="search") == len(threads) == 4
    loop = threading.get_ident()
    assert [each == loop for each in threads] == [False, True, True, False]
    await run(partial(work, 0.0), kind="search")
    assert threads[-1] != loop


async def test_short_work_is_done_on_the_loop_once_it_is_known_to_be_short() -> None:
    threads: list[int] = []
    run = WorkLanes().of(Request({"type": "http", "client": ("10.0.0.1", 1)}))

    def work() -> int:
        threads.append(threading.get_ident())
        return len(threads)

    assert [await run(work, kind="short") for _ in range(3)] == [1, 2, 3]
    assert [each == threading.get_ident() for each in threads] == [False, True, True]


async def test_work_that_was_long_goes_back_to_a_thread() -> None:
    threads: list[int] = []
    run = WorkLanes().of(Request({"type": "http", "client": ("10.0.0.1", 1)}))

    def work(iterations: int) -> None:
        threads.append(threading.get_ident())
        sum(range(iterations))

    for iterations in (1, 2_000_000, 1, 1):
        await run(partial(work, iterations), kind="varied")
    assert [each == threading.get_ident() for each in threads] == [False, True, False, True]


def test_the_durations_that_are_remembered_are_bounded() -> None:
    durations = Durations(most=2)
    for kind in "abc":
        durations.measured(kind, int)
    assert [durations.is_short(kind) for kind in "abc"] == [False, True, True]
