"""The lines that SGLang logs of its pools.

Sizes count the tokens of a pool and one page more, which no request gets. "GB" are GiB. Source: SGLang 0.5.10
and 0.5.23, mem_cache/memory_pool.py.
"""

from collections.abc import Iterator

from service.sglang.pools import PoolQuestion, TokenPools
from service.units import GIB


def log_lines(question: PoolQuestion, pools: TokenPools) -> tuple[str, ...]:
    """Return the lines of one rank, in order."""
    return tuple(_lines(question, pools))


def _lines(question: PoolQuestion, pools: TokenPools) -> Iterator[str]:
    sizes, spare = question.sizes, question.page
    if pools.states is not None:
        slots = pools.states + 1
        convolution = sizes.convolution * slots / GIB
        matrices = (sizes.states - sizes.convolution) * slots / GIB
        yield (
            f"Mamba Cache is allocated. max_mamba_cache_size: {pools.states}, "
            f"conv_state size: {convolution:.2f}GB, ssm_state size: {matrices:.2f}GB"
        )
    if pools.windows is None:
        if sizes.full:
            yield _pool(pools.full, spare, sizes.keys, sizes.full, is_mla=sizes.is_mla)
        return
    if pools.full:
        yield (
            f"Use sliding window memory pool. full_layer_tokens={pools.full}, "
            f"swa_layer_tokens={pools.windows}"
        )
    else:
        yield f"Use sliding window memory pool (all SWA). swa_layer_tokens={pools.windows}"
    yield _pool(pools.windows, spare, sizes.window_keys, sizes.windows, is_mla=sizes.is_mla)
    if pools.full:
        yield _pool(pools.full, spare, sizes.keys, sizes.full, is_mla=sizes.is_mla)
    total = (pools.windows + spare) * sizes.windows + (pools.full + spare) * sizes.full
    yield (f"SWAKVPool mem usage: {total / GIB:.2f} GB, swa size: {pools.windows}, full size: {pools.full}")


def _pool(tokens: int, spare: int, keys: int, both: int, *, is_mla: bool) -> str:
    slots = tokens + spare
    if is_mla:
        return f"KV Cache is allocated. #tokens: {tokens}, KV size: {slots * both / GIB:.2f} GB"
    return (
        f"KV Cache is allocated. #tokens: {tokens}, K size: {slots * keys / GIB:.2f} GB, "
        f"V size: {slots * (both - keys) / GIB:.2f} GB"
    )
