"""Memory for what the engine needs after the cache is set up: CUDA graphs, and steps at full length."""

from typing import Final

from service.kv_cache.kv_cache import KvCache
from service.memory.budget_types import Basis, MemoryBudget
from service.units import gib_text

NOTABLE: Final = 0.05
"""The part of the cache by which the next start's may be larger before a note says so."""


def beyond_memory(cache: KvCache, budget: MemoryBudget) -> tuple[str, ...]:
    """Return why a cache given in bytes or blocks does not fit beside the weights, if it does not."""
    taken = budget.weights.low + cache.num_blocks * cache.largest_bytes_per_block
    if taken <= budget.total.high:
        return ()
    given = cache.num_blocks * cache.largest_bytes_per_block
    words = (
        f"Weights ({gib_text(budget.weights.low)} GiB) and the given cache ({gib_text(given)} GiB) do not "
        f"fit in {gib_text(budget.total.high)} GiB. The token figures are right only for a smaller "
        "(quantized) checkpoint."
    )
    return (words,)


def no_room_for_graphs(cache: KvCache, budget: MemoryBudget) -> tuple[str, ...]:
    """Return a doubt if CUDA graphs may not fit beside the weights and the cache."""
    taken = _allocated(cache, budget)
    if not budget.captured_graphs.bytes or taken <= budget.free.bytes:
        return ()
    words = (
        f"Weights, cache and CUDA graphs take about {gib_text(taken)} of {gib_text(budget.free.bytes)} GiB "
        "free: capturing the graphs may run out of memory. --enforce-eager captures none."
    )
    return (words,)


def little_room_for_steps(cache: KvCache, budget: MemoryBudget) -> tuple[str, ...]:
    """Return a warning if a step at full length may have less memory than the profile run had."""
    allocated = _allocated(cache, budget)
    taken = allocated + budget.activation.bytes - _left_to_the_next(budget)
    if not allocated <= budget.free.bytes < taken:
        return ()
    words = (
        f"Weights, cache, CUDA graphs and a full step's activations take about {gib_text(taken)} of "
        f"{gib_text(budget.free.bytes)} GiB free: memory may run out under load. "
        "A lower --gpu-memory-utilization leaves more."
    )
    return (words,)


def first_start_takes_more(cache: KvCache, budget: MemoryBudget) -> tuple[str, ...]:
    """Return a note if a start that compiles the model leaves notably less for the cache than the next one.

    A measured activation says itself what it was.
    """
    copy, size = budget.compiled_copy, cache.num_blocks * cache.largest_bytes_per_block
    given = budget.available_kv.basis is Basis.GIVEN
    if given or budget.activation.basis is Basis.MEASURED or copy.bytes < NOTABLE * size:
        return ()
    words = (
        f"The first start compiles the model, and the compiler copies the embedding: {gib_text(copy.bytes)} "
        f"GiB ({gib_text(copy.low)} to {gib_text(copy.high)}) of the activation. The next start finds the "
        "compiled code in ~/.cache/vllm and has about that much more for its cache."
    )
    return (words,)


def no_room_for_one_request(cache: KvCache) -> tuple[str, ...]:
    """Return a warning if the engine accepts a length of which its cache does not hold one request.

    The check at the start and the blocks that a request takes are counted differently in some releases
    (vLLM 0.14.0 to 0.18.1 with groups of sliding window layers).
    """
    if cache.max_concurrency >= 1:
        return ()
    words = (
        f"The engine starts, but its cache holds {cache.max_concurrency:.2f} requests of "
        f"{cache.max_model_len:,} tokens: a request near that length cannot finish. "
        "Lower --max-model-len."
    )
    return (words,)


def _allocated(cache: KvCache, budget: MemoryBudget) -> int:
    """Return the bytes that are allocated before the first request, once the model is compiled."""
    other = budget.weights.bytes + budget.non_torch.bytes + budget.captured_graphs.bytes
    return other + cache.num_blocks * cache.largest_bytes_per_block + _left_to_the_next(budget)


def _left_to_the_next(budget: MemoryBudget) -> int:
    """Return by how much the next start's cache is larger, which finds the compiled model."""
    measured = budget.activation.basis is Basis.MEASURED
    return 0 if measured or budget.available_kv.basis is Basis.GIVEN else budget.compiled_copy.bytes
