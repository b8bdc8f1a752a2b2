"""BlockPools: the blocks of TensorRT-LLM's first cache manager, and what a request needs of them.

Source, read: NVIDIA/TensorRT-LLM, cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp,
`calculateWindowSizeToShare`, `calculateMaxNumBlocks`, `getNeededBlocksOneStep` and
`getRemainingBlocksToCompletion`. Bytes and numbers of blocks were compared with published logs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from service.engine_plans.engine_plan import EngineRefused
from service.tensorrt_llm.window_groups import WindowGroup
from service.units import ceil_div


@dataclass(frozen=True, slots=True)
class BlockPool:
    """The blocks of one window on one rank."""

    window: int
    """Tokens; the longest request where layers have no window."""
    blocks: int
    tokens_per_block: int
    token_bytes: int
    """Bytes of a token in all layers of the window."""

    @property
    def bytes(self) -> int:
        """Bytes of all blocks."""
        return self.blocks * self.tokens_per_block * self.token_bytes


@dataclass(frozen=True, slots=True)
class Beams:
    """A request: its lengths in tokens, and its beams."""

    prompt: int
    answer: int
    beams: int = 1
    sink: int = 0
    """Tokens of the attention sink, in blocks of their own."""
    temporary: int = 0
    """Tokens beyond the window that a chunk of the prompt may hold."""


def window_shares(groups: Sequence[WindowGroup], longest: int) -> tuple[Fraction, ...]:
    """Return the share of the budget that each window gets.

    Layers count twice: the bytes of a token already are those of all layers of the window.
    """
    if len(groups) == 1:
        return (Fraction(1),)
    weights = [group.token_bytes * (group.window or longest) * group.layers for group in groups]
    return tuple(Fraction(weight, sum(weights)) for weight in weights)


def block_pools(
    groups: Sequence[WindowGroup], budget: int, tokens_per_block: int, longest: int, most: int | None = None
) -> tuple[BlockPool, ...]:
    """Return the pools that a budget of bytes on one rank holds.

    Args:
        groups: layers by their windows.
        budget: bytes.
        tokens_per_block: tokens of a block.
        longest: tokens of the longest request (`max_seq_len`), which layers without a window attend to.
        most: tokens that the cache holds at most (`max_tokens`).

    Raises:
        EngineRefused: a window gets no block.
    """
    if most is not None:
        budget = min(budget, most * sum(group.token_bytes for group in groups))
    pools = tuple(
        BlockPool(
            group.window or longest,
            # Blocks are rounded up, so the pools may be a little larger than the budget.
            ceil_div(int(budget * share / group.token_bytes), tokens_per_block),
            tokens_per_block,
            group.token_bytes,
        )
        for group, share in zip(groups, window_shares(groups, longest), strict=True)
    )
    if any(pool.blocks <= 0 for pool in pools):
        raise EngineRefused("Insufficient memory for KV cache: a window's pool has no block")
    return pools


def blocks_for_prompt(pool: BlockPool, request: Beams, chunk: int = 0) -> int:
    """Return the blocks that one step of the prompt needs (`getNeededBlocksOneStep`).

    ``chunk``: tokens beyond the window that newer code adds.
    """
    tokens = min(request.prompt, pool.window + chunk) + request.sink
    blocks, rest = divmod(tokens, pool.tokens_per_block)
    return blocks + (request.beams if rest else 0)


def blocks_for_step(pool: BlockPool, request: Beams, cached: int, draft_tokens: int = 0) -> int:
    """Return the blocks that one step of the answer needs beyond those of `cached` tokens."""
    tokens = cached + min(1 + draft_tokens, request.prompt + request.answer - cached)
    if tokens > pool.window + request.temporary:
        return 0
    size = pool.tokens_per_block
    return (ceil_div(tokens, size) - ceil_div(cached, size)) * request.beams


def blocks_to_completion(pool: BlockPool, request: Beams) -> int:
    """Return the blocks that a whole request needs (`getRemainingBlocksToCompletion`)."""
    size, window = pool.tokens_per_block, pool.window + request.temporary
    shared = (min(request.prompt, window) + request.sink) // size
    whole = request.prompt + request.answer
    every = ceil_div(min(whole, window) + request.sink, size)
    # Past the window a new block is taken before the oldest one is released.
    crosses = whole > pool.window and ceil_div(whole + request.sink, size) > ceil_div(
        pool.window + request.sink, size
    )
    return shared + (every - shared) * request.beams + (request.beams if crosses else 0)


def longest_request(pools: Sequence[BlockPool], limit: int, beams: int = 1, sink: int = 0) -> int:
    """Return the tokens of the longest request that all pools hold, up to `limit`; 0: none."""

    def fits(tokens: int) -> bool:
        request = Beams(max(1, tokens - 1), min(1, tokens), beams, sink)
        return all(blocks_to_completion(pool, request) <= pool.blocks for pool in pools)

    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
