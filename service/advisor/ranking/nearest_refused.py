"""The refused candidate that is nearest to a start."""

from collections.abc import Iterable

from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.verdict import Verdict


def nearest_refused(candidates: Iterable[Candidate]) -> Candidate | None:
    """Return the refused candidate with the most room for a cache; ``None`` if another may start.

    Candidates that fail before their memory is known come last, those on the most GPUs first: what gets past
    such a refusal must leave room for the weights too. Of equal ones the first is returned.
    """
    candidates = tuple(candidates)
    if not candidates or any(candidate.verdict is not Verdict.REFUSED for candidate in candidates):
        return None
    return max(candidates, key=_room)


def _room(candidate: Candidate) -> tuple[bool, int]:
    memory = candidate.memory
    return (False, candidate.gpus) if memory is None else (True, memory.available_kv.bytes)
