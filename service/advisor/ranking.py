"""Which candidate is best at what was asked for, and why."""

from enum import IntEnum
from functools import partial
from typing import Any, Final, assert_never

from service.advisor.plan_request import Objective, Workload
from service.advisor.plan_types import Candidate, Verdict

FINE_BITS: Final = 8
"""Caches of fewer bits to an element are for who asks for tokens, or can have no other."""
VERDICTS: Final = (Verdict.STARTS, Verdict.UNCERTAIN, Verdict.REFUSED)


def best_first(
    candidates: tuple[Candidate, ...], objective: Objective, workload: Workload | None = None
) -> tuple[Candidate, ...]:
    """Return candidates best first; those that do not start last, and otherwise in the order given.

    Next come those that serve less of the workload: one that lets all requests in but does not keep them
    until they are answered stands behind all that do.

    ``accuracy`` takes the least lossy cache that serves the workload, on however many GPUs; ``tokens`` the
    most tokens; ``balanced`` the fewest GPUs that serve it, and then the least lossy cache, but one of fewer
    than 8 bits to an element only where no other serves as much on any number of GPUs.
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
    """All its requests run at once, and stay until they are answered."""
    INTERRUPTED = 1
    """All are let in, but some are put off while they are answered, and computed anew."""
    PART = 2
    """Some wait to be let in."""
    NONE = 3


def service_of(candidate: Candidate, workload: Workload | None) -> Service:
    """Return how much of the workload a candidate serves; without one, a cache is all that is asked for."""
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
    """Return whether all requests of the workload run at once and stay until they are answered."""
    return service_of(candidate, workload) is Service.WHOLE


def reason(candidates: tuple[Candidate, ...], objective: Objective, workload: Workload | None) -> str:
    """Return in words why the first candidate is recommended, or that none starts."""
    best = candidates[0]
    if best.verdict is Verdict.REFUSED:
        return f"Nothing starts: {best.error.detail or best.error.message if best.error else 'no candidate'}"
    if not best.may_serve:
        return f"Nothing here is advised: {best.doubts[0]}"
    words = [_purpose(best, objective, workload)]
    if objective is Objective.BALANCED and _coarser_on_fewer(candidates, best, workload):
        words.append("Fewer GPUs would do with a cache of fewer than 8 bits to an element.")
    if best.verdict is Verdict.UNCERTAIN:
        words.append("Whether it starts is uncertain.")
    if objective is Objective.BALANCED and workload is None:
        words.append("Without a workload, no loss is weighed against more tokens.")
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
    kind = "a cache that loses nothing" if quality.loss == 0 else f"a {best.resolved_kv_cache_dtype} cache"
    served = "that starts" if workload is None else _served(best, workload)
    match objective:
        case Objective.TOKENS:
            return f"The most tokens {served}: {kind} (as published: {quality.effect})."
        case Objective.ACCURACY:
            return f"The least lossy {served}: {kind} (as published: {quality.effect})."
        case Objective.BALANCED:
            return f"On the fewest GPUs, the least lossy {served}: {kind} (as published: {quality.effect})."
    assert_never(objective)


def _served(best: Candidate, workload: Workload) -> str:
    service, admission, wanted = service_of(best, workload), best.admission, workload.concurrent_requests
    if service is Service.WHOLE:
        return "that serves the workload"
    if service is Service.INTERRUPTED and admission is not None:
        return (
            f"there is, though none keeps the whole workload: all {wanted:,} requests are let in, "
            f"{admission.completed_without_preemption:,} stay until they are answered"
        )
    return "there is, though none serves the whole workload"


def _denser(candidates: tuple[Candidate, ...], best: Candidate) -> str | None:
    """Say what the least lossy of the denser caches would hold on as many GPUs."""
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
    return f"{dtype} would hold {concurrency / best.kv_cache.max_concurrency:.2f} times as much."
