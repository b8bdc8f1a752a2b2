"""Several changes at once that save memory, for starts that no single one helps."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from service.advisor.candidates.plan_types import Candidate
from service.advisor.dry_runs.engine_steps import EngineSteps
from service.advisor.fixes.combined_changes import SMALL_BATCH
from service.advisor.fixes.fix_attempt import FixAttempt, shorter_attempts
from service.advisor.fixes.memory_changes import FEW_SEQUENCES, UTILIZATIONS, quantized_weights, text_only
from service.advisor.request.plan_request import Model, PlanRequest
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.gpus.gpu_type import GpuType

LONGEST: Final = 8192
"""Tokens of the longest context: such a start, with few requests and no CUDA graphs, is for one person."""


def joint_attempts(
    request: PlanRequest, base: Candidate, gpu: GpuType, steps: EngineSteps
) -> Iterator[Iterable[FixAttempt]]:
    """Yield starts with all that saves memory beside the weights, the least lossy weights first, untried.

    A larger share, no CUDA graphs, small batches of few requests, a shorter context; then no encoders.
    """
    if base.flags.kv_cache_memory_bytes is not None:
        return
    yield (
        each
        for weights in _weights(request.model, base.flags, steps.rules)
        for each in _tight(request, base.flags, weights, gpu, steps)
    )


def _weights(model: Model, flags: ServeFlags, rules: EngineRules) -> Iterator[ServeFlags]:
    """Yield flags with weights as they are, then of 8 and of 4 bits, each with encoders and without."""
    for weights in (flags, *(each.flags for each in quantized_weights(model, flags, rules))):
        yield weights
        yield from (each.flags for each in text_only(model, weights, rules))


def _tight(
    request: PlanRequest, base: ServeFlags, weights: ServeFlags, gpu: GpuType, steps: EngineSteps
) -> Iterator[FixAttempt]:
    for share in UTILIZATIONS:
        tight = replace(
            weights,
            gpu_memory_utilization=max(share, weights.gpu_memory_utilization or 0),
            enforce_eager=True,
            max_num_seqs=min(FEW_SEQUENCES[-1], weights.max_num_seqs or FEW_SEQUENCES[-1]),
            max_num_batched_tokens=min(SMALL_BATCH, weights.max_num_batched_tokens or SMALL_BATCH),
        )
        for shorter in shorter_attempts(request, tight, steps, gpu):
            length = min(LONGEST, shorter.flags.max_model_len or LONGEST)
            flags = replace(shorter.flags, max_model_len=length)
            yield FixAttempt(_words(base, flags), flags, steps.rules)


def _words(base: ServeFlags, flags: ServeFlags) -> str:
    """Return the options in which two sets of flags differ."""
    names = (
        "quantization",
        "language_model_only",
        "max_model_len",
        "gpu_memory_utilization",
        "max_num_seqs",
        "max_num_batched_tokens",
        "enforce_eager",
    )
    changed: dict[str, Any] = {
        name: getattr(flags, name) for name in names if getattr(flags, name) != getattr(base, name)
    }
    options = (
        f"--{name.replace('_', '-')}" + ("" if value is True else f" {value}")
        for name, value in changed.items()
    )
    return " ".join(options)
