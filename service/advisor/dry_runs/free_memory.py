"""The engine's first memory check: is as much memory free as it requests? It runs before the model loads."""

from service.advisor.candidates.refusal import Refusal
from service.engines.refusal import Stage
from service.engines.rules.capacity import CapacityRules
from service.memory.budget_types import Basis, MemoryBudget
from service.units import GIB, gib_text


def too_little_free(budget: MemoryBudget, rules: CapacityRules, utilization: float) -> Refusal | None:
    """Return the engine's refusal if the free memory is given and is less than the engine requests.

    Source: vLLM 0.32.0, v1/worker/utils.py request_memory.
    """
    free, requested = budget.free, budget.requested
    if free.basis is not Basis.GIVEN or free.bytes >= requested.low:
        return None
    message = rules.free_memory_refusal.format(
        free=round(free.bytes / GIB, 2),
        total=round(budget.total.bytes / GIB, 2),
        utilization=utilization,
        requested=round(requested.bytes / GIB, 2),
    )
    detail = (
        f"{gib_text(free.bytes)} GiB are free; the engine requests {gib_text(requested.bytes)} GiB. Stop "
        "other processes on the GPU, or lower --gpu-memory-utilization."
    )
    return Refusal(type="ValueError", message=message, stage=Stage.MEMORY, detail=detail)


def hardly_free(budget: MemoryBudget) -> tuple[str, ...]:
    """Return a doubt if less memory may be free than the engine requests."""
    free, requested = budget.free, budget.requested
    # An estimate of the free memory moves with the total, as the requested memory does.
    wanted = requested.high if free.basis is Basis.GIVEN else requested.bytes
    if free.high >= wanted:
        return ()
    words = (
        f"The engine requests {gib_text(requested.bytes)} GiB and refuses to start if less is free; about "
        f"{gib_text(free.bytes)} of {gib_text(budget.total.bytes)} GiB are free."
    )
    return (words,)
