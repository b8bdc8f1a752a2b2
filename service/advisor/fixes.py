"""Fixes: single changes that get past a refusal, each tried by a dry run before it is named."""

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, TypeAlias

from service.advisor.budget_inputs import calibrated
from service.advisor.command import serve_command
from service.advisor.dry_run import PlainSteps, dry_run
from service.advisor.engine_steps import EngineSteps, FailedStart, StartedEngine
from service.advisor.longer_context import SCALED, stretched
from service.advisor.plan_request import Model, PlanRequest
from service.advisor.plan_types import Candidate, Fix, GpuPlan, Refusal, Verdict
from service.advisor.siblings import is_denser_than_8_bits
from service.changed import changed
from service.engine_config.parallel_checks import count_refusal, gpus_needed
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.engines.releases import (
    PATCHES,
    RELEASES,
    UnavailableFlag,
    check_flags,
    rules_for,
    with_patch,
)
from service.gpus.gpu_type import GpuType
from service.kv_cache.capture import capture_failure
from service.memory.budget_types import Basis, Estimate

SEVERAL: Final = 2
TOO_LONG: Final = "is greater than the derived max_model_len"
"""Words of the engine's refusal (vLLM 0.32.0, config/model.py _get_and_verify_max_len)."""
MOST_DTYPES: Final = 4
"""Cache dtypes tried instead of one that no backend reads."""
MOST: Final = 6
"""Fixes named at most."""
SIXTEEN_BITS, EIGHT_BITS, FOUR_BITS = 16, 8, 4
MOST_SIBLINGS: Final = 4
"""Ids of quantized checkpoints that are named."""
FEW_GPUS: Final = 4
"""Requests for more GPU types than this are answered without fixes."""
NEAREST_DTYPES: Final = ("auto", "fp8", "float16", "bfloat16", "int8_per_token_head", "fp8_per_token_head")
"""Cache dtypes to try instead, the least lossy first. Of the 16-bit floats only the model's own works."""
CHOSEN_BY_THE_ENGINE: Final = (
    "attention_backend",
    "block_size",
    "max_num_batched_tokens",
    "quantization",
    "mamba_cache_mode",
    "mamba_block_size",
    "kv_cache_dtype_skip_layers",
    "enable_prefix_caching",
    "enable_chunked_prefill",
    "async_scheduling",
    "decode_context_parallel_size",
)
"""Flags for which the engine chooses a working value if they are left out."""
UTILIZATIONS: Final = (0.95, 0.97)
SMALL_BATCH: Final = 2048
FEW_SEQUENCES: Final = (128, 32)
RANKS: Final = (1, 2, 4, 8, 16)
PARALLEL_SIZES: Final = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
"""Flags by whose product a start takes GPUs."""
ONLINE_QUANTIZATION: Final = "fp8"
"""What ``--quantization`` makes of 16-bit weights while it loads them, on every GPU with 8-bit kernels."""


@dataclass(frozen=True, slots=True)
class FixAttempt:
    """A single change in words, and the start that it leads to."""

    words: str
    flags: ServeFlags
    rules: EngineRules
    model: Model | None = None
    """The model that the change makes of the requested one; ``None`` where it leaves the config as it is."""
    patch: str | None = None
    """The pull request that the change lays over the release, if it is one."""


Tried: TypeAlias = Callable[[FixAttempt], Candidate | None]
"""Returns the start that a change leads to, or ``None`` where it fails too."""


def run_with_fixes(request: PlanRequest, flags: ServeFlags, gpu: GpuType, steps: EngineSteps) -> Candidate:
    """Return what the engine does, with the single changes that get past its refusal.

    A request without a cache dtype gets no changes but a shorter context: its other candidates show what the
    other dtypes do. A request for many GPU types gets none: the other types show it.
    """
    candidate = dry_run(request, flags, steps.rules, gpu, steps)
    if (candidate.error is None and not candidate.fails) or len(request.gpus) > FEW_GPUS:
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
    if near is None or request.serve.kv_cache_dtype is not None or len(request.gpus) > FEW_GPUS:
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


def nearest_refused(candidates: Iterable[Candidate]) -> Candidate | None:
    """Return the refused candidate with the most room for a cache; ``None`` if another may start.

    Candidates that fail before their memory is known come last, those on the most GPUs first: what gets past
    such a refusal must leave room for the weights too. Of equal ones the first is returned.
    """
    candidates = tuple(candidates)
    if not candidates or any(candidate.verdict is not Verdict.REFUSED for candidate in candidates):
        return None
    return max(candidates, key=_room)


def _room(candidate: Candidate) -> tuple[bool, int]:
    memory = candidate.memory
    return (False, candidate.gpus) if memory is None else (True, memory.available_kv.bytes)


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
    sources = _sources(request, base, gpu, steps, shorter_only=shorter_only)
    fixes = tuple(islice(working(request.model, sources, tried), MOST))
    if not shorter_only:
        fixes = _with_quantized(request, base, fixes, gpu, steps)
        fixes = (*fixes[: MOST - 1], *newer_release(request.model, base.flags, steps.rules, tried))
    if candidate.error is not None:
        notes = () if shorter_only else (*_notes(request, candidate), *_length_notes(request, base, fixes))
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
    """Return fixes with those that need weights quantized while they load too, where that saves GPUs.

    ``--quantization fp8`` alone is among ``fixes`` where it is enough.
    """
    error, words = base.error, f"--quantization {ONLINE_QUANTIZATION}"
    alone = [each for each in fixes if words in each.change]
    if error is None or error.stage is not Stage.MEMORY or alone:
        return fixes

    def tried(attempt: FixAttempt) -> Candidate | None:
        return _started(request, attempt, gpu, steps)

    known = {each.change for each in fixes}
    found = working(request.model, _quantized_sources(request, base, gpu, steps), tried)
    more = [each for each in found if each.change.removesuffix(f" {words}") not in known]
    return (*more, *fixes)


def _quantized_sources(
    request: PlanRequest, base: Candidate, gpu: GpuType, steps: EngineSteps
) -> Iterator[Iterable[FixAttempt]]:
    """Yield quantized weights together with a shorter context, and with more GPUs, untried."""
    for quantized in _quantized(request.model, base.flags, steps.rules):
        for source in (
            _shorter(request, quantized.flags, steps, gpu),
            (
                each
                for each in _other_ranks(quantized.flags, steps.rules)
                if _more_ranks(each.flags, base.flags)
            ),
        ):
            yield (replace(each, words=f"{each.words} {quantized.words}") for each in source)


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
            else ("a checkpoint with 4-bit weights is needed, or more GPUs")
        )
        words = (f"Even weights quantized to fp8 do not fit {gpus} of this type: {way}.",)
        siblings = () if _exceeds(candidate, FOUR_BITS) else tuple(filter(is_denser_than_8_bits, siblings))
    named = ", ".join(siblings[:MOST_SIBLINGS])
    return (*words, f"Quantized checkpoints of this model: {named}.") if named else words


def _length_notes(request: PlanRequest, candidate: Candidate, fixes: Iterable[Fix]) -> tuple[str, ...]:
    """Return what to know about a context longer than the config allows: the cost, or why there is no way."""
    if not _is_too_long(candidate):
        return ()
    if any(fix.change.startswith("--hf-overrides") for fix in fixes):
        return (SCALED,)
    found = stretched(request.model, candidate.flags, candidate.rules.lengths)
    return (found,) if isinstance(found, str) else ()


def _exceeds(candidate: Candidate, bits: int) -> bool:
    """Whether weights of so many bits are sure not to fit the device, from those that the dry run counted.

    Some tensors keep 16 bits, so weights of fewer bits take at least their share of what 16 bits take.
    """
    memory = candidate.memory
    counted = SIXTEEN_BITS if candidate.flags.quantization is None else EIGHT_BITS
    return memory is not None and memory.weights.low * bits > memory.total.high * counted


def _sources(
    request: PlanRequest, candidate: Candidate, gpu: GpuType, steps: EngineSteps, *, shorter_only: bool
) -> Iterator[Iterable[FixAttempt]]:
    """Yield the kinds of changes to try, the least costly first."""
    flags, stage = candidate.flags, Stage.RUN if candidate.error is None else candidate.error.stage
    count = request.count_of(gpu)
    if count is not None and count_refusal(flags, count) is not None:
        yield from () if shorter_only else _fewer_ranks(flags, steps.rules, count)
        return
    if stage is Stage.RUN:
        yield _captured(request, flags, steps, gpu)
    if shorter_only:
        if stage is Stage.MEMORY:
            yield _shorter(request, flags, steps, gpu)
    elif stage is Stage.MEMORY:
        yield from _memory_sources(request, candidate, steps, gpu)
    else:
        if _is_too_long(candidate):
            yield _stretched(request.model, flags, steps.rules)
        yield from refusal_sources(flags, steps, gpu)


def _is_too_long(candidate: Candidate) -> bool:
    """Whether the start is refused because the requested context is longer than the config allows."""
    return candidate.error is not None and TOO_LONG in candidate.error.message


def _stretched(model: Model, flags: ServeFlags, rules: EngineRules) -> Iterator[FixAttempt]:
    """Yield scaled rotary positions, with which the config allows the requested length."""
    found = stretched(model, flags, rules.lengths)
    if not isinstance(found, str):
        changed, scaled = found
        text = "" if changed.hf_overrides is None else changed.hf_overrides.text
        yield FixAttempt(f"--hf-overrides {shlex.quote(text)}", changed, rules, scaled)


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
    cache = candidate.kv_cache
    return Fix(
        change=attempt.words,
        verdict=candidate.verdict,
        tokens=None if cache is None else cache.tokens,
        max_concurrency=None if cache is None else cache.max_concurrency,
        command=serve_command(model.id, attempt.flags, attempt.rules, model.requested_revision),
        version=str(attempt.rules.release),
        patch=attempt.patch,
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


def refusal_sources(flags: ServeFlags, steps: EngineSteps, gpu: GpuType) -> Iterator[Iterable[FixAttempt]]:
    """Yield the kinds of single changes that can get past a refusal before memory is known, untried."""
    rules = steps.rules
    yield _patched(flags, rules)
    yield from ((attempt,) for attempt in islice(_other_dtypes(flags, rules), MOST_DTYPES))
    yield _allowed_length(flags, steps, gpu)
    yield from ((attempt,) for attempt in _left_out(flags, rules))
    yield _other_ranks(flags, rules)


def plain_refusal_sources(
    model: Model, flags: ServeFlags, rules: EngineRules, gpu: GpuType
) -> Iterator[Iterable[FixAttempt]]:
    """Yield the same without results of earlier steps."""
    return refusal_sources(flags, PlainSteps(model, rules), gpu)


def _memory_sources(
    request: PlanRequest, candidate: Candidate, steps: EngineSteps, gpu: GpuType
) -> Iterator[Iterable[FixAttempt]]:
    """Yield the kinds of single changes that need less memory or leave more of it, untried."""
    flags, rules = candidate.flags, steps.rules
    yield _shorter(request, flags, steps, gpu)
    if flags.kv_cache_memory_bytes is None:
        yield _lower_share(candidate)
        yield _higher_share(flags, rules)
        yield _text_only(request.model, flags, rules)
        yield _lighter(flags, rules, "max_num_batched_tokens", (SMALL_BATCH,))
        yield _lighter(flags, rules, "max_num_seqs", FEW_SEQUENCES)
        yield _quantized(request.model, flags, rules)
    yield _other_dtypes(flags, rules)
    yield (each for each in _other_ranks(flags, rules) if _more_ranks(each.flags, flags))


def _lower_share(candidate: Candidate) -> Iterator[FixAttempt]:
    """Yield the largest share that the free memory leaves, where the free memory was given."""
    memory = candidate.memory
    if memory is None or memory.free.basis is not Basis.GIVEN:
        return
    share = memory.free.bytes * 100 // memory.total.high / 100
    if share > 0 and memory.free.bytes < memory.requested.low:
        changed = replace(candidate.flags, gpu_memory_utilization=share)
        yield FixAttempt(f"--gpu-memory-utilization {share}", changed, candidate.rules)


def _higher_share(flags: ServeFlags, rules: EngineRules) -> Iterator[FixAttempt]:
    specified = flags.gpu_memory_utilization or rules.capacity.gpu_memory_utilization / 100
    for share in UTILIZATIONS:
        if share > specified:
            changed = replace(flags, gpu_memory_utilization=share)
            yield FixAttempt(f"--gpu-memory-utilization {share}", changed, rules)


def _text_only(model: Model, flags: ServeFlags, rules: EngineRules) -> Iterator[FixAttempt]:
    """Yield the start without the encoders of images and sound, in releases that can leave them out."""
    changed = replace(flags, language_model_only=True)
    if model.architecture.multimodal and not flags.language_model_only and _has_flags(changed, rules):
        yield FixAttempt("--language-model-only", changed, rules)


def _lighter(
    flags: ServeFlags, rules: EngineRules, name: str, values: tuple[int, ...]
) -> Iterator[FixAttempt]:
    """Yield smaller batches, with which the profile run takes less memory."""
    specified = getattr(flags, name)
    for value in values:
        if specified is None or value < specified:
            words = f"--{name.replace('_', '-')} {value}"
            changed: dict[str, Any] = {name: value}
            yield FixAttempt(words, replace(flags, **changed), rules)


def _quantized(model: Model, flags: ServeFlags, rules: EngineRules) -> Iterator[FixAttempt]:
    """Yield weights of 8 bits, which the engine makes of an unquantized checkpoint while it loads it."""
    if model.architecture.stores_16_bits and flags.quantization is None:
        changed = replace(flags, quantization=ONLINE_QUANTIZATION)
        yield FixAttempt(f"--quantization {ONLINE_QUANTIZATION}", changed, rules)


def _has_flags(flags: ServeFlags, rules: EngineRules) -> bool:
    try:
        check_flags(flags, rules.release)
    except UnavailableFlag:
        return False
    return True


def _shorter(
    request: PlanRequest, flags: ServeFlags, steps: EngineSteps, gpu: GpuType
) -> Iterator[FixAttempt]:
    """Yield the longest context that is sure to fit the memory, then the longest that is expected to."""
    started = steps.start(flags, gpu)
    if isinstance(started, FailedStart):
        return
    available = available_kv(request, started, steps, gpu)
    for size in dict.fromkeys((available.low, available.bytes)):
        try:
            length = started.sizing.fitting().longest_held(size)
        except EngineRefusal:
            continue
        if 0 < length < started.start.engine_config.max_model_len:
            yield FixAttempt(f"--max-model-len {length}", replace(flags, max_model_len=length), steps.rules)


def _captured(
    request: PlanRequest, flags: ServeFlags, steps: EngineSteps, gpu: GpuType
) -> Iterator[FixAttempt]:
    """Yield what lets the engine capture CUDA graphs with fewer recurrent states than sequences."""
    seqs = captured_sequences(request, flags, steps, gpu)
    if seqs is None:
        return
    if seqs:
        yield FixAttempt(f"--max-num-seqs {seqs}", replace(flags, max_num_seqs=seqs), steps.rules)
    yield FixAttempt("--enforce-eager", replace(flags, enforce_eager=True), steps.rules)


def captured_sequences(
    request: PlanRequest, flags: ServeFlags, steps: EngineSteps, gpu: GpuType
) -> int | None:
    """Return how many sequences are sure to have a recurrent state each when CUDA graphs are captured.

    ``None`` where the engine can capture CUDA graphs as it is; 0 where it has no state at all.
    """
    started = steps.start(flags, gpu)
    if isinstance(started, FailedStart):
        return None
    start = started.start
    blocks = started.sizing.num_blocks(available_kv(request, started, steps, gpu).low)
    if capture_failure(start.layout, start.engine_config, blocks) is None:
        return None
    return 1 << (blocks.bit_length() - 1) if blocks > 0 else 0


def available_kv(request: PlanRequest, started: StartedEngine, steps: EngineSteps, gpu: GpuType) -> Estimate:
    """Return the memory that is left for the cache."""
    budget = steps.budget(started, gpu, request.free_memory_bytes)
    return calibrated(request, budget, started.start, started.flags, gpu).available_kv


def _patched(flags: ServeFlags, rules: EngineRules) -> Iterator[FixAttempt]:
    for patch in PATCHES.values():
        changed = with_patch(rules, patch.id)
        if changed is not rules:
            yield FixAttempt(f"patch {patch.id} ({patch.status})", flags, changed, patch=patch.id)


def _other_dtypes(flags: ServeFlags, rules: EngineRules) -> Iterator[FixAttempt]:
    for dtype in NEAREST_DTYPES:
        if dtype in rules.dtypes.accepted and dtype != flags.kv_cache_dtype:
            yield FixAttempt(f"--kv-cache-dtype {dtype}", replace(flags, kv_cache_dtype=dtype), rules)


def _allowed_length(flags: ServeFlags, steps: EngineSteps, gpu: GpuType) -> Iterator[FixAttempt]:
    """Yield the longest context that the model's config allows, if a longer one was requested."""
    started = steps.start(replace(flags, max_model_len=None), gpu)
    if flags.max_model_len is None or isinstance(started, FailedStart):
        return
    length = started.start.engine_config.max_model_len
    if length < flags.max_model_len:
        changed = replace(flags, max_model_len=length)
        yield FixAttempt(f"--max-model-len {length}", changed, steps.rules)


def _left_out(flags: ServeFlags, rules: EngineRules) -> Iterator[FixAttempt]:
    blank = ServeFlags()
    for name in CHOSEN_BY_THE_ENGINE:
        unset = getattr(blank, name)
        if getattr(flags, name) != unset:
            yield FixAttempt(f"without --{name.replace('_', '-')}", replace(flags, **{name: unset}), rules)


def _other_ranks(flags: ServeFlags, rules: EngineRules) -> Iterator[FixAttempt]:
    for ranks in RANKS:
        if ranks != flags.tensor_parallel_size:
            yield FixAttempt(
                f"--tensor-parallel-size {ranks}", replace(flags, tensor_parallel_size=ranks), rules
            )


def _fewer_ranks(flags: ServeFlags, rules: EngineRules, count: int) -> Iterator[Iterable[FixAttempt]]:
    """Yield for each kind of ranks the smaller numbers of them that the GPUs are enough for, most first."""
    for name in PARALLEL_SIZES:
        option, size = f"--{name.replace('_', '-')}", getattr(flags, name) or 1
        sizes: list[dict[str, Any]] = [{name: ranks} for ranks in reversed(RANKS) if ranks < size]
        changed = (replace(flags, **each) for each in sizes)
        yield (
            FixAttempt(f"{option} {getattr(fewer, name)}", fewer, rules)
            for fewer in changed
            if gpus_needed(fewer) <= count
        )


def _more_ranks(changed: ServeFlags, flags: ServeFlags) -> bool:
    return (changed.tensor_parallel_size or 1) > (flags.tensor_parallel_size or 1)
