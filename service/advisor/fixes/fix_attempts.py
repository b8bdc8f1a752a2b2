"""What can get past a refusal: single changes of a start, the least costly first, untried."""

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from service.advisor.candidates.plan_types import Candidate
from service.advisor.dry_runs.dry_run import PlainSteps
from service.advisor.dry_runs.engine_steps import EngineSteps, FailedStart
from service.advisor.fixes.captured_sequences import power_of_two, states_of
from service.advisor.fixes.checkpoint_fixes import checkpoint_sources
from service.advisor.fixes.combined_changes import SMALL_BATCH, combined
from service.advisor.fixes.context_parallel import shared_sizes
from service.advisor.fixes.fix_attempt import FixAttempt, available_kv, shorter_attempts
from service.advisor.fixes.fix_notes import is_too_long
from service.advisor.fixes.media_limits import media_attempts
from service.advisor.fixes.memory_changes import (
    FEW_SEQUENCES,
    higher_share,
    lighter,
    lower_share,
    offloaded,
    online_fp8,
    quantized_sources,
    rounded_sources,
    text_only,
)
from service.advisor.request.longer_context import stretched
from service.advisor.request.plan_request import Model, PlanRequest
from service.engine_config.parallel_checks import count_refusal, gpus_needed
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.refusal import Stage
from service.engines.releases import (
    PATCHES,
    with_patch,
)
from service.gpus.gpu_type import GpuType

MOST_DTYPES: Final = 4
"""Cache dtypes tried instead of one that no backend reads."""
NEAREST_DTYPES: Final = ("auto", "fp8", "float16", "bfloat16", "int8_per_token_head", "fp8_per_token_head")
"""Cache dtypes to try instead, the least lossy first. Of the 16-bit floats only the model's own works."""
DENSER_DTYPES: Final = ("fp8", "int8_per_token_head", "fp8_per_token_head")
"""Those of them that take less memory."""
MODEL_DTYPES: Final = ("bfloat16", "float16")
"""Types of the weights to try instead of one that the GPU lacks."""
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
RANKS: Final = (1, 2, 4, 8, 16)
PARALLEL_SIZES: Final = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
"""Flags by whose product a start takes GPUs."""
STATE_BLOCK: Final = 1024
"""Tokens of a block of states where only one of a request is stored, so that any number will do."""
SHARED: Final = "--decode-context-parallel-size"


def attempts_of(
    request: PlanRequest, candidate: Candidate, gpu: GpuType, steps: EngineSteps, *, shorter_only: bool
) -> Iterator[Iterable[FixAttempt]]:
    """Yield the kinds of changes to try, the least costly first."""
    flags, stage = candidate.flags, Stage.RUN if candidate.error is None else candidate.error.stage
    count = request.count_of(gpu)
    if count is not None and count_refusal(flags, count) is not None:
        yield from () if shorter_only else _fewer_ranks(flags, steps.rules, count)
        return
    captured = tuple(_captured(request, flags, steps, gpu)) if stage is Stage.RUN else ()
    yield from captured
    if captured and not shorter_only:
        # A state is as large with any cache dtype: more states take fewer bytes of weights, or more GPUs.
        yield from checkpoint_sources(request, flags, steps, gpu)
        yield from quantized_sources(request, flags, steps, gpu)
        yield (each for each in _other_ranks(flags, steps.rules) if _more_ranks(each.flags, flags))
        return
    if shorter_only:
        if stage is Stage.MEMORY:
            yield shorter_attempts(request, flags, steps, gpu)
    elif stage is Stage.MEMORY:
        yield from _memory_sources(request, candidate, steps, gpu)
    else:
        if is_too_long(candidate):
            yield _stretched(request.model, flags, steps.rules)
        yield from refusal_sources(flags, steps, gpu)
        if flags.quantization is not None:
            yield _unquantized(request, flags, steps, gpu)


def _unquantized(
    request: PlanRequest, flags: ServeFlags, steps: EngineSteps, gpu: GpuType
) -> Iterator[FixAttempt]:
    """Yield the weights as they are stored, with what makes their context fit."""
    whole = FixAttempt("without --quantization", replace(flags, quantization=None), steps.rules)
    yield from combined(request, whole, steps, gpu)


def _stretched(model: Model, flags: ServeFlags, rules: EngineRules) -> Iterator[FixAttempt]:
    """Yield scaled rotary positions, with which the config allows the requested length."""
    found = stretched(model, flags, rules.lengths)
    if not isinstance(found, str):
        changed, scaled = found
        text = "" if changed.hf_overrides is None else changed.hf_overrides.text
        yield FixAttempt(f"--hf-overrides {shlex.quote(text)}", changed, rules, scaled)


def refusal_sources(flags: ServeFlags, steps: EngineSteps, gpu: GpuType) -> Iterator[Iterable[FixAttempt]]:
    """Yield the kinds of single changes that can get past a refusal before memory is known, untried."""
    rules = steps.rules
    yield _patched(flags, rules)
    yield _stated_state_block(steps.model, flags, rules)
    yield from ((attempt,) for attempt in islice(_other_dtypes(flags, rules), MOST_DTYPES))
    yield other_model_dtypes(flags, rules)
    yield _allowed_length(flags, steps, gpu)
    yield from ((attempt,) for attempt in _left_out(flags, rules))
    yield _whole_experts(flags, rules)
    yield text_only(steps.model, flags, rules)
    yield _nearest_ranks(flags, rules)


def plain_refusal_sources(
    model: Model, flags: ServeFlags, rules: EngineRules, gpu: GpuType
) -> Iterator[Iterable[FixAttempt]]:
    """Yield the same without results of earlier steps."""
    return refusal_sources(flags, PlainSteps(model, rules), gpu)


def _memory_sources(
    request: PlanRequest, candidate: Candidate, steps: EngineSteps, gpu: GpuType
) -> Iterator[Iterable[FixAttempt]]:
    """Yield the kinds of changes that need less memory or leave more of it, untried.

    What leaves the weights as they are, then other weights, then more GPUs. Where the weights alone are too
    large, the first are not tried.
    """
    flags, rules = candidate.flags, steps.rules
    given, fits = flags.kv_cache_memory_bytes is not None, not _has_too_large_weights(candidate)
    if fits:
        yield from _cache_sources(request, candidate, steps, gpu)
    if not given:
        yield from checkpoint_sources(request, flags, steps, gpu)
        yield from quantized_sources(request, flags, steps, gpu)
    if fits:
        yield (each for each in _other_dtypes(flags, rules) if each.flags.kv_cache_dtype in DENSER_DTYPES)
        yield _shared_tokens(request.model, flags, rules)
    yield (each for each in _other_ranks(flags, rules) if _more_ranks(each.flags, flags))
    if not given:
        yield _quantized_ranks(request.model, flags, rules)


def last_sources(
    request: PlanRequest, candidate: Candidate, gpu: GpuType, steps: EngineSteps
) -> Iterator[Iterable[FixAttempt]]:
    """Yield what takes much for the memory that it saves: rounded weights, no encoders, offloading."""
    flags, rules = candidate.flags, steps.rules
    if candidate.error is None or candidate.error.stage is not Stage.MEMORY:
        return
    if flags.kv_cache_memory_bytes is None:
        yield from rounded_sources(request, flags, steps, gpu)
        yield text_only(request.model, flags, rules)
    yield offloaded(request, flags, steps, gpu)


def _has_too_large_weights(candidate: Candidate) -> bool:
    """Whether the weights of a rank are sure to be larger than the device."""
    memory = candidate.memory
    return memory is not None and memory.weights.low > memory.total.high


def _cache_sources(
    request: PlanRequest, candidate: Candidate, steps: EngineSteps, gpu: GpuType
) -> Iterator[Iterable[FixAttempt]]:
    """Yield the kinds of changes that leave the weights as they are, on as many GPUs."""
    flags, rules = candidate.flags, steps.rules
    if flags.kv_cache_memory_bytes is not None:
        yield shorter_attempts(request, flags, steps, gpu)
        return
    yield media_attempts(request, flags, steps, gpu)
    yield shorter_attempts(request, flags, steps, gpu)
    yield lower_share(candidate)
    yield combined(request, FixAttempt("", flags, rules), steps, gpu)
    yield lighter(flags, rules, "max_num_batched_tokens", (SMALL_BATCH,))
    yield lighter(flags, rules, "max_num_seqs", FEW_SEQUENCES)
    yield higher_share(request, flags, steps, gpu)


def _captured(
    request: PlanRequest, flags: ServeFlags, steps: EngineSteps, gpu: GpuType
) -> Iterator[Iterable[FixAttempt]]:
    """Yield what lets the engine capture CUDA graphs with fewer recurrent states than sequences.

    As many sequences as there are sure to be states, then as many as there are expected to be, which is the
    number that the engine's refusal names.
    """
    started = steps.start(flags, gpu)
    if isinstance(started, FailedStart):
        return
    available = available_kv(request, started, steps, gpu)
    least = states_of(started, available.low)
    if least is None:
        return
    numbers = (least and power_of_two(least), states_of(started, available.bytes))
    yield tuple(_of_sequences(flags, each, steps.rules) for each in numbers if each)
    yield (FixAttempt("--enforce-eager", replace(flags, enforce_eager=True), steps.rules),)


def _of_sequences(flags: ServeFlags, seqs: int, rules: EngineRules) -> FixAttempt:
    return FixAttempt(f"--max-num-seqs {seqs}", replace(flags, max_num_seqs=seqs), rules)


def _patched(flags: ServeFlags, rules: EngineRules) -> Iterator[FixAttempt]:
    for patch in PATCHES.values():
        changed = with_patch(rules, patch.id)
        if changed is not rules:
            yield FixAttempt(f"patch {patch.id} ({patch.status})", flags, changed, patch=patch.id)


def _stated_state_block(model: Model, flags: ServeFlags, rules: EngineRules) -> Iterator[FixAttempt]:
    """Yield a block size for states of which the model's class does not tell the engine."""
    states = model.architecture.states
    if model.architecture.is_recurrent and not states.declared and flags.mamba_block_size is None:
        changed = replace(flags, mamba_block_size=STATE_BLOCK)
        yield FixAttempt(f"--mamba-block-size {STATE_BLOCK}", changed, rules)


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


def other_model_dtypes(flags: ServeFlags, rules: EngineRules) -> Iterator[FixAttempt]:
    """Yield the other 16-bit floats, where the command says the dtype of the weights."""
    for dtype in MODEL_DTYPES if flags.dtype not in {None, "auto"} else ():
        if dtype != flags.dtype:
            yield FixAttempt(f"--dtype {dtype}", replace(flags, dtype=dtype), rules)


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


def _quantized_ranks(model: Model, flags: ServeFlags, rules: EngineRules) -> Iterator[FixAttempt]:
    """Yield more GPUs with weights of 8 bits, which need fewer of them than those of 16."""
    for quantized in online_fp8(model, flags, rules):
        for each in _other_ranks(quantized.flags, rules):
            if _more_ranks(each.flags, flags):
                yield replace(each, words=f"{each.words} {quantized.words}")


def _shared_tokens(model: Model, flags: ServeFlags, rules: EngineRules) -> Iterator[FixAttempt]:
    """Yield ranks that share the tokens of a request, where several would store the same keys and values."""
    for size in shared_sizes(model.architecture, flags, rules.parallelism):
        changed = replace(flags, decode_context_parallel_size=size)
        yield FixAttempt(f"{SHARED} {size}", changed, rules)


def _nearest_ranks(flags: ServeFlags, rules: EngineRules) -> Iterator[FixAttempt]:
    """Yield other numbers of ranks: fewer ones, most first, which GPUs are enough for, then more."""
    size = flags.tensor_parallel_size or 1
    attempts = _other_ranks(flags, rules)
    yield from sorted(attempts, key=lambda each: _farther(each.flags.tensor_parallel_size or 1, size))


def _farther(ranks: int, size: int) -> tuple[bool, int]:
    return ranks > size, abs(ranks - size)


def _whole_experts(flags: ServeFlags, rules: EngineRules) -> Iterator[FixAttempt]:
    """Yield experts that are not split over ranks."""
    if not flags.enable_expert_parallel and (flags.tensor_parallel_size or 1) > 1:
        yield FixAttempt("--enable-expert-parallel", replace(flags, enable_expert_parallel=True), rules)


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
