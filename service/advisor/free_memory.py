"""Whether as much memory is free as the engine asks for, which it checks before it loads a model."""

from service.advisor.plan_types import Refusal
from service.engines.refusal import Stage
from service.engines.rules.capacity import CapacityRules
from service.memory.budget import Basis, MemoryBudget
from service.units import GIB, gib_text

FIX = ("lower --gpu-memory-utilization", "stop what else runs on the GPU")


def too_little_free(budget: MemoryBudget, rules: CapacityRules, utilization: float) -> Refusal | None:
    """Return the refusal of the engine, where what is free was told and is less than what is requested."""
    free, requested = budget.free, budget.requested
    if free.basis is not Basis.GIVEN or free.bytes >= requested.low:
        return None
    message = rules.free_memory_refusal.format(
        free=round(free.bytes / GIB, 2),
        total=round(budget.total.bytes / GIB, 2),
        utilization=utilization,
        requested=round(requested.bytes / GIB, 2),
    )
    detail = f"{free.bytes:,} bytes are free, {requested.bytes:,} are asked for."
    return Refusal(type="ValueError", message=message, stage=Stage.MEMORY, detail=detail, fix=FIX)


def hardly_free(budget: MemoryBudget) -> tuple[str, ...]:
    """Return a doubt where less may be free than is requested."""
    free, requested = budget.free, budget.requested
    # Where it was not told, what is free moves with the total as what is requested does.
    wanted = requested.high if free.basis is Basis.GIVEN else requested.bytes
    if free.high >= wanted:
        return ()
    words = (
        f"The engine asks for {gib_text(requested.bytes)} GiB and starts only where as much is free; "
        f"of {gib_text(budget.total.bytes)} GiB about {gib_text(free.bytes)} are."
    )
    return (words,)
