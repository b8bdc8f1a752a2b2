"""Cached steps give what plain steps calculate."""

from dataclasses import replace

import pytest

from service.advisor.dry_run import dry_run
from service.advisor.plan import plan
from service.advisor.plan_cache import CachedSteps, PlanCache
from service.advisor.plan_request import (
    EngineChoice,
    Model,
    PlanRequest,
    Workload,
)
from service.engines.flags import ServeFlags
from service.engines.releases import find_release, rules_for
from service.gpus.catalog import gpu_catalog
from tests.accuracy.oracle import bundled_architecture
from tests.advisor.questions import (
    DEEPSEEK,
    GEMMA,
    LLAMA,
    QWEN,
)

GPUS = tuple(gpu for gpu in gpu_catalog() if gpu.modelled)


def request(model: str, version: str = "0.32.0") -> PlanRequest:
    return PlanRequest(
        Model(model, None, "bundled", bundled_architecture(model)),
        GPUS,
        EngineChoice.of(version),
        workload=Workload(4000, 100, 8),
    )


@pytest.mark.parametrize(
    ("model", "version"),
    [
        (GEMMA, "0.32.0"),
        (QWEN, "0.28.0"),
        (QWEN, "0.33.0"),
        (LLAMA, "0.19.0"),
        (GEMMA, "0.24.0"),
        (DEEPSEEK, "0.31.0"),
        (DEEPSEEK, "0.15.1"),
    ],
)
def test_cached_steps_give_the_candidates_of_plain_steps(model: str, version: str) -> None:
    requested, rules = request(model, version), rules_for(find_release(version))
    steps = CachedSteps(requested.model, rules)
    variants = [
        ServeFlags(kv_cache_dtype=dtype, tensor_parallel_size=ranks)
        for dtype in ("auto", "fp8", "fp8_e5m2", "turboquant_k8v4")
        for ranks in (2, 8)
    ]
    variants += [ServeFlags(dtype="bfloat16"), ServeFlags(pipeline_parallel_size=2, max_model_len=4096)]
    for flags in variants:
        for gpu in GPUS:
            alone = dry_run(requested, flags, rules, gpu)
            assert dry_run(requested, flags, rules, gpu, steps) == alone, (gpu.id, flags)


def test_a_cached_refusal_names_the_gpu_of_the_request() -> None:
    requested, rules = request(LLAMA), rules_for(find_release("0.32.0"))
    steps, flags = CachedSteps(requested.model, rules), ServeFlags(dtype="bfloat16")
    old = [gpu for gpu in GPUS if str(gpu.compute_capability) == "7.5"]
    refusals = [dry_run(requested, flags, rules, gpu, steps).error for gpu in old]
    assert len(old) > 1
    for gpu, refusal in zip(old, refusals, strict=True):
        assert refusal is not None
        assert f"Your {gpu.name} GPU has compute capability 7.5." in refusal.message


def test_what_differs_in_free_memory_or_devices_is_counted() -> None:
    requested, rules = request(LLAMA), rules_for(find_release("0.32.0"))
    steps, flags = CachedSteps(requested.model, rules), ServeFlags()
    sizes = []
    for free in (None, 10 << 30, 20 << 30):
        for gpu in GPUS[:2]:
            dry_run(replace(requested, free_memory_bytes=free), flags, rules, gpu, steps)
            sizes.append(steps.size)
    assert sizes == sorted(set(sizes))


def test_steps_under_other_rules_are_stored_and_counted() -> None:
    requested, rules = request(LLAMA), rules_for(find_release("0.32.0"))
    steps, older = CachedSteps(requested.model, rules), rules_for(find_release("0.30.0"))
    other = steps.under(older)
    assert other is steps.under(older) is not steps
    other.start(ServeFlags(), GPUS[0])
    # A start and a device.
    assert steps.size == other.size == 2
    assert steps.under(rules) is steps


def test_a_plan_cache_changes_no_answer() -> None:
    cache, requested = PlanCache(models=1), replace(request(GEMMA), gpus=GPUS[:12])
    first = plan(requested, cache)
    assert first == plan(requested, cache) == plan(requested)
    plan(replace(request(LLAMA), gpus=GPUS[:2]), cache)
    assert plan(requested, cache) == first


def test_a_plan_cache_is_of_one_model_under_one_release_and_bounded() -> None:
    rules, older = rules_for(find_release("0.32.0")), rules_for(find_release("0.19.0"))
    cache, model = PlanCache(models=1, results=3), request(LLAMA).model
    steps = cache.steps(model, rules)
    assert cache.steps(model, rules) is steps
    assert cache.steps(model, older) is not steps
    assert cache.steps(model, rules) is not steps
    patched = rules_for(find_release("0.32.0"), ("vllm#39866",))
    assert cache.steps(model, patched).rules is patched
    full = cache.steps(model, rules)
    for size in (1, 2, 4, 8):
        full.start(ServeFlags(tensor_parallel_size=size), GPUS[0])
    assert cache.steps(model, rules) is not full
