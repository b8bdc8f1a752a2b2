"""Work that runs: ended when nobody waits or its time is over, stopped while more urgent work runs."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from service.advisor.candidates.plan_types import Plan
from service.advisor.request.plan_request import PlanRequest
from service.api.app import create_app
from service.api.app_options import AppOptions
from service.api.errors import CallerLeft, TimeLimitReached
from service.api.supervision import Supervision
from service.api.work_lanes import WorkLimits
from service.application.plans.plan_cost import expected_seconds
from service.application.plans.plan_requests import plan_request, read_plan_body
from service.application.plans.plan_writing import written_plan
from service.application.schemas.parts import Parts
from service.application.services import Services
from service.checkpoints import checked_by, checkpoint

PATIENCE = 30


def busy(seconds: float, each: Callable[[], None] = checkpoint) -> int:
    """Burn processor time, with checkpoints; return how many."""
    end, steps = time.thread_time() + seconds, 0
    while time.thread_time() < end:
        each()
        steps += 1
    return steps


def test_work_ends_when_nobody_waits_for_it() -> None:
    supervision = Supervision(1000, lambda: False)
    started, ended = threading.Event(), list[type[Exception]]()

    def step() -> None:
        started.set()
        checkpoint()

    def work() -> None:
        try:
            supervision.run(lambda: busy(PATIENCE, step))
        except CallerLeft as error:
            ended.append(type(error))

    thread = threading.Thread(target=work)
    thread.start()
    assert started.wait(PATIENCE)
    supervision.leave()
    thread.join(PATIENCE)
    assert ended == [CallerLeft]


def test_work_ends_at_its_time_limit() -> None:
    with pytest.raises(TimeLimitReached, match=r"more than 0.05 s"):
        Supervision(0.05, lambda: False).run(lambda: busy(PATIENCE))
    # Only within the work: afterwards checkpoints do nothing again.
    assert busy(0.06) > 0


def test_work_stops_for_urgent_work_but_not_for_ever() -> None:
    urgent = True
    supervision = Supervision(1000, lambda: urgent)
    before = time.monotonic()
    supervision.run(lambda: busy(0.1))
    stopped = time.monotonic() - before
    assert stopped >= 0.19
    urgent = False
    assert Supervision(1000, lambda: urgent).run(lambda: busy(0.01)) > 0


async def test_a_plan_has_a_checkpoint_for_each_candidate(services: Services) -> None:
    request = await asked(services, gpus=["h100-sxm-80gb"])
    passed: list[None] = []
    with checked_by(lambda: passed.append(None)):
        found = services.plan(request)
    assert len(passed) >= len(found.plans[0].candidates) > 10


async def test_a_plan_is_ended_between_candidates(services: Services) -> None:
    request, passed = await asked(services), list[None]()

    def leave() -> None:
        passed.append(None)
        if len(passed) == 5:
            raise CallerLeft

    with pytest.raises(CallerLeft), checked_by(leave):
        services.plan(request)
    assert len(passed) == 5


async def test_an_answer_has_a_checkpoint_for_each_candidate_that_is_written(services: Services) -> None:
    plan = services.plan(await asked(services, gpus=["h100-sxm-80gb"]))
    passed: list[None] = []
    with checked_by(lambda: passed.append(None)):
        written_plan(plan, Parts.of(("details",)))
    assert len(passed) >= len(plan.plans[0].candidates) > 10


async def test_dearer_questions_are_expected_to_take_longer(services: Services) -> None:
    one, few = ["h100-sxm-80gb"], ["h100-sxm-80gb", "l4-24gb", "t4-16gb"]
    pinned = {"tensor_parallel_size": 1, "kv_cache_dtype": "auto"}
    in_order = [
        await cost(services, gpus=one, serve=pinned),
        await cost(services, gpus=one),
        await cost(services, gpus=one, include=["levers"]),
        await cost(services, gpus=few),
        await cost(services, gpus=few, include=["levers", "details"]),
        await cost(services),
        await cost(services, include=["levers", "details"]),
    ]
    assert in_order == sorted(set(in_order))


async def asked(services: Services, **body: object) -> PlanRequest:
    return await plan_request(read_plan_body({"model": "Qwen/Qwen3-8B", **body}), services)


async def cost(services: Services, *, include: Sequence[str] = (), **body: object) -> float:
    return expected_seconds(await asked(services, include=list(include), **body), include)


def test_a_request_that_takes_too_long_is_answered_with_the_limit(services: Services) -> None:
    def endless(request: PlanRequest) -> Plan:
        busy(PATIENCE)
        return services.plan(request)

    slow = replace(services, plan=endless)
    with TestClient(create_app(slow, AppOptions(work=WorkLimits(seconds=0.1)))) as client:
        reply = client.post("/plan", json={"model": "Qwen/Qwen3-8B"})
    assert (reply.status_code, reply.json()["type"]) == (422, "/problems/time-limit")
    assert "0.1 s" in reply.json()["detail"]
