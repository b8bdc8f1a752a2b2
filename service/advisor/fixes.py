"""Fixes: single changes that get past a refusal, each tried by a dry run before it is named."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, TypeAlias

from service.advisor.checkpoint_layouts import named_with_sizes
from service.advisor.command import serve_command
from service.advisor.dry_run import dry_run, dry_runs
from service.advisor.engine_steps import EngineSteps
from service.advisor.fix_attempt import FixAttempt
from service.advisor.fix_attempts import (
    BITSANDBYTES,
    FOUR_BITS_ONLINE,
    OFFLOAD,
    PARALLEL_SIZES,
    attempts_of,
    is_too_long,
    quantized_attempts,
)
from service.advisor.four_bit_checkpoint import four_bit_notes
from service.advisor.grid import GridOfLength
from service.advisor.joint_fixes import joint_attempts
from service.advisor.longer_context import SCALED, stretched
from service.advisor.nearest_refused import nearest_refused
from service.advisor.plan_request import Model, PlanRequest
from service.advisor.plan_types import Candidate, GpuPlan
from service.advisor.refusal import Fix, Refusal
from service.advisor.siblings import is_denser_than_8_bits
from service.advisor.verdict import Verdict
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
SIXTEEN_BITS, EIGHT_BITS, FOUR_BITS = 16, 8, 4
COUNTED_BITS: Final[Mapping[str | None, int]] = {
    None: SIXTEEN_BITS,
    "fp8": EIGHT_BITS,
    "fp8_per_tensor": EIGHT_BITS,
    FOUR_BITS_ONLINE: FOUR_BITS,
    BITSANDBYTES: FOUR_BITS,
}
"""Bits of most weights by ``--quantization``; other methods leave many in 16 bits."""
SLOW_OFFLOAD: Final = (
    "Weights in the host's memory cross the bus to the GPU at every step, which is many times slower."
)
"""Source: vLLM docs, engine arguments, --cpu-offload-gb: loaded from the CPU in each forward pass."""
QUANTIZE: Final = "--quantization"
ROUGH_FOUR_BITS: Final = (
    "mxfp4 rounds weights to 4 bits while they load, without calibration, and answers suffer. A published "
    "4-bit checkpoint of the model (AWQ, GPTQ, QAT) takes as much memory and loses less."
)
Tried: TypeAlias = Callable[[FixAttempt], Candidate | None]
"""Returns the start that a change leads to, or ``None`` where it fails too."""


def run_with_fixes(request: PlanRequest, flags: ServeFlags, gpu: GpuType, steps: EngineSteps) -> Candidate:
    """Return what the engine does, with the single changes that get past its refusal.

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
    """Return a candidate that is refused, or sure to fail, with the single changes that avoid this."""

    def tried(attempt: FixAttempt) -> Candidate | None:
        return _started(request, attempt, gpu, steps)

    base = _without_search(request, candidate)
    sources = attempts_of(request, base, gpu, steps, shorter_only=shorter_only)
    fixes = tuple(islice(working(request.model, sources, tried), MOST))
    if not shorter_only:
        fixes = _with_quantized(request, base, fixes, gpu, steps)
        fixes = (*_joint(request, base, fixes, gpu, steps), *fixes)
        fixes = (*fixes[: MOST - 1], *newer_release(request.model, base.flags, steps.rules, tried))
    if candidate.error is not None:
        notes = () if shorter_only else tuple(_all_notes(request, candidate, fixes, gpu, steps))
        if (fixes, notes) == (candidate.error.fixes, candidate.error.notes):
            return candidate
        return changed(candidate, error=changed(candidate.error, fixes=fixes, notes=notes))
    remedy = "; ".join(fix.change for fix in fixes)
    doubts = (f"Single changes that avoid this, each tried by a dry run: {remedy}.",) if fixes else ()
    return replace(candidate, doubts=(*candidate.doubts, *doubts))


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


def _with_quantized(
    request: PlanRequest, base: Candidate, fixes: tuple[Fix, ...], gpu: GpuType, steps: EngineSteps
) -> tuple[Fix, ...]:
    """Return fixes with those that need weights quantized while they load too, where these alone do not fit.

    The cheaper ones come first; a change that works without quantized weights is not repeated with them.
    """
    error = base.error
    if error is None or error.stage is not Stage.MEMORY or any(QUANTIZE in each.change for each in fixes):
        return fixes

    def tried(attempt: FixAttempt) -> Candidate | None:
        return _started(request, attempt, gpu, steps)

    known = {each.change for each in fixes}
    found = working(request.model, quantized_attempts(request, base, gpu, steps), tried)
    more = [each for each in found if each.change.partition(f" {QUANTIZE}")[0] not in known]
    # A published checkpoint loses less than weights that are rounded while they load.
    first = max((place for place, each in enumerate(fixes, 1) if each.checkpoint is not None), default=0)
    return (*fixes[:first], *more, *fixes[first:])


def _joint(
    request: PlanRequest, base: Candidate, fixes: tuple[Fix, ...], gpu: GpuType, steps: EngineSteps
) -> tuple[Fix, ...]:
    """Return several changes at once, where nothing else helps without more GPUs or the host's memory."""
    error = base.error
    if error is None or error.stage is not Stage.MEMORY or base.gpus > 1:
        return ()
    if any(OFFLOAD not in fix.change and "parallel-size" not in fix.change for fix in fixes):
        return ()

    def tried(attempt: FixAttempt) -> Candidate | None:
        return _started(request, attempt, gpu, steps)

    return tuple(working(request.model, joint_attempts(request, base, gpu, steps), tried))


def _all_notes(
    request: PlanRequest, candidate: Candidate, fixes: Sequence[Fix], gpu: GpuType, steps: EngineSteps
) -> Iterator[str]:
    """Yield what to know beside the fixes."""
    base = _without_search(request, candidate)
    yield from _notes(request, candidate)
    named = any(fix.checkpoint is not None and is_denser_than_8_bits(fix.checkpoint) for fix in fixes)
    if candidate.error is not None and candidate.error.stage is Stage.MEMORY and not named:
        yield from four_bit_notes(request, base, gpu, steps, _started)
    yield from _length_notes(request, base, fixes)
    if any(OFFLOAD in fix.change for fix in fixes):
        yield SLOW_OFFLOAD
    if any(FOUR_BITS_ONLINE in fix.change for fix in fixes):
        yield ROUGH_FOUR_BITS


def _notes(request: PlanRequest, candidate: Candidate) -> tuple[str, ...]:
    """Return what else gets past a lack of memory: checkpoints with quantized weights."""
    error, memory = candidate.error, candidate.memory
    if error is None or error.stage is not Stage.MEMORY or memory is None:
        return ()
    siblings: tuple[str, ...] = request.siblings
    words: tuple[str, ...] = ()
    if request.model.architecture.stores_16_bits and _exceeds(candidate, EIGHT_BITS):
        gpus = "one GPU" if candidate.gpus == 1 else f"{candidate.gpus} GPUs"
        way = (
            "more GPUs are needed"
            if _exceeds(candidate, FOUR_BITS)
            else "4-bit weights are needed, or more GPUs"
        )
        words = (f"Even weights quantized to fp8 do not fit {gpus} of this type: {way}.",)
        siblings = () if _exceeds(candidate, FOUR_BITS) else tuple(filter(is_denser_than_8_bits, siblings))
    if not siblings:
        return words
    return (*words, f"Quantized checkpoints of this model: {named_with_sizes(request, siblings)}")


def _length_notes(request: PlanRequest, candidate: Candidate, fixes: Iterable[Fix]) -> tuple[str, ...]:
    """Return what to know about a context longer than the config allows: the cost, or why there is no way."""
    if not is_too_long(candidate):
        return ()
    if any(fix.change.startswith("--hf-overrides") for fix in fixes):
        return (SCALED,)
    found = stretched(request.model, candidate.flags, candidate.rules.lengths)
    return (found,) if isinstance(found, str) else ()


def _exceeds(candidate: Candidate, bits: int) -> bool:
    """Whether weights of so many bits are sure not to fit the device, from those that the dry run counted.

    Some tensors keep 16 bits, so weights of fewer bits take at least their share of what 16 bits take.
    """
    memory, counted = candidate.memory, COUNTED_BITS.get(candidate.flags.quantization)
    if memory is None or counted is None:
        return False
    return memory.weights.low * bits > memory.total.high * counted


def working(model: Model, sources: Iterable[Iterable[FixAttempt]], tried: Tried) -> Iterator[Fix]:
    """Yield the first change of each kind that gets past the refusal; each change that is tried is a run."""
    for source in sources:
        for attempt in source:
            candidate = tried(attempt)
            if candidate is not None:
                yield fix_of(model, attempt, candidate)
                break


def newer_release(model: Model, flags: ServeFlags, rules: EngineRules, tried: Tried) -> tuple[Fix, ...]:
    """Return the oldest newer release from which on every release starts, or else the first that does."""
    newer = [release for release in RELEASES if release > rules.release]
    found = None
    for release in reversed(newer):
        attempt = FixAttempt(f"vLLM >= {release}", flags, rules_for(release))
        candidate = tried(attempt)
        if candidate is None:
            break
        found = fix_of(model, attempt, candidate)
    if found is not None:
        return (found,)
    attempts = [FixAttempt(f"vLLM {release}", flags, rules_for(release)) for release in newer[:-1]]
    return tuple(islice(working(model, [attempts], tried), 1))


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
    )


def _started(
    request: PlanRequest, attempt: FixAttempt, gpu: GpuType, steps: EngineSteps | None
) -> Candidate | None:
    """Return the start with a change, if the engine gets a cache and nothing is known that fails afterwards.

    A cache that is given in bytes and does not fit the device keeps a start uncertain; it does not rule out a
    change.
    """
    if attempt.model is not None:
        request, steps = replace(request, model=attempt.model), None
    steps = None if steps is None else steps.under(attempt.rules)
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
    return _started(request, attempt, gpu, steps) is not None
