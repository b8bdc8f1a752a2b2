"""Which candidate is best for the objective of the request, and why."""

from enum import IntEnum
from functools import partial
from typing import Any, Final, assert_never

from service.advisor.plan_request import Objective, Workload
from service.advisor.plan_types import Candidate, Verdict

FINE_BITS: Final = 8
"""Caches with fewer bits per element are only for the objective ``tokens``, or where no other serves."""
VERDICTS: Final = (Verdict.STARTS, Verdict.UNCERTAIN, Verdict.REFUSED)


def best_first(
    candidates: tuple[Candidate, ...], objective: Objective, workload: Workload | None = None
) -> tuple[Candidate, ...]:
    """Return candidates best first; equal ones stay in the given order.

    Candidates that start come before those that do not. Then those that serve more of the workload: one that
    admits all requests but preempts some comes after those that preempt none.

    Then the objective decides. ``accuracy`` takes the least lossy cache, on any number of GPUs; ``tokens``
    the most tokens; ``balanced`` the fewest GPUs, and then the least lossy cache. It takes a cache with fewer
    than 8 bits per element only if no other serves as much on any number of GPUs.
    """
    return tuple(sorted(candidates, key=partial(_key, objective, workload)))


def _key(objective: Objective, workload: Workload | None, candidate: Candidate) -> tuple[Any, ...]:
    unfit = (VERDICTS.index(candidate.verdict), not candidate.may_serve, service_of(candidate, workload))
    ranks = _ranks(candidate)
    loss, coarse = candidate.quality.loss, candidate.quality.bits < FINE_BITS
    tokens = 0 if candidate.kv_cache is None else -candidate.kv_cache.tokens
    chosen_block = candidate.flags.block_size is not None
    match objective:
        case Objective.TOKENS:
            return (*unfit, tokens, ranks, loss, chosen_block)
        case Objective.ACCURACY:
            return (*unfit, loss, ranks, chosen_block, tokens)
        case Objective.BALANCED:
            return (*unfit, coarse, ranks, loss, chosen_block, tokens)
    assert_never(objective)


class Service(IntEnum):
    """How much of a workload a candidate serves, best first."""

    WHOLE = 0
    """All its requests run at once, and none is preempted."""
    INTERRUPTED = 1
    """All are admitted, but some are preempted and computed again."""
    PART = 2
    """Some wait to be admitted."""
    NONE = 3


def service_of(candidate: Candidate, workload: Workload | None) -> Service:
    """Return how much of the workload a candidate serves; without a workload, any cache serves it."""
    if candidate.kv_cache is None:
        return Service.NONE
    if workload is None:
        return Service.WHOLE
    admission, wanted = candidate.admission, workload.concurrent_requests
    if admission is None or not admission.admitted_at_once:
        return Service.NONE
    if admission.admitted_at_once < wanted:
        return Service.PART
    return Service.WHOLE if admission.completed_without_preemption >= wanted else Service.INTERRUPTED


def serves(candidate: Candidate, workload: Workload | None) -> bool:
    """Return whether all requests of the workload run at once without preemption."""
    return service_of(candidate, workload) is Service.WHOLE


def reason(candidates: tuple[Candidate, ...], objective: Objective, workload: Workload | None) -> str:
    """Return in words why the first candidate is recommended, or why none is."""
    best = candidates[0]
    if best.verdict is Verdict.REFUSED:
        error = best.error
        return f"No candidate starts: {'' if error is None else error.detail or error.message}"
    if not best.may_serve:
        return f"No candidate is recommended: {best.doubts[0]}"
    words = [_purpose(best, objective, workload)]
    if objective is Objective.BALANCED and _coarser_on_fewer(candidates, best, workload):
        words.append("A cache with fewer than 8 bits per element would need fewer GPUs.")
    if best.verdict is Verdict.UNCERTAIN:
        words.append("Whether it starts is uncertain.")
    if objective is Objective.BALANCED and workload is None:
        words.append("Without a workload, no quality is given up for more tokens.")
    more = _denser(candidates, best)
    if more is not None:
        words.append(more)
    return " ".join(words)


def _coarser_on_fewer(candidates: tuple[Candidate, ...], best: Candidate, workload: Workload | None) -> bool:
    return any(
        other.may_serve
        and other.quality.bits < FINE_BITS
        and _ranks(other) < _ranks(best)
        and service_of(other, workload) <= service_of(best, workload)
        for other in candidates
    )


def _ranks(candidate: Candidate) -> int:
    return candidate.tensor_parallel_size * candidate.pipeline_parallel_size


def _purpose(best: Candidate, objective: Objective, workload: Workload | None) -> str:
    quality = best.quality
    kind = _kind(best)
    served = " that starts" if workload is None else _served(best, workload)
    effect = f"published effect on quality: {quality.effect}"
    match objective:
        case Objective.TOKENS:
            return f"The most tokens{served}: {kind} ({effect})."
        case Objective.ACCURACY:
            return f"The least lossy cache{served}: {kind} ({effect})."
        case Objective.BALANCED:
            return f"On the fewest GPUs, the least lossy cache{served}: {kind} ({effect})."
    assert_never(objective)


def _kind(best: Candidate) -> str:
    dtype = best.resolved_kv_cache_dtype
    if best.start is not None and best.start.is_published:
        return f"the {dtype} cache that the checkpoint asks for"
    return "a lossless cache" if best.quality.loss == 0 else f"a {dtype} cache"


def _served(best: Candidate, workload: Workload) -> str:
    service, admission, wanted = service_of(best, workload), best.admission, workload.concurrent_requests
    if service is Service.WHOLE:
        return " that serves the workload"
    if service is Service.INTERRUPTED and admission is not None:
        return (
            f", although none serves the whole workload without preemption (all {wanted:,} requests are "
            f"admitted, {admission.completed_without_preemption:,} finish without preemption)"
        )
    return ", although none serves the whole workload"


def _denser(candidates: tuple[Candidate, ...], best: Candidate) -> str | None:
    """Say how much more the least lossy of the smaller cache dtypes would hold on as many GPUs."""
    if best.kv_cache is None:
        return None
    loss = best.quality.loss
    denser = [
        (other.quality.loss, other.kv_cache.max_concurrency, other.kv_cache_dtype)
        for other in candidates
        if other.kv_cache is not None
        and other.may_serve
        and (other.tensor_parallel_size, other.pipeline_parallel_size)
        == (best.tensor_parallel_size, best.pipeline_parallel_size)
        and other.quality.loss > loss
        and other.quality.bits >= FINE_BITS
        and other.kv_cache.max_concurrency > best.kv_cache.max_concurrency
    ]
    if not denser or not best.kv_cache.max_concurrency:
        return None
    _, concurrency, dtype = min(denser)
    return f"{dtype} would hold {concurrency / best.kv_cache.max_concurrency:.2f} times as many requests."
