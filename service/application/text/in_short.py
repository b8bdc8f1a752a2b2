"""Why a candidate does not start or may not, in a few words with the number that decides."""

from collections.abc import Sequence

from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.verdict import Verdict
from service.advisor.dry_runs.outcome import MEMORY_DECIDES
from service.engines.refusal import Stage
from service.memory.budget_types import MemoryBudget
from service.units import gib_amount, gib_text


def in_short(candidate: Candidate) -> str:
    """Return in a few words why a candidate does not start or may not; empty where it starts."""
    if candidate.verdict is Verdict.STARTS:
        return ""
    error, memory = candidate.error, candidate.memory
    doubt = _doubt(candidate.doubts)
    if error is None and doubt and not doubt.startswith(MEMORY_DECIDES):
        words = doubt  # memory is not what decides
    elif memory is not None and (error is None or error.stage is Stage.MEMORY):
        words = _short_of_memory(candidate, memory)
    elif error is not None and error.stage is Stage.BACKEND and error.detail:
        words = error.detail  # the engine's own words begin with everything that it asked for
    else:
        words = _doubt(candidate.doubts) if error is None else error.message or error.type
    return " ".join(words.split())


def _short_of_memory(candidate: Candidate, memory: MemoryBudget) -> str:
    """Say what there is too much or too little of; where a start may succeed, what the cache may get."""
    error, available = candidate.error, memory.available_kv
    if memory.weights.low > memory.total.high:
        return f"{gib_text(memory.weights.bytes)} GiB of weights on one GPU"
    if error is not None and available.bytes < 0:
        return f"{gib_text(-available.bytes)} GiB too little before any cache"
    if error is not None:
        return f"{gib_text(available.bytes)} GiB left for the cache are too few"
    if available.low != available.high:
        return f"{gib_amount(available.low)} to {gib_amount(available.high)} GiB left for the cache"
    return _doubt(candidate.doubts)


def _doubt(doubts: Sequence[str]) -> str:
    return doubts[0] if doubts else ""
