"""Names what lets a recommended start with a shortened context hold a longer one."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.verdict import Verdict
from service.advisor.dry_runs.dry_run import dry_run
from service.advisor.dry_runs.engine_steps import EngineSteps
from service.advisor.dry_runs.steps_of_advice import is_fp8, length_of, uses_fallback
from service.advisor.fixes.fix_attempt import LENGTH_STEP, FixAttempt, longest_length, sure
from service.advisor.fixes.media_limits import media_limits
from service.advisor.request.plan_request import PlanRequest
from service.gpus.gpu_type import GpuType

LEAST_PERCENT: Final = 110
"""Percent of the recommended length that is worth a sentence. Chosen by us: estimates err by some percent."""


def longer_starts(request: PlanRequest, best: Candidate, steps: EngineSteps, gpu: GpuType) -> Iterator[str]:
    """Yield what an fp8 cache, and what fewer media in a prompt, would give a context that was shortened."""
    shortened = request.serve.max_model_len is None and best.flags.max_model_len is not None
    if request.is_survey or not shortened or best.verdict is not Verdict.STARTS:
        return
    for changes in (_denser(request, best), media_limits(request.model, best.flags, best.rules)):
        for change in changes:
            words = _longer(change, request, best, steps, gpu)
            if words:
                yield words
                break


def _denser(request: PlanRequest, best: Candidate) -> Iterator[FixAttempt]:
    if request.serve.kv_cache_dtype is None and not is_fp8(best) and "fp8" in best.rules.dtypes.accepted:
        yield FixAttempt("--kv-cache-dtype fp8", replace(best.flags, kv_cache_dtype="fp8"), best.rules)


def _longer(
    change: FixAttempt, request: PlanRequest, best: Candidate, steps: EngineSteps, gpu: GpuType
) -> str:
    """Return what a change gives, if its start is sure and its context is longer; else nothing."""
    whole = change.flags.of_length(None)
    candidate = dry_run(request, whole, steps.rules, gpu, steps)
    if candidate.verdict is not Verdict.STARTS:
        length = longest_length(request, whole, steps, gpu, sure) // LENGTH_STEP * LENGTH_STEP
        if length < 1:
            return ""
        candidate = dry_run(request, whole.of_length(length), steps.rules, gpu, steps)
    length = length_of(candidate)
    if (
        candidate.verdict is not Verdict.STARTS
        or not candidate.may_serve
        or (uses_fallback(candidate) and not uses_fallback(best))
        or length * 100 < length_of(best) * LEAST_PERCENT
    ):
        return ""
    cost = f"; published effect of that cache: {candidate.quality.effect}" if is_fp8(candidate) else ""
    return f"With {change.words} a context of {length:,} tokens is sure to fit{cost}."
