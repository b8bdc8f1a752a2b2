"""What padding, unification, alignment and rounding cost, by hand and as laws."""

from dataclasses import replace

import pytest

from service.advisor.candidates.engine_start import Start
from service.advisor.dry_runs.dry_run import dry_start
from service.engines.flags import ServeFlags
from service.engines.releases import RELEASES, find_release, rules_for
from service.gpus.catalog import find_gpu
from service.kv_cache.packing import bytes_per_block
from service.kv_cache.specs import CacheKind
from service.kv_cache.waste import Waste, waste_of
from tests.accuracy.recorded import LATE
from tests.advisor.questions import (
    GEMMA,
    LLAMA,
    QWEN,
    ask,
)
from tests.kv_cache.test_several_caches import WHISPER
from tests.kv_cache.test_several_caches import start as whisper


def waste(model: str, version: str, dtype: str, length: int) -> Waste:
    flags = ServeFlags(
        tensor_parallel_size=1,
        max_model_len=length,
        max_num_batched_tokens=2048,
        kv_cache_dtype=dtype,
        kv_cache_memory_bytes=60 << 30,
    )
    found = ask(model, version, flags, gpu="h200-sxm-141gb").waste
    assert found is not None
    return found


def test_full_attention_wastes_the_block_that_is_begun() -> None:
    # 32 layers, 8 heads of 128 + 128 in 2 bytes: 4096 B a token and layer; 8190 tokens begin 512 blocks.
    (group,) = waste(LLAMA, "0.32.0", "auto", 8190).groups
    assert group.ideal_bytes == 8190 * 32 * 4096
    assert group.rounding_bytes == 2 * 32 * 4096
    assert (group.reserve_bytes, group.padding_bytes, group.idle_bytes) == (0, 0, 0)


def test_windows_waste_what_is_kept_for_steps_in_flight() -> None:
    # 0.20.2: a window of 1024 is kept with 1023 + 2048 tokens, in 192 blocks of 16 and one more; ten layers
    # a group, 16 heads of 256 + 256 in 2 bytes: 16,384 B a token and layer.
    windows = waste(GEMMA, "0.20.2", "auto", 65_536).groups[0]
    assert windows.kind == "sliding_window"
    assert windows.ideal_bytes == 1024 * 10 * 16_384
    assert windows.reserve_bytes == (1023 + 2048 - 1024) * 10 * 16_384
    assert windows.rounding_bytes == (193 * 16 - 3071) * 10 * 16_384
    assert (windows.padding_bytes, windows.idle_bytes) == (0, 0)


def test_padding_of_per_token_heads_is_told_in_bytes() -> None:
    # 0.32.0 pads pages of 4 x (512 + 512 + 8) x 16 = 66,048 B to those of the windows: 133,120 B.
    groups = waste(GEMMA, "0.32.0", "int8_per_token_head", 65_536).groups
    (full,) = (group for group in groups if group.kind != "sliding_window")
    assert full.padding_bytes == 65_536 // 16 * 10 * (133_120 - 66_048)


def test_states_beside_the_last_are_a_reserve() -> None:
    # Prefix caching keeps two states; 30 of 40 layers in three groups of ten.
    states = [g for g in waste(QWEN, "0.32.0", "auto", 32_768).groups if g.kind == "mamba"]
    assert len(states) == 3
    for group in states:
        assert group.reserve_bytes == group.ideal_bytes


def waste_of_start(found: Start) -> Waste:
    (stage,) = found.layout.stages
    block = bytes_per_block(stage, found.engine_config.rules.pages.packed_block_bytes)
    return waste_of(stage, block, found.engine_config.demand())


def test_an_encoders_tokens_are_all_needed() -> None:
    # 0.13.0: as many as a batch, in 12 layers of 12 heads with 64 + 64 elements of 2 bytes, as 32 bits become
    # 16 unless they are asked for; 8000 tokens are 500 blocks.
    across = waste_of_start(whisper(WHISPER, "0.13.0", max_num_batched_tokens=8000)).groups[1]
    assert across.kind == "cross_attention"
    assert across.ideal_bytes == 8000 * 12 * 12 * 128 * 2
    assert (across.reserve_bytes, across.rounding_bytes, across.padding_bytes) == (0, 0, 0)


def test_a_ring_is_needed_whole() -> None:
    # The 4 tokens of a group, each with a key of 128 in 2 bytes, in the 3 layers of 12 that attend.
    rules, gpu = rules_for(find_release("0.33.0")), find_gpu("h200-sxm-141gb")
    found = dry_start(LATE.architecture("Qwen4ExpForCausalLM/qsa"), ServeFlags(), rules, gpu)
    kinds = [group.spec.kind for group in found.layout.groups]
    ring = waste_of_start(found).groups[kinds.index(CacheKind.CIRCULAR_BUFFER)]
    assert (ring.ideal_bytes, ring.reserve_bytes, ring.rounding_bytes) == (3 * 4 * 128 * 2, 0, 0)


@pytest.mark.parametrize("model", [GEMMA, LLAMA, QWEN, "openai/gpt-oss-20b", "deepseek-ai/DeepSeek-V3"])
@pytest.mark.parametrize("release", RELEASES[-6:])
def test_what_is_taken_is_what_is_used_and_what_is_wasted(model: str, release: object) -> None:
    flags = ServeFlags(tensor_parallel_size=8, max_model_len=30_001, kv_cache_memory_bytes=60 << 30)
    for dtype in ("auto", "fp8", "int8_per_token_head"):
        candidate = ask(model, str(release), replace(flags, kv_cache_dtype=dtype), gpu="h200-sxm-141gb")
        found, cache = candidate.waste, candidate.kv_cache
        if found is None or cache is None:
            continue
        blocks = sum(group.blocks_per_request for group in cache.groups)
        assert found.taken_bytes == blocks * cache.bytes_per_block
        for group in found.groups:
            parts = (group.reserve_bytes, group.rounding_bytes, group.padding_bytes, group.idle_bytes)
            assert min(parts) >= 0
            assert group.ideal_bytes > 0
        assert 0 <= found.percent < 100
