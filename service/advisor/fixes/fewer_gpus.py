"""What the fewest GPUs do with a quantized checkpoint, beside a recommendation of more GPUs."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from service.advisor.candidates.advice import LIMITS
from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.verdict import Verdict
from service.advisor.dry_runs.engine_steps import EngineSteps
from service.advisor.dry_runs.steps_of_advice import length_of, whole_length_of
from service.advisor.fixes.checkpoint_fixes import checkpoint_sources
from service.advisor.fixes.combined_changes import combined
from service.advisor.fixes.fix_attempt import FixAttempt
from service.advisor.fixes.fixes import started_with, surest
from service.advisor.fixes.four_bit_checkpoint import four_bit_model
from service.advisor.fixes.longer_starts import LEAST_PERCENT
from service.advisor.ranking.service_level import Service, service_of
from service.advisor.request.plan_request import PlanRequest
from service.gpus.gpu_type import GpuType

SIZES: Final = (1, 2, 4)
"""Tensor parallel sizes below those of a whole node."""


def on_fewest_gpus(request: PlanRequest, best: Candidate, steps: EngineSteps, gpu: GpuType) -> str:
    """Return what the fewest GPUs are sure to do with quantized weights; nothing where that is not known.

    It serves the workload, and has a context that one GPU should keep. On as many GPUs as the recommended
    start has, it is named where it has a longer context than that was shortened to.
    """
    asked = request.serve
    searches = request.search and asked.tensor_parallel_size is None and asked.quantization is None
    if not searches or request.is_survey or not request.model.architecture.stores_16_bits:
        return ""
    shortened = asked.max_model_len is None and best.flags.max_model_len is not None
    for size in SIZES:
        gpus = size * asked.pipeline_parallel_size * asked.data_parallel_size
        if gpus > best.gpus or (gpus == best.gpus and not shortened):
            return ""
        least = length_of(best) * LEAST_PERCENT // 100 if gpus == best.gpus else 0
        flags = replace(asked, tensor_parallel_size=size, kv_cache_dtype=asked.kv_cache_dtype or "auto")
        for attempt in _attempts(request, FixAttempt("", flags, steps.rules), steps, gpu):
            start = started_with(request, attempt, gpu, steps)
            if start is not None and length_of(start) >= least and _is_enough(start, best, request):
                return _words(attempt, start, size)
    return ""


def _attempts(
    request: PlanRequest, first: FixAttempt, steps: EngineSteps, gpu: GpuType
) -> Iterator[FixAttempt]:
    """Yield published checkpoints; where none is known, the layout that most of them have."""
    for source in checkpoint_sources(request, first.flags, steps, gpu):
        found = surest(source, lambda each: started_with(request, each, gpu, steps))
        if found is not None:
            yield found[0]
    model = None if request.siblings else four_bit_model(request.model)
    if model is not None:
        layout = replace(first, words="a checkpoint with 4-bit weights (W4A16)", model=model)
        yield from combined(replace(request, model=model), layout, steps.of(model), gpu)


def _is_enough(start: Candidate, best: Candidate, request: PlanRequest) -> bool:
    whole = whole_length_of(best)
    least = whole if request.serve.max_model_len is not None else min(LIMITS.tokens, whole)
    return (
        start.verdict is Verdict.STARTS
        and length_of(start) >= least
        and service_of(start, request.workload) is Service.WHOLE
    )


def _words(attempt: FixAttempt, start: Candidate, size: int) -> str:
    cache = start.kv_cache
    gpus = "One GPU is" if size == 1 else f"{size} GPUs are"
    ranks = "" if size == 1 else f" --tensor-parallel-size {size}"
    if cache is None:
        return f"{gpus} sure to start: {attempt.words}{ranks}."
    holds = f"context of {cache.max_model_len:,} tokens, {cache.max_concurrency:.2f}x"
    return f"{gpus} sure to start with a {holds}: {attempt.words}{ranks}."
