"""Whether the device has room for what comes once the cache stands: CUDA graphs, and steps at full length."""

from service.kv_cache.kv_cache import KvCache
from service.memory.budget import MemoryBudget
from service.units import gib_text


def beyond_memory(cache: KvCache, budget: MemoryBudget) -> tuple[str, ...]:
    """Return why a cache given in bytes or blocks cannot be had beside the weights, if so."""
    taken = budget.weights.low + cache.num_blocks * cache.largest_bytes_per_block
    if taken <= budget.total.high:
        return ()
    words = (
        f"The weights of one rank and the cache together take {taken:,} bytes, more than the "
        f"{budget.total.high:,} that the device has: the figures hold for the cache given, "
        "with a checkpoint that leaves room for it."
    )
    return (words,)


def no_room_for_graphs(cache: KvCache, budget: MemoryBudget) -> tuple[str, ...]:
    """Return a doubt where graphs may not find room beside the weights and the cache."""
    taken = _standing(cache, budget)
    if not budget.captured_graphs.bytes or taken <= budget.free.bytes:
        return ()
    words = (
        f"Weights, cache and CUDA graphs come to about {gib_text(taken)} GiB, "
        f"{gib_text(budget.free.bytes)} GiB are free: it may run out of memory when it captures the graphs, "
        "once the cache stands. --enforce-eager captures none."
    )
    return (words,)


def little_room_for_steps(cache: KvCache, budget: MemoryBudget) -> tuple[str, ...]:
    """Return a warning where a step at full length may not find the room that the profile run had."""
    standing = _standing(cache, budget)
    taken = standing + budget.activation.bytes
    if not standing <= budget.free.bytes < taken:
        return ()
    words = (
        f"Weights, cache, CUDA graphs and the peak of a full step come to about {gib_text(taken)} GiB, "
        f"{gib_text(budget.free.bytes)} GiB are free: it may start, and run out of memory under load. "
        "A lower --gpu-memory-utilization leaves more beside the cache."
    )
    return (words,)


def _standing(cache: KvCache, budget: MemoryBudget) -> int:
    """Return the bytes that are taken before the first request."""
    kept = budget.weights.bytes + budget.non_torch.bytes + budget.captured_graphs.bytes
    return kept + cache.num_blocks * cache.largest_bytes_per_block
