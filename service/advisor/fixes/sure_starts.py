"""Names what is sure to start, where memory decides about the start that is recommended."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.verdict import Verdict
from service.advisor.dry_runs.engine_steps import EngineSteps
from service.advisor.dry_runs.steps_of_advice import is_short_of_memory, uses_fallback
from service.advisor.fixes.checkpoint_fixes import checkpoint_sources
from service.advisor.fixes.combined_changes import combined
from service.advisor.fixes.fix_attempt import FixAttempt, shorter_attempts
from service.advisor.fixes.fixes import started_with, surest
from service.advisor.fixes.memory_changes import quantized_sources
from service.advisor.request.plan_request import PlanRequest
from service.advisor.words.rank_words import requests_held
from service.gpus.gpu_type import GpuType

MOST: Final = 3
"""Starts named at most."""


def sure_starts(
    request: PlanRequest,
    best: Candidate,
    candidates: Iterable[Candidate],
    steps: EngineSteps,
    gpu: GpuType,
) -> str:
    """Return in a sentence what is sure to start in place of a start about which memory decides.

    Quantized weights, published checkpoints, another cache, a shorter context; where none is sure, the first
    candidate that is. Nothing where the refusal of the start has all fixes: they stand there.
    """
    has_fixes = best.error is not None and request.serve.kv_cache_dtype is not None
    if request.is_survey or has_fixes or not is_short_of_memory(best):
        return ""
    found = [*islice(_sure(request, best, steps, gpu), MOST)]
    if not found:
        sure = (each for each in candidates if each.verdict is Verdict.STARTS and each.may_serve)
        found = [f"--kv-cache-dtype {each.kv_cache_dtype}{_held(each)}" for each in islice(sure, 1)]
    return f"To be sure that it starts: {'; or '.join(found)}." if found else ""


def _sure(request: PlanRequest, best: Candidate, steps: EngineSteps, gpu: GpuType) -> Iterator[str]:
    for source in _sources(request, best, steps, gpu):
        one = surest(source, lambda attempt: started_with(request, attempt, gpu, steps))
        if one is None or one[1].verdict is not Verdict.STARTS:
            continue
        attempt, start = one
        if not uses_fallback(start) or uses_fallback(best):
            yield f"{attempt.words}{_held(start)}"


def _sources(
    request: PlanRequest, best: Candidate, steps: EngineSteps, gpu: GpuType
) -> Iterator[Iterable[FixAttempt]]:
    """Yield the kinds of changes that make a start sure, untried, those that keep what was asked first."""
    flags, rules = best.flags, steps.rules
    if flags.kv_cache_memory_bytes is None:
        yield from quantized_sources(request, flags, steps, gpu)
        yield from checkpoint_sources(request, flags, steps, gpu)
    yield combined(request, FixAttempt("", flags, rules), steps, gpu)
    yield shorter_attempts(request, flags, steps, gpu)


def _held(start: Candidate) -> str:
    cache = start.kv_cache
    if cache is None:
        return ""
    held = requests_held(cache.max_concurrency, start.flags.data_parallel_size)
    return f" ({cache.tokens:,} tokens, {held} requests of {cache.max_model_len:,})"
