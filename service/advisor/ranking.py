"""Which candidate is best at what was asked for, and why."""

from functools import partial
from typing import Any, Final, assert_never

from service.advisor.plan_request import Objective, Workload
from service.advisor.plan_types import Candidate, Verdict
from service.engines.cache_quality import CacheQuality, quality_of

VERDICTS: Final = (Verdict.STARTS, Verdict.UNCERTAIN, Verdict.REFUSED)


def best_first(
    candidates: tuple[Candidate, ...], objective: Objective, workload: Workload | None = None
) -> tuple[Candidate, ...]:
    """Return candidates best first; those that do not start last, and otherwise in the order given.

    ``accuracy`` takes the least lossy cache that serves the workload, on however many GPUs; ``tokens`` the
    most tokens; ``balanced`` the fewest GPUs that serve it, and then the least lossy cache.
    """
    return tuple(sorted(candidates, key=partial(_key, objective, workload)))


def _key(objective: Objective, workload: Workload | None, candidate: Candidate) -> tuple[Any, ...]:
    unfit = (VERDICTS.index(candidate.verdict), not serves(candidate, workload))
    ranks = candidate.tensor_parallel_size * candidate.pipeline_parallel_size
    loss = cache_quality(candidate).loss
    tokens = 0 if candidate.kv_cache is None else -candidate.kv_cache.tokens
    chosen_block = candidate.flags.block_size is not None
    match objective:
        case Objective.TOKENS:
            return (*unfit, tokens, ranks, loss, chosen_block)
        case Objective.ACCURACY:
            return (*unfit, loss, ranks, chosen_block, tokens)
        case Objective.BALANCED:
            return (*unfit, ranks, loss, chosen_block, tokens)
    assert_never(objective)


def serves(candidate: Candidate, workload: Workload | None) -> bool:
    """Return whether all requests of the workload run at once; without one, whether there is a cache."""
    if workload is None or candidate.admission is None:
        return workload is None and candidate.kv_cache is not None
    return candidate.admission.admitted_at_once >= workload.concurrent_requests


def cache_quality(candidate: Candidate) -> CacheQuality:
    """Return what is published about the type that a candidate's cache is stored in."""
    return quality_of(candidate.resolved_kv_cache_dtype)


def reason(candidates: tuple[Candidate, ...], objective: Objective, workload: Workload | None) -> str:
    """Return in words why the first candidate is recommended, or that none starts."""
    best = candidates[0]
    if best.verdict is Verdict.REFUSED:
        return f"Nothing starts: {best.error.detail or best.error.message if best.error else 'no candidate'}"
    words = [_purpose(best, objective, workload)]
    if best.verdict is Verdict.UNCERTAIN:
        words.append("Whether it starts is uncertain.")
    if objective is Objective.BALANCED and workload is None:
        words.append("Without a workload, no loss is weighed against more tokens.")
    more = _denser(candidates, best)
    if more is not None:
        words.append(more)
    return " ".join(words)


def _purpose(best: Candidate, objective: Objective, workload: Workload | None) -> str:
    quality = cache_quality(best)
    kind = "a cache that loses nothing" if quality.loss == 0 else f"a {best.resolved_kv_cache_dtype} cache"
    served = "that starts" if workload is None else "that serves the workload"
    if workload is not None and not serves(best, workload):
        served = "there is, though none serves the whole workload"
    match objective:
        case Objective.TOKENS:
            return f"The most tokens {served}: {kind} (as published: {quality.effect})."
        case Objective.ACCURACY:
            return f"The least lossy {served}: {kind} (as published: {quality.effect})."
        case Objective.BALANCED:
            return f"On the fewest GPUs, the least lossy {served}: {kind} (as published: {quality.effect})."
    assert_never(objective)


def _denser(candidates: tuple[Candidate, ...], best: Candidate) -> str | None:
    """Say what the least lossy of the denser caches would hold on as many GPUs."""
    if best.kv_cache is None:
        return None
    loss = cache_quality(best).loss
    denser = [
        (cache_quality(other).loss, other.kv_cache.max_concurrency, other.kv_cache_dtype)
        for other in candidates
        if other.kv_cache is not None
        and other.verdict is not Verdict.REFUSED
        and (other.tensor_parallel_size, other.pipeline_parallel_size)
        == (best.tensor_parallel_size, best.pipeline_parallel_size)
        and cache_quality(other).loss > loss
        and other.kv_cache.max_concurrency > best.kv_cache.max_concurrency
    ]
    if not denser or not best.kv_cache.max_concurrency:
        return None
    _, concurrency, dtype = min(denser)
    return f"{dtype} would hold {concurrency / best.kv_cache.max_concurrency:.2f} times as much."
