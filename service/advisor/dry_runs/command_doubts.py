"""What a command's flags that are not modelled do to a verdict."""

from dataclasses import replace

from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.verdict import Verdict
from service.gpus.capability import ComputeCapability
from service.launch_command.command_reading import CommandReading
from service.memory.budget_types import Basis


def with_command(
    candidate: Candidate, command: CommandReading | None, capability: ComputeCapability | None
) -> Candidate:
    """Return a candidate with the doubts that the command leaves.

    A start is uncertain where a flag that is not modelled can make it fail or be another one. A refusal is
    uncertain where such a flag can make the start take less memory, or changes the model's config. A flag
    whose memory has a known limit leaves no doubt where the start has room for all such flags.
    """
    if command is None:
        return candidate
    if candidate.verdict is Verdict.REFUSED:
        memory = candidate.memory
        weights_fit = memory is None or memory.weights.low <= memory.total.high
        rescuing = command.rescues(weights_fit=weights_fit)
        if not rescuing:
            return candidate
        return replace(candidate, verdict=Verdict.UNCERTAIN, doubts=(*candidate.doubts, *rescuing))
    room = room_beside_one_request(candidate)
    doubts, changes = command.doubts(capability, room), command.changes(capability, room)
    verdict = Verdict.UNCERTAIN if doubts and candidate.verdict is Verdict.STARTS else candidate.verdict
    return replace(candidate, verdict=verdict, doubts=(*candidate.doubts, *doubts, *changes))


def room_beside_one_request(candidate: Candidate) -> int | None:
    """Return the bytes of a rank that are left in any case beside one request of the maximum length.

    None are known to be left where the caller gives the size of the cache. ``None`` where the memory
    itself is not known: the plan says so, whatever flags of the command add.
    """
    memory, cache = candidate.memory, candidate.kv_cache
    if memory is None:
        return None
    if cache is None or cache.max_concurrency <= 0:
        return 0
    left = memory.available_kv
    needed = left.bytes / cache.max_concurrency
    return 0 if left.basis is Basis.GIVEN else max(0, int(left.low - needed))
