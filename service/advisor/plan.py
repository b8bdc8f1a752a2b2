"""Every candidate on every GPU type: a dry run each, ranked."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from service.advisor.fixes import run_with_fixes
from service.advisor.levers import levers
from service.advisor.plan_cache import CachedSteps, PlanCache
from service.advisor.plan_request import Objective, PlanRequest
from service.advisor.plan_types import (
    Candidate,
    GpuPlan,
    Plan,
    Verdict,
)
from service.advisor.ranking import (
    Service,
    best_first,
    reason,
    service_of,
)
from service.advisor.upgrade import upgrades
from service.engines.flags import ServeFlags
from service.engines.refusal import Stage
from service.engines.rules.dtypes import DtypeRules
from service.gpus.gpu_type import GpuType

TENSOR_PARALLEL_SIZES: Final = (1, 2, 4, 8)
"""Sizes tried if the caller gives none: those of one node."""
NODES: Final = (2, 4)
"""Nodes tried, with one pipeline stage each, if one node has too little memory."""
BLOCK_SIZES: Final = (16, 32, 64, 128)
"""Tokens per block that are tried beside the engine's choice."""


def plan(request: PlanRequest, cache: PlanCache | None = None) -> Plan:
    """Dry-run every candidate of a request; ``cache`` holds results of earlier requests for the same model.

    Raises:
        UnknownBackend: the release has no attention backend of the name that was given.
    """
    rules = request.engine.rules
    steps = CachedSteps(request.model, rules) if cache is None else cache.steps(request.model, rules)
    variants = tuple(map(steps.known, _variants(request.serve, rules.dtypes)))
    plans = tuple(_plan_gpu(request, variants, steps, gpu) for gpu in request.gpus)
    return Plan(
        verdict=_verdict(request, plans),
        model=request.model,
        engine=request.engine,
        plans=plans,
        upgrades=upgrades(request),
    )


def _verdict(request: PlanRequest, plans: tuple[GpuPlan, ...]) -> str:
    """Say on how many of the GPU types the model starts."""
    starting = sum(plan.recommended is not None for plan in plans)
    if not starting:
        stages = {candidate.error.stage for plan in plans for candidate in plan.candidates if candidate.error}
        word = "fit" if stages == {Stage.MEMORY} else "start"
        return f"{request.model.id} does not {word} on any of the {len(plans)} GPU types of the request."
    return (
        f"{request.model.id} starts, or may start, on {starting} of {len(plans)} GPU types"
        f"{_workload_words(request, plans)}."
    )


def _workload_words(request: PlanRequest, plans: tuple[GpuPlan, ...]) -> str:
    """Say on how many of the GPU types the whole workload is served."""
    if request.workload is None:
        return ""
    services = [service_of(plan.recommended, request.workload) for plan in plans if plan.recommended]
    interrupted = services.count(Service.INTERRUPTED)
    more = f", and {interrupted} admit all its requests but preempt some of them" if interrupted else ""
    return f"; {services.count(Service.WHOLE)} serve the whole workload{more}"


def _plan_gpu(
    request: PlanRequest, variants: tuple[ServeFlags, ...], steps: CachedSteps, gpu: GpuType
) -> GpuPlan:
    def tried(variants: Iterable[ServeFlags]) -> tuple[Candidate, ...]:
        candidates = (run_with_fixes(request, flags, gpu, steps) for flags in variants)
        return tuple(candidate for candidate in candidates if _is_offered(request, candidate))

    found = tried(variants)
    if not any(map(_may_serve, found)):
        found += tried(_several_nodes(request, found))
    candidates = best_first(found, request.objective, request.workload)
    if request.objective is Objective.TOKENS and _may_serve(candidates[0]):
        more = filter(_may_serve, tried(_other_blocks(candidates[0])))
        candidates = best_first((*found, *more), request.objective, request.workload)
    best = _recommended(request, candidates[0])
    return GpuPlan(
        gpu,
        best,
        candidates,
        reason(candidates, request.objective, request.workload),
        levers(request, best, steps, gpu) if request.with_levers and best is not None else (),
    )


def _recommended(request: PlanRequest, best: Candidate) -> Candidate | None:
    """Return the best candidate, unless it is sure to fail or to give wrong answers.

    Such a candidate is returned, with its warnings, only if the caller asked for its cache dtype.
    """
    requested = request.serve.kv_cache_dtype is not None and best.verdict is not Verdict.REFUSED
    return best if best.may_serve or requested else None


def _may_serve(candidate: Candidate) -> bool:
    return candidate.may_serve


def _is_offered(request: PlanRequest, candidate: Candidate) -> bool:
    """Whether a candidate is listed: other 16-bit floats than the model's only if requested."""
    specified = request.serve.kv_cache_dtype is not None
    other = candidate.start is not None and candidate.start.names_other_floats
    return specified or candidate.error is not None or candidate.fails or not other


def _variants(flags: ServeFlags, rules: DtypeRules) -> Iterator[ServeFlags]:
    """Yield the flags of every candidate: each cache dtype at each tensor parallel size, unless given."""
    dtypes = rules.accepted if flags.kv_cache_dtype is None else (flags.kv_cache_dtype,)
    specified = flags.tensor_parallel_size
    sizes = TENSOR_PARALLEL_SIZES if specified is None else (specified,)
    for dtype in dtypes:
        for size in sizes:
            yield replace(flags, kv_cache_dtype=dtype, tensor_parallel_size=size)


def _several_nodes(request: PlanRequest, tried: tuple[Candidate, ...]) -> Iterator[ServeFlags]:
    """Yield the candidates with most ranks over several nodes, if one node has too little memory."""
    if request.serve.tensor_parallel_size is not None or request.serve.pipeline_parallel_size > 1:
        return
    for candidate in tried:
        short = candidate.error is not None and candidate.error.stage is Stage.MEMORY
        if short and candidate.tensor_parallel_size == TENSOR_PARALLEL_SIZES[-1]:
            for nodes in NODES:
                yield replace(candidate.flags, pipeline_parallel_size=nodes)


def _other_blocks(best: Candidate) -> Iterator[ServeFlags]:
    """Yield the best candidate with other sizes of its blocks."""
    if best.flags.block_size is None:
        for size in BLOCK_SIZES:
            if size != best.block_size:
                yield replace(best.flags, block_size=size)
