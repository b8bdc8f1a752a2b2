"""Changes that need less memory or leave more of it: share, batches, weights, encoders, offloading."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from service.advisor.candidates.plan_types import Candidate
from service.advisor.dry_runs.engine_steps import EngineSteps, FailedStart, StartedEngine
from service.advisor.fixes.combined_changes import combined
from service.advisor.fixes.fix_attempt import FixAttempt, available_kv
from service.advisor.request.plan_request import Model, PlanRequest
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import UnavailableFlag, check_flags
from service.gpus.gpu_type import GpuType
from service.memory.budget_types import Basis
from service.units import GIB, ceil_div

UTILIZATIONS: Final = (0.95, 0.97)
FEW_SEQUENCES: Final = (128, 32)
OFFLOAD: Final = "--cpu-offload-gb"
MOST_MOVED: Final = 2
"""The part of the weights that may leave the GPU is one in so many: with more, a step takes seconds."""
FOUR_BITS_ONLINE: Final = "mxfp4"
"""What ``--quantization`` makes 4-bit weights with while it loads them, in releases that can."""
BITSANDBYTES: Final = "bitsandbytes"
"""The same of 4 bits, in releases that have it; a plugin brings it since vLLM 0.28.0."""


def quantized_sources(
    request: PlanRequest, flags: ServeFlags, steps: EngineSteps, gpu: GpuType
) -> Iterator[Iterable[FixAttempt]]:
    """Yield weights of 8 bits, made while they load, with what makes the context fit, untried."""
    for each in online_fp8(request.model, flags, steps.rules):
        yield _with_context(request, each, steps, gpu)


def rounded_sources(
    request: PlanRequest, flags: ServeFlags, steps: EngineSteps, gpu: GpuType
) -> Iterator[Iterable[FixAttempt]]:
    """Yield the same of weights of 4 bits, which lose more."""
    for each in quantized_weights(request.model, flags, steps.rules):
        if not _is_online_fp8(each) and each.flags.language_model_only == flags.language_model_only:
            yield _with_context(request, each, steps, gpu)


def blind_sources(
    request: PlanRequest, flags: ServeFlags, steps: EngineSteps, gpu: GpuType
) -> Iterator[Iterable[FixAttempt]]:
    """Yield the same without encoders: sizes of theirs may not divide where those of the decoder do."""
    for each in quantized_weights(request.model, flags, steps.rules):
        if each.flags.language_model_only != flags.language_model_only:
            yield _with_context(request, each, steps, gpu)


def online_fp8(model: Model, flags: ServeFlags, rules: EngineRules) -> Iterator[FixAttempt]:
    """Yield weights of 8 bits, made while they load."""
    return filter(_is_online_fp8, quantized_weights(model, flags, rules))


def _is_online_fp8(attempt: FixAttempt) -> bool:
    return attempt.flags.quantization == attempt.rules.checkpoints.online_fp8


def _with_context(
    request: PlanRequest, attempt: FixAttempt, steps: EngineSteps, gpu: GpuType
) -> Iterator[FixAttempt]:
    yield from combined(request, attempt, steps, gpu)
    yield attempt


def offloaded(
    request: PlanRequest, flags: ServeFlags, steps: EngineSteps, gpu: GpuType
) -> Iterator[FixAttempt]:
    """Yield as many GiB of weights in the host's memory as one request of the maximum length lacks.

    They are read over the bus at every step, so no more than half of the weights are moved there.
    """
    started = steps.start(flags, gpu)
    if isinstance(started, FailedStart) or flags.cpu_offload_gb or flags.kv_cache_memory_bytes is not None:
        return
    needed = _needed(started)
    if needed is None:
        return
    weights = steps.budget(started, gpu, request.free_memory_bytes).weights.bytes
    available = available_kv(request, started, steps, gpu)
    for size in dict.fromkeys((available.low, available.bytes)):
        gigabytes = ceil_div(needed - size, GIB)
        if 0 < gigabytes * GIB * MOST_MOVED <= weights:
            changed = replace(flags, cpu_offload_gb=gigabytes)
            yield FixAttempt(f"{OFFLOAD} {gigabytes}", changed, steps.rules)


def lower_share(candidate: Candidate) -> Iterator[FixAttempt]:
    """Yield the largest share that the free memory leaves, where the free memory was given."""
    memory = candidate.memory
    if memory is None or memory.free.basis is not Basis.GIVEN:
        return
    share = memory.free.bytes * 100 // memory.total.high / 100
    if share > 0 and memory.free.bytes < memory.requested.low:
        changed = replace(candidate.flags, gpu_memory_utilization=share)
        yield FixAttempt(f"--gpu-memory-utilization {share}", changed, candidate.rules)


def higher_share(
    request: PlanRequest, flags: ServeFlags, steps: EngineSteps, gpu: GpuType
) -> Iterator[FixAttempt]:
    """Yield larger shares of the memory, where they may leave what a request lacks."""
    rules, started = steps.rules, steps.start(flags, gpu)
    specified = flags.gpu_memory_utilization or rules.capacity.gpu_memory_utilization / 100
    if isinstance(started, FailedStart):
        return
    needed = _needed(started)
    if needed is None:
        return
    lacking = needed - available_kv(request, started, steps, gpu).high
    total = steps.budget(started, gpu, request.free_memory_bytes).total.high
    for share in UTILIZATIONS:
        if share > specified and lacking <= (share - specified) * total:
            changed = replace(flags, gpu_memory_utilization=share)
            yield FixAttempt(f"--gpu-memory-utilization {share}", changed, rules)


def _needed(started: StartedEngine) -> int | None:
    """Return the bytes of a request of the maximum length; ``None`` where no memory is enough."""
    length = started.start.engine_config.max_model_len
    try:
        return max((check.needed(length) for check in started.sizing.checks), default=0)
    except EngineRefusal:
        return None


def text_only(model: Model, flags: ServeFlags, rules: EngineRules) -> Iterator[FixAttempt]:
    """Yield the start without the encoders of images and sound, in releases that can leave them out."""
    changed = replace(flags, language_model_only=True)
    if model.architecture.multimodal and not flags.language_model_only and _has_flags(changed, rules):
        yield FixAttempt("--language-model-only", changed, rules)


def lighter(
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
