"""What a person should know about a plan that starts."""

from collections.abc import Iterator
from typing import Final

from service.advisor.engine_start import Start
from service.architecture.layers.experts import MixtureOfExperts
from service.engines.rules.capacity import TokenReport
from service.kv_cache.kv_cache import CacheGroup, KvCache

GIANT_BLOCK: Final = 256
"""Tokens. Short prompts rarely fill larger blocks, so that prefix caching rarely hits."""


def warnings(start: Start, cache: KvCache, data_parallel_size: int = 1) -> tuple[str, ...]:
    """Return the warnings about one candidate, the most important first."""
    return (
        *_unmeasured_ranks(start, data_parallel_size),
        *_unpassed_dtype(start),
        *_meaning_of_tokens(start, cache),
        *_padding(cache),
        *_giant_blocks(start, cache),
    )


def _unmeasured_ranks(start: Start, data_parallel_size: int) -> Iterator[str]:
    layers = start.architecture.distinct_layers
    if data_parallel_size == 1 or not any(
        isinstance(layer.feed_forward, MixtureOfExperts) for layer in layers
    ):
        return
    yield (
        f"Experts compute the tokens of all {data_parallel_size} data parallel ranks. No such start was "
        "measured, so the memory that the profile run takes, and with it the memory left for the cache, is "
        "given as a wide interval. A lower --max-num-batched-tokens narrows it."
    )


def _unpassed_dtype(start: Start) -> Iterator[str]:
    engine_config = start.engine_config
    if not engine_config.passes_cache_dtype and engine_config.kv_cache_dtype != "auto":
        yield (
            f"vLLM {engine_config.release} does not pass {engine_config.kv_cache_dtype} to this model's "
            f"layers: the cache stays {engine_config.dtype}, and the log does not say so."
        )


def _meaning_of_tokens(start: Start, cache: KvCache) -> Iterator[str]:
    release = start.engine_config.release
    if start.engine_config.rules.capacity.token_report is TokenReport.CONCURRENCY:
        yield (
            f"vLLM {release} logs tokens as concurrency x max_model_len "
            f"({cache.max_concurrency:.4f} x {cache.max_model_len:,}): this number changes with "
            "--max-model-len and does not count token slots. "
            f"A single request can have up to {cache.estimated_max_model_len:,} tokens."
        )
    elif len(cache.groups) > 1:
        yield (
            f"vLLM {release} logs tokens as blocks // groups x the smallest block "
            f"({cache.num_blocks:,} // {len(cache.groups)} x {min(g.block_size for g in cache.groups)}), "
            "as if every group stored every token. Sliding-window and recurrent layers store fewer, so "
            f"{cache.max_concurrency:.2f} requests of {cache.max_model_len:,} tokens fit. "
            f"A single request can have up to {cache.estimated_max_model_len:,} tokens."
        )


def _padding(cache: KvCache) -> Iterator[str]:
    padded = {
        (group.kind, group.layers, group.page_size_bytes, group.unpadded_page_size_bytes): group
        for group in cache.groups
        if group.page_size_bytes > group.unpadded_page_size_bytes
    }
    for group in padded.values():
        yield _waste(group)


def _waste(group: CacheGroup) -> str:
    wasted = group.page_size_bytes - group.unpadded_page_size_bytes
    percent = 100 * wasted / group.unpadded_page_size_bytes
    return (
        f"Padding wastes {group.layers} x ({group.page_size_bytes:,} - {group.unpadded_page_size_bytes:,}) "
        f"bytes per block of {group.kind} layers (+{percent:.2f} %)."
    )


def _giant_blocks(start: Start, cache: KvCache) -> Iterator[str]:
    block = max((group.block_size for group in cache.groups if group.kind != "mamba"), default=0)
    if block <= GIANT_BLOCK or not start.engine_config.enable_prefix_caching:
        return
    hybrid = start.architecture.is_hybrid
    remedy = (
        "A block is as large as a recurrent state. A cache dtype with more bytes per token (auto), a smaller "
        "state (--mamba-ssm-cache-dtype) or more ranks make blocks of fewer tokens. If all prompts are "
        "shorter, --no-enable-prefix-caching saves the memory of the states that are cached for them."
        if hybrid
        else "A smaller --block-size makes blocks that prompts fill."
    )
    yield (
        f"A block holds {block:,} tokens. A shorter prompt never fills one, so prefix caching rarely hits. "
        f"{remedy}"
    )
