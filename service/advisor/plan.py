"""Every candidate on every GPU type: a dry run each, ranked."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from service.advisor.candidates.plan_types import Candidate, GpuPlan, Plan, Upgrade
from service.advisor.candidates.verdict import Verdict
from service.advisor.dry_runs.aliases import stores_other_floats
from service.advisor.dry_runs.grid import GridOfLength
from service.advisor.dry_runs.plan_cache import CachedSteps, PlanCache
from service.advisor.dry_runs.steps_of_advice import Asked, step_of
from service.advisor.dry_runs.workload_admission import replicated
from service.advisor.fixes.context_parallel import shared_tokens
from service.advisor.fixes.fewer_gpus import on_fewest_gpus
from service.advisor.fixes.fixes import grid_with_fixes, run_with_fixes, shared_refusal, with_nearest_fixed
from service.advisor.fixes.longer_starts import longer_starts
from service.advisor.fixes.sure_starts import sure_starts
from service.advisor.levers.levers import levers
from service.advisor.ranking.ranking import best_first
from service.advisor.ranking.speed_of_start import speed_of
from service.advisor.request.checkpoint_layouts import MOST_NAMED, runnable_siblings, with_size
from service.advisor.request.plan_request import Objective, PlanRequest
from service.advisor.upgrade import AskedStart, compared_start, upgrades
from service.advisor.variants import Field, candidates_of
from service.advisor.words.answer_words import counts_of, reason_as_given, verdict_sentence
from service.advisor.words.reason import reason
from service.engines.flags import ServeFlags
from service.gpus.gpu_type import GpuType
from service.speed.prices import cost_of

BLOCK_SIZES: Final = (16, 32, 64, 128)
"""Tokens per block that are tried beside the engine's choice."""


def plan(request: PlanRequest, cache: PlanCache | None = None) -> Plan:
    """Dry-run every candidate of a request; ``cache`` holds results of earlier requests for the same model.

    Raises:
        UnknownBackend: the release has no attention backend of the name that was given.
    """
    request = request if request.search else replace(request, serve=with_defaults(request.serve))
    rules = request.engine.rules
    steps = CachedSteps(request.model, rules) if cache is None else cache.steps(request.model, rules)
    available = request.counts or (None,) * len(request.gpus)
    plans = tuple(
        _plan_gpu(request.with_count(count), steps, gpu, count)
        for gpu, count in zip(request.gpus, available, strict=True)
    )
    counts = counts_of(plans, request.workload)
    return Plan(
        verdict=verdict_sentence(request, plans, counts),
        model=request.model,
        engine=request.engine,
        plans=plans,
        upgrades=tuple(_upgrades(request, plans, steps)),
        command=request.command,
        refusal=shared_refusal(request, plans, steps),
        workload=request.workload,
        find_checkpoints=lambda: tuple(_checkpoints(request)),
        counts=counts,
        whole_catalog=request.whole_catalog,
    )


def _checkpoints(request: PlanRequest) -> Iterator[str]:
    """Yield the quantized checkpoints of the model that run on the one GPU type, with their sizes."""
    if request.search and len(request.gpus) == 1:
        siblings = islice(runnable_siblings(request, request.gpus[0]), MOST_NAMED)
        yield from (with_size(each, request.engine.rules.release) for each in siblings)


def with_defaults(flags: ServeFlags) -> ServeFlags:
    """Return flags with the engine's defaults for what a plan would otherwise search.

    Source: vLLM 0.10.2 to 0.33.0, ParallelConfig.tensor_parallel_size 1, CacheConfig.cache_dtype auto.
    """
    return replace(
        flags,
        kv_cache_dtype=flags.kv_cache_dtype or "auto",
        tensor_parallel_size=flags.tensor_parallel_size or 1,
    )


def _upgrades(request: PlanRequest, plans: Iterable[GpuPlan], steps: CachedSteps) -> Iterator[Upgrade]:
    """Yield the steps between the compared releases, by the start that the newest of them recommends."""
    if not request.engine.compared:
        return
    newest = max(request.engine.compared, key=lambda rules: rules.release)
    engine = replace(request.engine, rules=newest)
    starts = []
    for each in plans:
        asked, chosen = request.with_count(each.count), each
        if newest.release != request.engine.rules.release:
            planned = replace(asked, engine=engine, with_levers=False)
            chosen = _plan_gpu(planned, steps.under(newest), each.gpu, each.count)
        starts.append(AskedStart(asked, compared_start(chosen), each.gpu))
    yield from upgrades(starts, steps)


def _plan_gpu(request: PlanRequest, steps: CachedSteps, gpu: GpuType, count: int | None) -> GpuPlan:
    def served(planned: Iterable[Candidate]) -> tuple[Candidate, ...]:
        return tuple([_served(request, _replicated(each, count, request), gpu) for each in planned])

    def run(variants: Iterable[ServeFlags]) -> tuple[Candidate, ...]:
        planned = [run_with_fixes(request, flags, gpu, steps) for flags in variants]
        specified = request.serve.kv_cache_dtype is not None
        return served([each for each in planned if specified or not stores_other_floats(each)])

    def run_grid(asked: GridOfLength) -> tuple[Candidate, ...]:
        return served(grid_with_fixes(request, asked, gpu, steps))

    if not request.search:
        only = _served(request, run_with_fixes(request, request.serve, gpu, steps), gpu)
        return _as_given(request, only, gpu, count, steps)
    found, asked = candidates_of(
        Field(request, steps, gpu, count, run, run_grid), Asked.of(request, gpu, count)
    )
    candidates = best_first(found, asked)
    if request.objective is Objective.TOKENS and candidates[0].may_serve:
        more = (each for each in run(_other_blocks(candidates[0])) if each.may_serve)
        candidates = best_first((*found, *more), asked)
    candidates = with_nearest_fixed(request, candidates, gpu, steps)
    best = _recommended(request, candidates[0])
    return GpuPlan(
        gpu,
        best,
        candidates,
        _with(_reasons(candidates, asked, request, count), request, candidates, steps, gpu),
        None if best is None else step_of(best, asked),
        count,
        levers(request, best, steps, gpu) if request.with_levers and best is not None else (),
    )


def _reasons(
    candidates: tuple[Candidate, ...], asked: Asked, request: PlanRequest, count: int | None
) -> tuple[str, ...]:
    """Return why the best candidate is recommended; where it is the only one, what it does."""
    if len(candidates) == 1 and candidates[0].may_serve:
        return reason_as_given(candidates[0], request)
    return reason(candidates, asked, request, count)


def _with(
    why: tuple[str, ...],
    request: PlanRequest,
    candidates: tuple[Candidate, ...],
    steps: CachedSteps,
    gpu: GpuType,
) -> tuple[str, ...]:
    """Return reasons with what else could be done: a sure start, a longer context, fewer GPUs."""
    best = _recommended(request, candidates[0])
    if best is None:
        return why
    fewest = on_fewest_gpus(request, best, steps, gpu)
    more = (
        sure_starts(request, best, candidates, steps, gpu),
        *longer_starts(request, best, steps, gpu),
        shared_tokens(request, best, steps, gpu),
    )
    return tuple(filter(None, (*why[:1], fewest, *why[1:], *more)))


def _as_written(request: PlanRequest, candidate: Candidate) -> Candidate:
    """Return a candidate whose command repeats what the caller's own command holds beside the flags."""
    return candidate if request.command is None else replace(candidate, carried=request.command.carried)


def _served(request: PlanRequest, candidate: Candidate, gpu: GpuType) -> Candidate:
    """Return a candidate as written, with the speed at which it serves the workload."""
    candidate = _as_written(request, candidate)
    if request.workload is None:
        return candidate
    speed = speed_of(candidate, gpu, request.workload)
    if speed is None:
        return candidate
    price = request.prices.price_of(gpu.id)
    cost = None if price is None else cost_of(speed, price, candidate.all_gpus)
    return replace(candidate, speed=speed, cost=cost)


def _replicated(candidate: Candidate, count: int | None, request: PlanRequest) -> Candidate:
    """Return a candidate with as many replicas as there are GPUs for."""
    replicas = 1 if count is None else max(1, count // candidate.gpus)
    return candidate if replicas == 1 else replicated(candidate, replicas, request.workload)


def _as_given(
    request: PlanRequest, candidate: Candidate, gpu: GpuType, count: int | None, steps: CachedSteps
) -> GpuPlan:
    """Return the plan of one start, as it was given: there is nothing to choose."""
    best = None if candidate.verdict is Verdict.REFUSED else candidate
    changes = levers(request, best, steps, gpu) if request.with_levers and best is not None else ()
    why = _with(reason_as_given(candidate, request), request, (candidate,), steps, gpu)
    return GpuPlan(gpu, best, (candidate,), why, count=count, levers=changes)


def _recommended(request: PlanRequest, best: Candidate) -> Candidate | None:
    """Return the best candidate, unless it is sure to fail or to give wrong answers.

    Such a candidate is returned, with its warnings, only if the caller asked for its cache dtype.
    """
    requested = request.serve.kv_cache_dtype is not None and best.verdict is not Verdict.REFUSED
    return best if best.may_serve or requested else None


def _other_blocks(best: Candidate) -> Iterator[ServeFlags]:
    """Yield the best candidate with other sizes of its blocks."""
    if best.flags.block_size is None:
        for size in BLOCK_SIZES:
            if size != best.block_size:
                yield replace(best.flags, block_size=size)
