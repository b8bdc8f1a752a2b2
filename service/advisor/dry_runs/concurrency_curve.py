"""How many requests of which length run at once, by the release's own scheduler."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from service.advisor.candidates.engine_start import Start
from service.advisor.candidates.plan_types import Candidate
from service.kv_cache.admission import RequestAdmission, admit

SHORTEST: Final = 128
"""Tokens of the shortest requests of a curve."""
STEPS_OF_DOUBLING: Final = 4
"""Lengths between one and its double."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """How many requests of one length run at once and finish without preemption, of all replicas together."""

    tokens: int
    """Prompt and answer together."""
    requests: int
    low: int
    """With the 10th percentile of the memory for the cache."""
    high: int
    """With the 90th percentile."""


def concurrency_curve(candidate: Candidate, lengths: Iterable[int] = ()) -> tuple[CurvePoint, ...]:
    """Return the requests by their length, the shortest first; empty without a cache.

    The answer of a request has as many tokens as the workload's, or one. A little longer requests can be
    more: where states are stored at the ends of blocks, a prompt that ends with a block takes another number.
    ``lengths``: more lengths in tokens than the regular ones.
    """
    start, cache = candidate.start, candidate.kv_cache
    if start is None or cache is None:
        return ()
    answer = 1 if candidate.admission is None else max(1, candidate.admission.output_tokens)
    found = {*regular_lengths(cache.max_model_len), *lengths}
    chosen = sorted(each for each in found if answer < each <= cache.max_model_len)
    pools, engines = _free_blocks(candidate), candidate.engines
    points = []
    for tokens in chosen:
        request = admit(
            start.layout.groups, start.engine_config, cache.max_model_len, tokens - answer, answer
        )
        counts = (_at_once(request, start, free) * engines for free in pools)
        points.append(CurvePoint(tokens, *counts))
    return tuple(points)


def regular_lengths(longest: int) -> tuple[int, ...]:
    """Return lengths at equal ratios up to the longest, which is the last one."""
    number, lengths = 0, []
    while (length := round(SHORTEST * 2 ** (number / STEPS_OF_DOUBLING))) < longest:
        lengths.append(length)
        number += 1
    return (*lengths, longest)


def _at_once(request: RequestAdmission, start: Start, free_blocks: int) -> int:
    return min(request.to_the_end(free_blocks), start.engine_config.max_num_seqs)


def _free_blocks(candidate: Candidate) -> tuple[int, int, int]:
    """Return the free blocks of an idle engine, without the null block: as planned, with p10, with p90."""
    start, cache, memory = candidate.start, candidate.kv_cache, candidate.memory
    if start is None or cache is None or memory is None:
        return (0, 0, 0)
    planned, size = cache.num_blocks, cache.largest_bytes_per_block
    if start.engine_config.num_gpu_blocks_override is not None:
        return (planned - 1, planned - 1, planned - 1)
    low, high = (max(1, bound // size) for bound in (memory.available_kv.low, memory.available_kv.high))
    return (planned - 1, min(low, planned) - 1, max(high, planned) - 1)
