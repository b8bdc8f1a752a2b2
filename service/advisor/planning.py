"""Every candidate on every GPU type: a dry run each, ranked."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from service.advisor.answer import GpuPlan, Plan, Verdict
from service.advisor.fixes import run_with_fixes
from service.advisor.ranking import best_first
from service.advisor.request import EngineChoice, PlanRequest
from service.advisor.upgrade import upgrades
from service.engines.flags import ServeFlags
from service.engines.releases import check_flags, find_release, rules_for
from service.engines.rules import EngineRules
from service.gpus.gpu_type import GpuType

TENSOR_PARALLEL_SIZES: Final = (1, 2, 4, 8)
"""Sizes tried when the caller names none: those of one node."""


def plan(request: PlanRequest) -> Plan:
    """Dry-run every candidate of a question.

    Raises:
        UnknownRelease: the engine's release is not modelled.
        UnknownPatch: no patch has such a name.
        UnavailableFlag: the release lacks a flag that was given.
    """
    release = find_release(request.engine.version)
    rules = rules_for(release, request.engine.patches)
    check_flags(request.serve, release)
    return Plan(
        model=request.model,
        engine=EngineChoice(version=str(release), patches=request.engine.patches),
        plans=tuple(_plan_gpu(request, rules, gpu) for gpu in request.gpus),
        upgrades=upgrades(request),
    )


def _plan_gpu(request: PlanRequest, rules: EngineRules, gpu: GpuType) -> GpuPlan:
    candidates = best_first(
        tuple(run_with_fixes(request, flags, rules, gpu) for flags in _variants(request.serve, rules)),
        request.objective,
    )
    best = candidates[0] if candidates[0].verdict is not Verdict.REFUSED else None
    return GpuPlan(gpu, best, candidates)


def _variants(flags: ServeFlags, rules: EngineRules) -> Iterator[ServeFlags]:
    """Yield the flags of every candidate: each cache dtype at each size, unless told."""
    dtypes = rules.kv_cache_dtypes if flags.kv_cache_dtype is None else (flags.kv_cache_dtype,)
    told = flags.tensor_parallel_size
    sizes = TENSOR_PARALLEL_SIZES if told is None else (told,)
    for dtype in dtypes:
        for size in sizes:
            yield replace(flags, kv_cache_dtype=dtype, tensor_parallel_size=size)
