"""Every candidate on every GPU type: a dry run each, ranked."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from service.advisor.fixes import run_with_fixes
from service.advisor.levers import levers
from service.advisor.plan_cache import RecentWork, SharedWork
from service.advisor.plan_request import EngineChoice, Objective, PlanRequest
from service.advisor.plan_types import (
    Candidate,
    GpuPlan,
    Plan,
    Verdict,
)
from service.advisor.ranking import best_first, reason, serves
from service.advisor.upgrade import upgrades
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.refusal import Stage
from service.engines.releases import check_flags, rules_for
from service.gpus.gpu_type import GpuType

TENSOR_PARALLEL_SIZES: Final = (1, 2, 4, 8)
"""Sizes tried when the caller names none: those of one node."""
NODES: Final = (2, 4)
"""Nodes tried, one pipeline stage each, when one has too little memory."""
BLOCK_SIZES: Final = (16, 32, 64, 128)
"""Tokens of a block tried beside what the engine chooses."""


def plan(request: PlanRequest, recent: RecentWork | None = None) -> Plan:
    """Dry-run every candidate of a question; what ``recent`` holds of its model need not be worked out anew.

    Raises:
        UnknownRelease: the engine's release is not modelled.
        UnknownPatch: no patch has such a name.
        UnavailableFlag: the release lacks a flag that was given.
    """
    engine = request.engine.resolve()
    rules = rules_for(engine, request.engine.patches)
    check_flags(request.serve, engine.release)
    work = SharedWork(request.model, rules) if recent is None else recent.of(request.model, rules)
    variants = tuple(map(work.known, _variants(request.serve, rules)))
    plans = tuple(_plan_gpu(request, variants, work, gpu) for gpu in request.gpus)
    return Plan(
        verdict=_verdict(request, plans),
        model=request.model,
        engine=EngineChoice(str(engine.release), request.engine.patches, doubt=engine.doubt or None),
        plans=plans,
        upgrades=upgrades(request),
    )


def _verdict(request: PlanRequest, plans: tuple[GpuPlan, ...]) -> str:
    """Say on how many of the GPU types the model starts."""
    starting = sum(plan.recommended is not None for plan in plans)
    served = sum(
        plan.recommended is not None and serves(plan.recommended, request.workload) for plan in plans
    )
    if not starting:
        stages = {candidate.error.stage for plan in plans for candidate in plan.candidates if candidate.error}
        word = "fit" if stages == {Stage.MEMORY} else "start"
        return f"{request.model.id} does not {word} on any of the {len(plans)} GPU types asked about."
    workload = "" if request.workload is None else f"; {served} serve the whole workload"
    return f"{request.model.id} starts, or may start, on {starting} of {len(plans)} GPU types{workload}."


def _plan_gpu(
    request: PlanRequest, variants: tuple[ServeFlags, ...], work: SharedWork, gpu: GpuType
) -> GpuPlan:
    def tried(variants: Iterable[ServeFlags]) -> tuple[Candidate, ...]:
        return tuple(run_with_fixes(request, flags, work.rules, gpu, work) for flags in variants)

    found = tried(variants)
    if not any(map(_might_start, found)):
        found += tried(_several_nodes(request, found))
    candidates = best_first(found, request.objective, request.workload)
    if request.objective is Objective.TOKENS and _might_start(candidates[0]):
        more = filter(_might_start, tried(_other_blocks(candidates[0])))
        candidates = best_first((*found, *more), request.objective, request.workload)
    best = candidates[0] if _might_start(candidates[0]) else None
    return GpuPlan(
        gpu,
        best,
        candidates,
        reason(candidates, request.objective, request.workload),
        levers(request, best, work, gpu) if request.with_levers and best is not None else (),
    )


def _might_start(candidate: Candidate) -> bool:
    return candidate.verdict is not Verdict.REFUSED


def _variants(flags: ServeFlags, rules: EngineRules) -> Iterator[ServeFlags]:
    """Yield the flags of every candidate: each cache dtype at each size, unless told."""
    dtypes = rules.dtypes.accepted if flags.kv_cache_dtype is None else (flags.kv_cache_dtype,)
    specified = flags.tensor_parallel_size
    sizes = TENSOR_PARALLEL_SIZES if specified is None else (specified,)
    for dtype in dtypes:
        for size in sizes:
            yield replace(flags, kv_cache_dtype=dtype, tensor_parallel_size=size)


def _several_nodes(request: PlanRequest, tried: tuple[Candidate, ...]) -> Iterator[ServeFlags]:
    """Yield the widest candidates over several nodes, where one node has too little memory."""
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
