"""What answers leave is freed by reference counts: full garbage collections wait for a quiet moment.

A service at work has none for a quarter of an hour, so cycles stay as long as that.
"""

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from service.advisor.dry_runs.plan_cache import PlanCache
from service.advisor.plan import plan
from service.advisor.request.plan_request import Model, PlanRequest
from service.application.schemas.requests.plan_body import PlanBody
from service.application.services import Services
from service.engines.flags import ServeFlags
from service.gpus.catalog import find_gpu
from tests.accuracy.oracle import bundled_architecture

AGAIN = 5
MEASURED = 3
"""Measurements, of which the least counts: what another thread drops meanwhile is in one of them alone."""


@contextmanager
def without_collections() -> Iterator[None]:
    """Free what can be freed, and let nothing but reference counts free what comes.

    What is there before is set aside, so that a collection looks only at what came since.
    """
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def unreachable_after(work: Callable[[], object]) -> int:
    """Return how many objects only a garbage collection frees after work that was done before."""
    work()
    with without_collections():
        return min(_left_by(work) for _ in range(MEASURED))


def _left_by(work: Callable[[], object]) -> int:
    gc.collect()
    for _ in range(AGAIN):
        work()
    return gc.collect()


@pytest.mark.parametrize(
    "body",
    [
        {"model": "Qwen/Qwen3-8B"},
        {"model": "Qwen/Qwen3-8B", "engine": {"version": "0.32.0"}, "serve": {"max_model_len": 4096}},
        {"command": "vllm serve Qwen/Qwen3-8B"},
    ],
)
def test_reading_a_body_leaves_no_cycles(body: dict[str, Any]) -> None:
    assert unreachable_after(lambda: PlanBody.model_validate(body)) == 0


@pytest.mark.parametrize(
    "flags",
    [
        ServeFlags(),
        ServeFlags(max_model_len=4096),
        ServeFlags(tensor_parallel_size=1, kv_cache_dtype="auto"),  # refused for want of memory, with fixes
    ],
)
def test_plans_of_a_model_that_is_dropped_leave_no_cycles(flags: ServeFlags) -> None:
    model = Model("google/gemma-4-31B-it", None, "bundled", bundled_architecture("google/gemma-4-31B-it"))
    request = PlanRequest(model, (find_gpu("h100-sxm-80gb"), find_gpu("rtx-3090-24gb")), serve=flags)
    assert unreachable_after(lambda: plan(request, PlanCache())) == 0


def test_reading_a_bundled_model_while_the_hub_is_not_asked_leaves_no_cycles(services: Services) -> None:
    async def read() -> None:
        await services.models.resolve("Qwen/Qwen3-8B")

    async def read_again() -> int:
        await read()
        with without_collections():
            for _ in range(AGAIN):
                await read()
            return gc.collect()

    assert asyncio.run(read_again()) == 0
