"""Which candidate is best at what was asked for."""

from typing import Any, Final

from service.advisor.answer import Candidate, Verdict
from service.advisor.request import Objective
from service.kv_cache.formats import cache_format

VERDICTS: Final = (Verdict.STARTS, Verdict.UNCERTAIN, Verdict.REFUSED)
TYPICAL_HEAD: Final = 128
"""Head size at which formats are compared by the bits that they keep."""


def best_first(candidates: tuple[Candidate, ...], objective: Objective) -> tuple[Candidate, ...]:
    """Return candidates best first; those that do not start last, and otherwise in the order given."""
    return tuple(sorted(candidates, key=lambda candidate: _key(candidate, objective)))


def _key(candidate: Candidate, objective: Objective) -> tuple[Any, ...]:
    verdict = VERDICTS.index(candidate.verdict)
    ranks = candidate.tensor_parallel_size * candidate.pipeline_parallel_size
    lost = -kept_bits(candidate)
    tokens = -candidate.kv_cache.tokens if candidate.kv_cache is not None else 0
    match objective:
        case Objective.TOKENS:
            return (verdict, tokens, ranks, lost)
        case Objective.ACCURACY:
            return (verdict, lost, ranks, tokens)
        case Objective.BALANCED:
            return (verdict, ranks, lost, tokens)


def kept_bits(candidate: Candidate) -> int:
    """Return the bits that a cache keeps of a typical head's key and value: the fewer, the lossier."""
    dtype = candidate.resolved_kv_cache_dtype
    if dtype is None:
        return 0
    return cache_format(dtype, "bfloat16").head_bytes(TYPICAL_HEAD, TYPICAL_HEAD) * 8
