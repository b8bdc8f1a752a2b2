"""Fixes: single changes that get past a refusal, each tried by a dry run before it is named."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from service.advisor.budget_inputs import calibrated
from service.advisor.dry_run import dry_run
from service.advisor.engine_steps import EngineSteps, FailedStart, StartedEngine
from service.advisor.plan_request import PlanRequest
from service.advisor.plan_types import Candidate, Verdict
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.engines.releases import (
    PATCHES,
    RELEASES,
    rules_for,
    with_patch,
)
from service.gpus.gpu_type import GpuType
from service.kv_cache.capture import capture_failure
from service.memory.budget_types import Estimate

MOST: Final = 5
"""Fixes named at most."""
FEW_GPUS: Final = 4
"""Requests for more GPU types than this are answered without fixes."""
NEAREST_DTYPES: Final = ("auto", "fp8", "int8_per_token_head", "fp8_per_token_head", "float16", "bfloat16")
"""Cache dtypes to try instead, the least lossy first. Of the 16-bit floats only the model's own works."""
CHOSEN_BY_THE_ENGINE: Final = (
    "attention_backend",
    "block_size",
    "max_model_len",
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
RANKS: Final = (1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class FixAttempt:
    """A single change in words, and the start that it leads to."""

    words: str
    flags: ServeFlags
    rules: EngineRules


def run_with_fixes(request: PlanRequest, flags: ServeFlags, gpu: GpuType, steps: EngineSteps) -> Candidate:
    """Return what the engine does, with the single changes that get past its refusal.

    A request without a cache dtype gets no changes but a shorter context: its other candidates show what the
    other dtypes do. A request for many GPU types gets none: the other types show it.
    """
    candidate = dry_run(request, flags, steps.rules, gpu, steps)
    if (candidate.error is None and not candidate.fails) or len(request.gpus) > FEW_GPUS:
        return candidate
    stage = Stage.RUN if candidate.error is None else candidate.error.stage
    tried = _tried(request, flags, steps, gpu, stage)
    working = tuple(islice((each.words for each in tried if starts(request, each, gpu, steps)), MOST))
    if candidate.error is not None:
        return replace(candidate, error=replace(candidate.error, fix=working))
    remedy = (f"Single changes that avoid this, each tried by a dry run: {'; '.join(working)}.",)
    return replace(candidate, doubts=(*candidate.doubts, *(remedy if working else ())))


def _tried(
    request: PlanRequest, flags: ServeFlags, steps: EngineSteps, gpu: GpuType, stage: Stage
) -> Iterator[FixAttempt]:
    if stage is Stage.RUN:
        yield from _captured(request, flags, steps, gpu)
    if request.serve.kv_cache_dtype is not None:
        if stage is not Stage.MEMORY:
            yield from attempts(flags, steps.rules)
        else:
            yield from memory_attempts(request, flags, steps, gpu)
    elif stage is Stage.MEMORY:
        yield from _shorter(request, flags, steps, gpu)


def starts(request: PlanRequest, attempt: FixAttempt, gpu: GpuType, steps: EngineSteps | None = None) -> bool:
    """Whether the engine gets a cache with this change, and nothing is known that fails afterwards.

    A cache that is given in bytes and does not fit the device keeps a start uncertain; it does not rule out a
    change.
    """
    steps = None if steps is None else steps.under(attempt.rules)
    candidate = dry_run(request, attempt.flags, attempt.rules, gpu, steps)
    if candidate.verdict is not Verdict.UNCERTAIN:
        return candidate.verdict is Verdict.STARTS
    start = candidate.start
    if candidate.kv_cache is None or start is None or not candidate.may_serve:
        return False
    return capture_failure(start.layout, start.engine_config, candidate.kv_cache.num_blocks) is None


def attempts(flags: ServeFlags, rules: EngineRules) -> Iterator[FixAttempt]:
    """Yield single changes that can get past a refusal before memory is known. None of them is tried here."""
    for source in (_patched, _other_dtypes, _left_out, _other_ranks, _other_releases):
        yield from source(flags, rules)


def memory_attempts(
    request: PlanRequest, flags: ServeFlags, steps: EngineSteps, gpu: GpuType
) -> Iterator[FixAttempt]:
    """Yield single changes that need less memory or leave more of it. None of them is tried here."""
    rules = steps.rules
    yield from _shorter(request, flags, steps, gpu)
    if flags.kv_cache_memory_bytes is None:
        specified = flags.gpu_memory_utilization or rules.capacity.gpu_memory_utilization / 100
        for share in UTILIZATIONS:
            if share > specified:
                changed = replace(flags, gpu_memory_utilization=share)
                yield FixAttempt(f"--gpu-memory-utilization {share}", changed, rules)
        changed = replace(flags, max_num_batched_tokens=SMALL_BATCH)
        yield FixAttempt(f"--max-num-batched-tokens {SMALL_BATCH}", changed, rules)
    yield from _other_dtypes(flags, rules)
    yield from (each for each in _other_ranks(flags, rules) if _more_ranks(each.flags, flags))


def _shorter(
    request: PlanRequest, flags: ServeFlags, steps: EngineSteps, gpu: GpuType
) -> Iterator[FixAttempt]:
    """Yield the longest context that fits the memory."""
    started = steps.start(flags, gpu)
    if isinstance(started, FailedStart):
        return
    available = _available(request, started, steps, gpu)
    try:
        length = started.sizing.fitting().size(available.bytes).max_model_len
    except EngineRefusal:
        return
    if 0 < length < started.start.engine_config.max_model_len:
        yield FixAttempt(f"--max-model-len {length}", replace(flags, max_model_len=length), steps.rules)


def _captured(
    request: PlanRequest, flags: ServeFlags, steps: EngineSteps, gpu: GpuType
) -> Iterator[FixAttempt]:
    """Yield what lets the engine capture CUDA graphs with fewer recurrent states than sequences."""
    started = steps.start(flags, gpu)
    if isinstance(started, FailedStart):
        return
    start = started.start
    blocks = started.sizing.num_blocks(_available(request, started, steps, gpu).low)
    if capture_failure(start.layout, start.engine_config, blocks) is None:
        return
    if blocks > 0:
        seqs = 1 << (blocks.bit_length() - 1)
        yield FixAttempt(f"--max-num-seqs {seqs}", replace(flags, max_num_seqs=seqs), steps.rules)
    yield FixAttempt("--enforce-eager", replace(flags, enforce_eager=True), steps.rules)


def _available(request: PlanRequest, started: StartedEngine, steps: EngineSteps, gpu: GpuType) -> Estimate:
    """Return the memory that is left for the cache."""
    budget = steps.budget(started, gpu, request.free_memory_bytes)
    return calibrated(request, budget, started.start, started.flags, gpu).available_kv


def _patched(flags: ServeFlags, rules: EngineRules) -> Iterator[FixAttempt]:
    for patch in PATCHES.values():
        changed = with_patch(rules, patch.id)
        if changed is not rules:
            yield FixAttempt(f"patch {patch.id} ({patch.status})", flags, changed)


def _other_dtypes(flags: ServeFlags, rules: EngineRules) -> Iterator[FixAttempt]:
    for dtype in NEAREST_DTYPES:
        if dtype in rules.dtypes.accepted and dtype != flags.kv_cache_dtype:
            yield FixAttempt(f"--kv-cache-dtype {dtype}", replace(flags, kv_cache_dtype=dtype), rules)


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


def _more_ranks(changed: ServeFlags, flags: ServeFlags) -> bool:
    return (changed.tensor_parallel_size or 1) > (flags.tensor_parallel_size or 1)


def _other_releases(flags: ServeFlags, rules: EngineRules) -> Iterator[FixAttempt]:
    for release in RELEASES:
        if release > rules.release:
            yield FixAttempt(f"vLLM {release}", flags, rules_for(release))
