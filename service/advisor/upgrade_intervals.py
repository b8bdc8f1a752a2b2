"""Whether figures of two releases differ by more than is not known of them, and which term moved."""

from typing import Final

from service.advisor.candidates.plan_types import Upgrade, UpgradeOutcome
from service.memory.budget_types import Estimate, MemoryBudget
from service.units import MIB, gib_amount

BY_MEMORY: Final = ("available_kv_bytes", "tokens", "max_concurrency")
"""Figures of an outcome that grow with the memory for the cache."""
SAME: Final = "so the difference may be none"
LEAST_MOVED: Final = 10 * MIB
"""Bytes by which a term of the memory differs before it is named."""


def interval_of(step: Upgrade, outcome: UpgradeOutcome, figure: str) -> tuple[float, float] | None:
    """Return a figure at the least and the most memory for the cache that is expected.

    Tokens and requests grow with the memory in proportion. ``None`` where the figure does not follow from an
    estimate.
    """
    value, memory = getattr(outcome, figure), outcome.memory
    if figure not in BY_MEMORY or value is None or memory is None:
        return None
    available = memory.available_kv
    if available.low == available.high:
        return None
    if figure == "available_kv_bytes":
        return available.low, available.high
    if available.bytes <= 0 or step.start.candidate.flags.num_gpu_blocks_override is not None:
        return None
    return value * max(0, available.low) / available.bytes, value * available.high / available.bytes


def uncertain_changes(step: Upgrade) -> tuple[str, ...]:
    """Return the figures that differ, but whose intervals on the two releases overlap."""
    return tuple(figure for figure in step.changed if _overlap(step, figure))


def _overlap(step: Upgrade, figure: str) -> bool:
    before, after = (interval_of(step, each, figure) for each in (step.before, step.after))
    return before is not None and after is not None and before[0] <= after[1] and after[0] <= before[1]


def moved_terms(before: MemoryBudget, after: MemoryBudget) -> str:
    """Name the terms of the memory that moved, the one that moved most first; empty where none did."""
    terms = {
        "share of the device": (before.requested, after.requested),
        "weights": (before.weights, after.weights),
        "activation": (before.activation, after.activation),
        "non-torch": (before.non_torch, after.non_torch),
        "CUDA graphs, reserved": (before.cuda_graphs, after.cuda_graphs),
    }
    moved = [
        (name, one, other)
        for name, (one, other) in terms.items()
        if abs(one.bytes - other.bytes) >= LEAST_MOVED
    ]
    moved.sort(key=lambda each: -abs(each[1].bytes - each[2].bytes))
    return "; ".join(_moved(*each) for each in moved)


def _moved(name: str, before: Estimate, after: Estimate) -> str:
    same = before.low <= after.high and after.low <= before.high
    doubt = f", {SAME}" if same else ""
    return f"{name} {_words(before)} became {_words(after)}{doubt}"


def _words(estimate: Estimate) -> str:
    if estimate.low == estimate.high:
        return f"{gib_amount(estimate.bytes)} GiB"
    low, high = gib_amount(estimate.low), gib_amount(estimate.high)
    return f"{gib_amount(estimate.bytes)} GiB ({low} to {high})"
