"""Lengths that the engine fits to the memory, and blocks that are given instead of it."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from service.advisor.dry_runs.dry_run import dry_start
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import find_release, rules_for
from service.gpus.catalog import find_gpu
from service.kv_cache.capacity import CacheSizing, size_cache
from service.kv_cache.kv_cache import KvCache
from tests.accuracy.oracle import bundled_architecture

GPU = find_gpu("h100-sxm-80gb")
GEMMA = "google/gemma-3-27b-it"


def cache_of(model: str, release: str, available: int, flags: ServeFlags) -> KvCache:
    start = dry_start(bundled_architecture(model), flags, rules_for(find_release(release)), GPU)
    return size_cache(start.layout, start.engine_config, available)


def flags(length: int, *, stages: int = 1, blocks: int | None = None) -> ServeFlags:
    return ServeFlags(
        tensor_parallel_size=2,
        pipeline_parallel_size=stages,
        kv_cache_dtype="auto",
        max_model_len=length,
        max_num_batched_tokens=2048,
        num_gpu_blocks_override=blocks,
    )


@given(
    st.sampled_from([GEMMA, "openai/gpt-oss-20b", "meta-llama/Llama-3.1-8B"]),
    st.sampled_from(["0.19.0", "0.24.0", "0.32.0"]),
    st.integers(1 << 24, 1 << 31),
)
def test_a_fitted_length_is_the_longest_that_starts(model: str, release: str, available: int) -> None:
    try:
        fitted = cache_of(model, release, available, flags(-1)).max_model_len
    except EngineRefusal:
        assume(False)
    longest = bundled_architecture(model).context.length
    assert longest is not None
    assume(fitted < longest)
    assert cache_of(model, release, available, flags(fitted)).max_model_len == fitted
    with pytest.raises(EngineRefusal):
        cache_of(model, release, available, flags(fitted + 1))


@given(
    st.sampled_from([GEMMA, "openai/gpt-oss-20b", "meta-llama/Llama-3.1-8B"]),
    st.sampled_from(["0.15.0", "0.18.0", "0.19.0", "0.32.0"]),
    st.integers(1 << 28, 1 << 34),
)
def test_the_longest_request_held_takes_no_more_blocks_than_there_are(
    model: str, release: str, available: int
) -> None:
    start = dry_start(bundled_architecture(model), flags(-1), rules_for(find_release(release)), GPU)
    sizing = CacheSizing.of(start.layout, start.engine_config)
    try:
        length, held = sizing.checked_length(available), sizing.longest_held(available)
    except EngineRefusal:
        assume(False)
    blocks = sizing.num_blocks(available)
    assert sizing.blocks(held) <= blocks
    assert held == length or sizing.blocks(held + 1) > blocks


def test_memory_for_no_token_fits_no_length() -> None:
    # vLLM 0.32.0, v1/core/kv_cache_utils.py _auto_fit_max_model_len.
    with pytest.raises(EngineRefusal, match="not enough GPU memory available to serve even a single token"):
        cache_of(GEMMA, "0.32.0", 1000, flags(-1))


def test_given_blocks_count_as_memory_since_0_20_1() -> None:
    """vLLM 0.20.1, get_kv_cache_configs: the check sees the override's bytes; before, the device's own."""
    given_blocks = flags(8192, blocks=100_000)
    with pytest.raises(EngineRefusal, match="larger than the available KV cache memory"):
        cache_of(GEMMA, "0.20.0", 1 << 20, given_blocks)
    assert cache_of(GEMMA, "0.20.1", 1 << 20, given_blocks).num_blocks == 100_000


def test_stages_of_unlike_groups_could_not_start_before_0_11() -> None:
    # vLLM 0.10.2, unify_kv_cache_configs. Five alternating layers hold two full and three sliding ones, or
    # the reverse: one group of the kind that has two, two of the other.
    five = flags(8192, stages=5)
    with pytest.raises(EngineRefusal) as refusal:
        cache_of("openai/gpt-oss-20b", "0.10.2", 8 << 30, five)
    assert refusal.value.type == "AssertionError"
    assert cache_of("openai/gpt-oss-20b", "0.11.0", 8 << 30, five).num_blocks > 0
