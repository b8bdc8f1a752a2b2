"""What can get past a refusal: single changes of a start, the least costly first, untried."""

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby, islice
from typing import Any, Final

from service.advisor.checkpoint_fixes import checkpoint_sources
from service.advisor.context_parallel import shared_sizes
from service.advisor.dry_run import PlainSteps
from service.advisor.engine_steps import EngineSteps, FailedStart
from service.advisor.fix_attempt import FixAttempt, available_kv, shorter_attempts
from service.advisor.longer_context import stretched
from service.advisor.media_limits import media_attempts
from service.advisor.plan_request import Model, PlanRequest
from service.advisor.plan_types import Candidate
from service.engine_config.parallel_checks import count_refusal, gpus_needed
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.engines.releases import (
    PATCHES,
    UnavailableFlag,
    check_flags,
    with_patch,
)
from service.gpus.gpu_type import GpuType
from service.kv_cache.capture import capture_failure
from service.memory.budget_types import Basis
from service.units import GIB, ceil_div

TOO_LONG: Final = "is greater than the derived max_model_len"
"""Words of the engine's refusal (vLLM 0.32.0, config/model.py _get_and_verify_max_len)."""
MOST_DTYPES: Final = 4
"""Cache dtypes tried instead of one that no backend reads."""
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
OFFLOAD: Final = "--cpu-offload-gb"
SHARED: Final = "--decode-context-parallel-size"
MOST_MOVED: Final = 2
"""The part of the weights that may leave the GPU is one in so many: with more, a step takes seconds."""
FOUR_BITS_ONLINE: Final = "mxfp4"
"""What ``--quantization`` makes 4-bit weights with while it loads them, in releases that can."""
BITSANDBYTES: Final = "bitsandbytes"
"""The same of 4 bits, in releases that have it; a plugin brings it since vLLM 0.28.0."""


def quantized_attempts(
    request: PlanRequest, base: Candidate, gpu: GpuType, steps: EngineSteps
) -> Iterator[Iterable[FixAttempt]]:
    """Yield quantized weights together with a shorter context, and with more GPUs, untried."""
    rules = steps.rules
    found = quantized_weights(request.model, base.flags, rules)
    for method, alike in groupby(found, key=lambda each: each.flags.quantization):
        ways = tuple(alike)
        yield (
            replace(each, words=f"{each.words} {quantized.words}")
            for quantized in ways
            for each in shorter_attempts(request, quantized.flags, steps, gpu)
        )
        if method == rules.checkpoints.online_fp8:
            yield (
                replace(each, words=f"{each.words} {quantized.words}")
                for quantized in ways
                for each in _other_ranks(quantized.flags, rules)
                if _more_ranks(each.flags, base.flags)
            )


def attempts_of(
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
            yield shorter_attempts(request, flags, steps, gpu)
    elif stage is Stage.MEMORY:
        yield from _memory_sources(request, candidate, steps, gpu)
    else:
        if is_too_long(candidate):
            yield _stretched(request.model, flags, steps.rules)
        yield from refusal_sources(flags, steps, gpu)


def is_too_long(candidate: Candidate) -> bool:
    """Whether the start is refused because the requested context is longer than the config allows."""
    return candidate.error is not None and TOO_LONG in candidate.error.message


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
    yield from ((attempt,) for attempt in islice(_other_dtypes(flags, rules), MOST_DTYPES))
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
    """Yield the kinds of single changes that need less memory or leave more of it, untried."""
    flags, rules = candidate.flags, steps.rules
    if flags.kv_cache_memory_bytes is None:
        yield media_attempts(request, flags, steps, gpu)
    yield shorter_attempts(request, flags, steps, gpu)
    if flags.kv_cache_memory_bytes is None:
        yield _lower_share(candidate)
        yield _higher_share(flags, rules)
        yield text_only(request.model, flags, rules)
        yield from checkpoint_sources(request, flags, steps, gpu)
        yield _lighter(flags, rules, "max_num_batched_tokens", (SMALL_BATCH,))
        yield _lighter(flags, rules, "max_num_seqs", FEW_SEQUENCES)
        yield quantized_weights(request.model, flags, rules)
    yield _other_dtypes(flags, rules)
    yield _shared_tokens(request.model, flags, rules)
    yield (each for each in _other_ranks(flags, rules) if _more_ranks(each.flags, flags))
    yield _offloaded(request, flags, steps, gpu)


def _offloaded(
    request: PlanRequest, flags: ServeFlags, steps: EngineSteps, gpu: GpuType
) -> Iterator[FixAttempt]:
    """Yield as many GiB of weights in the host's memory as one request of the maximum length lacks.

    They are read over the bus at every step, so no more than half of the weights are moved there.
    """
    started = steps.start(flags, gpu)
    if isinstance(started, FailedStart) or flags.cpu_offload_gb or flags.kv_cache_memory_bytes is not None:
        return
    length = started.start.engine_config.max_model_len
    try:
        needed = max((check.needed(length) for check in started.sizing.checks), default=0)
    except EngineRefusal:  # no memory is enough
        return
    weights = steps.budget(started, gpu, request.free_memory_bytes).weights.bytes
    available = available_kv(request, started, steps, gpu)
    for size in dict.fromkeys((available.low, available.bytes)):
        gigabytes = ceil_div(needed - size, GIB)
        if 0 < gigabytes * GIB * MOST_MOVED <= weights:
            changed = replace(flags, cpu_offload_gb=gigabytes)
            yield FixAttempt(f"{OFFLOAD} {gigabytes}", changed, steps.rules)


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


def text_only(model: Model, flags: ServeFlags, rules: EngineRules) -> Iterator[FixAttempt]:
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


def quantized_weights(model: Model, flags: ServeFlags, rules: EngineRules) -> Iterator[FixAttempt]:
    """Yield weights of 8 and of 4 bits, made of an unquantized checkpoint while it loads."""
    architecture = model.architecture
    if not architecture.stores_16_bits or flags.quantization is not None:
        return
    fp8 = rules.checkpoints.online_fp8
    yield FixAttempt(f"--quantization {fp8}", replace(flags, quantization=fp8), rules)
    if BITSANDBYTES in rules.checkpoints.quantization_methods:
        yield FixAttempt(f"--quantization {BITSANDBYTES}", replace(flags, quantization=BITSANDBYTES), rules)
    if FOUR_BITS_ONLINE not in rules.checkpoints.online_quantization:
        return
    denser = replace(flags, quantization=FOUR_BITS_ONLINE)
    words = f"--quantization {FOUR_BITS_ONLINE}"
    yield FixAttempt(words, denser, rules)
    # Sizes of encoders may not divide where those of the decoder do.
    for text in text_only(model, denser, rules):
        yield replace(text, words=f"{words} {text.words}")


def _has_flags(flags: ServeFlags, rules: EngineRules) -> bool:
    try:
        check_flags(flags, rules.release)
    except UnavailableFlag:
        return False
    return True


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
