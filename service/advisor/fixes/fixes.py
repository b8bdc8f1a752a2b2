"""Fixes: changes that get past a refusal, each tried by a dry run before it is named."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Final, TypeAlias

from service.advisor.candidates.command import serve_command
from service.advisor.candidates.plan_types import Candidate, GpuPlan
from service.advisor.candidates.refusal import Fix, Refusal
from service.advisor.candidates.verdict import Verdict
from service.advisor.dry_runs.dry_run import dry_run, dry_runs
from service.advisor.dry_runs.engine_steps import EngineSteps
from service.advisor.dry_runs.grid import GridOfLength
from service.advisor.dry_runs.steps_of_advice import length_of
from service.advisor.fixes.fix_attempt import FixAttempt
from service.advisor.fixes.fix_attempts import PARALLEL_SIZES, attempts_of, last_sources, other_model_dtypes
from service.advisor.fixes.fix_notes import RefusedStart, notes_of
from service.advisor.fixes.joint_fixes import joint_attempts
from service.advisor.fixes.memory_changes import blind_sources
from service.advisor.ranking.nearest_refused import nearest_refused
from service.advisor.request.plan_request import Model, PlanRequest
from service.changed import changed
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.refusal import Stage
from service.engines.releases import (
    RELEASES,
    rules_for,
)
from service.gpus.gpu_type import GpuType
from service.kv_cache.capture import capture_failure

SEVERAL: Final = 2
MOST: Final = 6
"""Fixes named at most."""
ENOUGH: Final = 3
"""Fixes that are sure, with which those that take much are not tried."""
Tried: TypeAlias = Callable[[FixAttempt], Candidate | None]
"""Returns the start that a change leads to, or ``None`` where it fails too."""
Worked: TypeAlias = tuple[FixAttempt, Candidate]
"""A change that works, and the start with it."""


def run_with_fixes(request: PlanRequest, flags: ServeFlags, gpu: GpuType, steps: EngineSteps) -> Candidate:
    """Return what the engine does, with the changes that get past its refusal.

    A request without a cache dtype gets no changes but a shorter context: its other candidates show what the
    other dtypes do. A request for many GPU types gets none: the other types show it.
    """
    return _with_fixes_of(request, dry_run(request, flags, steps.rules, gpu, steps), gpu, steps)


def grid_with_fixes(
    request: PlanRequest, asked: GridOfLength, gpu: GpuType, steps: EngineSteps
) -> list[Candidate]:
    """Return the same for each flags of a grid."""
    found = dry_runs(request, asked, gpu, steps)
    if request.is_survey:
        return found
    return [_with_fixes_of(request, each, gpu, steps) for each in found]


def _with_fixes_of(request: PlanRequest, candidate: Candidate, gpu: GpuType, steps: EngineSteps) -> Candidate:
    if (candidate.error is None and not candidate.fails) or request.is_survey:
        return candidate
    searched = request.serve.kv_cache_dtype is None
    return with_fixes(request, candidate, gpu, steps, shorter_only=searched)


def with_nearest_fixed(
    request: PlanRequest, candidates: tuple[Candidate, ...], gpu: GpuType, steps: EngineSteps
) -> tuple[Candidate, ...]:
    """Return the candidates, that nearest to a start with all its fixes, if none of them may start.

    ``candidates``: best first. A request for many GPU types gets none, as above.
    """
    near = nearest_refused(candidates)
    if near is None or request.serve.kv_cache_dtype is not None or request.is_survey:
        return candidates
    fixed = with_fixes(request, near, gpu, steps)
    return tuple(fixed if candidate is near else candidate for candidate in candidates)


def shared_refusal(request: PlanRequest, plans: Sequence[GpuPlan], steps: EngineSteps) -> Refusal | None:
    """Return the refusal with which the start nearest to success ends on every GPU type, with its fixes.

    The fixes are those for the GPU type with the most memory. ``None`` where refusals differ, where any
    candidate may start, or where there is one GPU type alone.
    """
    nearest = [nearest_refused(plan.candidates) for plan in plans]
    errors = {each.error and each.error.bare if each else None for each in nearest}
    if len(plans) < SEVERAL or len(errors) > 1 or None in errors:
        return None
    largest, near = max(zip(plans, nearest, strict=True), key=lambda pair: pair[0].gpu.memory_bytes)
    if near is None:
        return None
    error = with_fixes(request.with_count(largest.count), near, largest.gpu, steps).error
    if error is None or not error.fixes:
        return error
    return replace(error, notes=(_tried_on(near, largest.gpu), *error.notes))


def _tried_on(candidate: Candidate, gpu: GpuType) -> str:
    """Say which start the fixes of a shared refusal change, and on which GPU type."""
    flags = candidate.flags
    sizes = ((name, getattr(flags, name) or 1) for name in PARALLEL_SIZES)
    ranks = "".join(
        f" --{name.replace('_', '-')} {size}" for name, size in sizes if size > 1 or name == PARALLEL_SIZES[0]
    )
    return (
        f"Fixes are tried on {gpu.id} (most memory), from --kv-cache-dtype {candidate.kv_cache_dtype}{ranks}."
    )


def with_fixes(
    request: PlanRequest,
    candidate: Candidate,
    gpu: GpuType,
    steps: EngineSteps,
    *,
    shorter_only: bool = False,
) -> Candidate:
    """Return a candidate that is refused, or sure to fail, with the changes that avoid this."""
    found = changes_that_work(request, candidate, gpu, steps, shorter_only=shorter_only)
    fixes = tuple(fix_of(request.model, *each) for each in found)
    if candidate.error is not None:
        notes: tuple[str, ...] = ()
        if not shorter_only:
            base = _without_search(request, candidate)
            refused = RefusedStart(request, candidate, base, gpu, steps)
            notes = tuple(notes_of(refused, fixes, started_with))
        if (fixes, notes) == (candidate.error.fixes, candidate.error.notes):
            return candidate
        return changed(candidate, error=changed(candidate.error, fixes=fixes, notes=notes))
    remedy = "; ".join(fix.change for fix in fixes)
    doubts = (f"Single changes that avoid this, each tried by a dry run: {remedy}.",) if fixes else ()
    return replace(candidate, doubts=(*candidate.doubts, *doubts))


def changes_that_work(
    request: PlanRequest,
    candidate: Candidate,
    gpu: GpuType,
    steps: EngineSteps,
    *,
    shorter_only: bool = False,
) -> tuple[Worked, ...]:
    """Return the changes that avoid a refusal or a sure failure, the least costly first."""

    def tried(attempt: FixAttempt) -> Candidate | None:
        return started_with(request, attempt, gpu, steps)

    base = _without_search(request, candidate)
    sources = attempts_of(request, base, gpu, steps, shorter_only=shorter_only)
    found = needed_only(found_of(sources, tried), base.flags)
    if shorter_only:
        return found
    if sum(start.verdict is Verdict.STARTS for _, start in found) < ENOUGH:
        last = found_of(last_sources(request, base, gpu, steps), tried)
        found = needed_only(_most_certain((*found, *last)), base.flags)
    refused = RefusedStart(request, candidate, base, gpu, steps)
    found = (*_joint(refused, found, tried), *(found or _past_two_refusals(refused)))
    newer = newer_release(base.flags, steps.rules, tried)
    return (*found[: MOST - len(newer)], *newer)


def _without_search(request: PlanRequest, candidate: Candidate) -> Candidate:
    """Return a candidate without what the search changed to save memory: weights, length and sequences.

    A fix is a change of what was asked, so its words say everything that it changes.
    """
    serve, error = request.serve, candidate.error
    if error is None or error.stage is not Stage.MEMORY:
        return candidate
    flags = changed(
        candidate.flags,
        quantization=serve.quantization,
        max_model_len=serve.max_model_len,
        max_num_seqs=serve.max_num_seqs,
    )
    return changed(candidate, flags=flags)


def _joint(refused: RefusedStart, found: tuple[Worked, ...], tried: Tried) -> Iterator[Worked]:
    """Yield what takes away much, where nothing else helps without more GPUs or the host's memory.

    No encoders, then all that saves memory at once.
    """
    base = refused.base
    if not refused.lacks_memory or base.gpus > 1:
        return
    if any(start.gpus == base.gpus and not attempt.flags.cpu_offload_gb for attempt, start in found):
        return
    asked = (refused.request, base, refused.gpu, refused.steps)
    blind = blind_sources(refused.request, base.flags, refused.steps, refused.gpu)
    for source in (*blind, *joint_attempts(*asked)):
        one = surest(source, tried)
        if one is not None:
            yield one
            return


def _past_two_refusals(refused: RefusedStart) -> Iterator[Worked]:
    """Yield another dtype of the weights, together with what the memory needs behind that refusal.

    Only for the first dtype with which the start gets as far as the memory.
    """
    request, gpu, steps = refused.request, refused.gpu, refused.steps
    if refused.candidate.error is None or refused.lacks_memory:
        return
    for first in other_model_dtypes(refused.base.flags, steps.rules):
        behind = dry_run(request, first.flags, first.rules, gpu, steps)
        if behind.error is None or behind.error.stage is not Stage.MEMORY:
            continue
        asked = replace(request, serve=first.flags)
        for attempt, start in changes_that_work(asked, behind, gpu, steps):
            yield replace(attempt, words=f"{attempt.words} {first.words}"), start
        return


def found_of(sources: Iterable[Iterable[FixAttempt]], tried: Tried) -> tuple[Worked, ...]:
    """Return what works of each kind, until ``MOST`` are sure; what is not sure gives way to what is."""
    found: list[Worked] = []
    certain = 0
    for source in sources:
        one = surest(source, tried)
        if one is not None:
            found.append(one)
            certain += one[1].verdict is Verdict.STARTS
        if certain == MOST:
            break
    return _most_certain(tuple(found))


def _most_certain(found: tuple[Worked, ...]) -> tuple[Worked, ...]:
    """Return as many as are named at most: the last of those that are not sure are left out."""
    surplus = max(0, len(found) - MOST)
    doubtful = [place for place, (_, start) in enumerate(found) if start.verdict is not Verdict.STARTS]
    left_out = set(doubtful[max(0, len(doubtful) - surplus) :]) if surplus else set[int]()
    return tuple([each for place, each in enumerate(found) if place not in left_out])[:MOST]


def needed_only(found: tuple[Worked, ...], base: ServeFlags) -> tuple[Worked, ...]:
    """Return fixes without those that contain another one, and serve no longer context than that one."""
    made = [_changes(attempt, base) for attempt, _ in found]

    def is_enough(one: int, other: int) -> bool:
        """Whether a fix does with fewer changes what another one does."""
        (_, start), (_, larger) = found[one], found[other]
        fewer = made[one] < made[other] or (made[one] == made[other] and one < other)
        sure = start.verdict is Verdict.STARTS or larger.verdict is not Verdict.STARTS
        return fewer and sure and length_of(start) >= length_of(larger)

    places = range(len(found))
    return tuple([found[each] for each in places if not any(is_enough(other, each) for other in places)])


def _changes(attempt: FixAttempt, base: ServeFlags) -> frozenset[tuple[str, object]]:
    """Return what a fix changes, but the length of the context."""
    names = (each.name for each in fields(base) if each.name != "max_model_len")
    values = ((name, getattr(attempt.flags, name)) for name in names)
    flags = {(name, value) for name, value in values if value != getattr(base, name)}
    checkpoint = None if attempt.model is None else attempt.model.id
    return frozenset({*flags, ("checkpoint", checkpoint), ("rules", attempt.rules)})


def working(sources: Iterable[Iterable[FixAttempt]], tried: Tried) -> Iterator[Worked]:
    """Yield the first change of each kind that is sure to get past the refusal, or else the first that may.

    Each change that is tried is a run.
    """
    for source in sources:
        found = surest(source, tried)
        if found is not None:
            yield found


def surest(source: Iterable[FixAttempt], tried: Tried) -> Worked | None:
    """Return the first change that is sure to work, or else the first that may; each is a run."""
    first = None
    for attempt in source:
        candidate = tried(attempt)
        if candidate is not None and candidate.verdict is Verdict.STARTS:
            return attempt, candidate
        first = (attempt, candidate) if first is None and candidate is not None else first
    return first


def newer_release(flags: ServeFlags, rules: EngineRules, tried: Tried) -> tuple[Worked, ...]:
    """Return the oldest newer release from which on every release starts, or else the first that does."""
    newer = [release for release in RELEASES if release > rules.release]
    found = None
    for release in reversed(newer):
        attempt = FixAttempt(f"vLLM >= {release}", flags, rules_for(release))
        candidate = tried(attempt)
        if candidate is None:
            break
        found = (attempt, candidate)
    if found is None:
        attempts = [FixAttempt(f"vLLM {release}", flags, rules_for(release)) for release in newer[:-1]]
        found = surest(attempts, tried)
    return () if found is None else (found,)


def fix_of(model: Model, attempt: FixAttempt, candidate: Candidate) -> Fix:
    """Return a change that works with what it gives; ``candidate`` is the start with the change."""
    cache, checkpoint = candidate.kv_cache, attempt.checkpoint
    served = attempt.model or model
    return Fix(
        change=attempt.words,
        verdict=candidate.verdict,
        tokens=None if cache is None else cache.tokens,
        max_concurrency=None if cache is None else cache.max_concurrency,
        command=serve_command(served.id, attempt.flags, attempt.rules, served.requested_revision),
        version=str(attempt.rules.release),
        patch=attempt.patch,
        checkpoint=None if checkpoint is None else served.id,
        weight_bytes=None if checkpoint is None else checkpoint.weight_bytes(attempt.rules.release),
        gpus=candidate.gpus,
        warning=next(iter(candidate.short_of_memory), None),
    )


def started_with(
    request: PlanRequest, attempt: FixAttempt, gpu: GpuType, steps: EngineSteps | None
) -> Candidate | None:
    """Return the start with a change, if the engine gets a cache and nothing is known that fails afterwards.

    A cache that is given in bytes and does not fit the device keeps a start uncertain; it does not rule out a
    change.
    """
    if steps is not None:
        steps = steps.under(attempt.rules)
    if attempt.model is not None:
        request = replace(request, model=attempt.model)
        steps = None if steps is None or attempt.checkpoint is None else steps.of(attempt.model)
    candidate = dry_run(request, attempt.flags, attempt.rules, gpu, steps)
    if candidate.verdict is not Verdict.UNCERTAIN:
        return candidate if candidate.verdict is Verdict.STARTS else None
    start = candidate.start
    if candidate.kv_cache is None or start is None or not candidate.may_serve:
        return None
    failure = capture_failure(start.layout, start.engine_config, candidate.kv_cache.num_blocks)
    return candidate if failure is None else None


def starts(request: PlanRequest, attempt: FixAttempt, gpu: GpuType, steps: EngineSteps | None = None) -> bool:
    """Whether the engine gets a cache with this change, and nothing is known that fails afterwards."""
    return started_with(request, attempt, gpu, steps) is not None
