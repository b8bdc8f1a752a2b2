"""Both cache managers of TensorRT-LLM, by its unit test, published logs and figures worked out by hand."""

import json
from collections.abc import Mapping
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.engine_plans.engine_plan import EngineRefused
from service.engine_plans.engine_releases import UnknownEngineRelease
from service.tensorrt_llm.first_manager import (
    Beams,
    BlockPool,
    block_pools,
    blocks_for_prompt,
    blocks_for_step,
    blocks_to_completion,
    longest_request,
    window_shares,
)
from service.tensorrt_llm.llm_args import TensorrtArgs
from service.tensorrt_llm.releases import RELEASES
from service.tensorrt_llm.second_manager import (
    grain_bytes,
    live_pages,
    longest_sequence,
    page_groups,
    page_pools,
    typical_batch,
)
from service.tensorrt_llm.window_groups import WindowGroup, mixes_head_sizes, window_groups
from service.units import GIB, MIB
from tests.accuracy.oracle import bundled_architecture

ROWS = [
    json.loads(line)
    for line in Path("tests/data/other_engines/published_logs.jsonl").read_text("utf-8").splitlines()
]
BUDGET = int(11.54 * GIB)
GEMMA4 = bundled_architecture("google/gemma-4-31B-it")
PAGES = page_groups(window_groups(GEMMA4, TensorrtArgs(tp_size=2)), 32)


def printed(source: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(row["printed"] for row in ROWS if row["source_url"].endswith(source))
    return found


def group(window: int | None, token_bytes: int, layers: int = 1) -> WindowGroup:
    return WindowGroup(window, (token_bytes,), layers)


def test_shares_of_windows() -> None:
    """TensorRT-LLM's BlockManagerTestWindowSizeToShare, and its example: 0.0345, 0.4138 and 0.5517."""
    assert window_shares([group(1024, 1, 3)], 8192) == (Fraction(1),)
    shares = window_shares([group(1024, 1), group(4096, 1, 3), group(8192, 1, 2)], 8192)
    assert [round(float(share), 4) for share in shares] == [0.0345, 0.4138, 0.5517]


def test_blocks_are_rounded_up() -> None:
    """Qwen1.5 7B: 32 layers of 32 heads of 128 elements; 21.89 GiB are 40,348 tokens, 630.4 blocks of 64."""
    figures = printed("TensorRT-LLM/issues/2268")
    budget = int(figures["avail_gib"] * 0.9 * GIB)
    (pool,) = block_pools([group(None, 524_288)], budget, 64, 8192)
    assert pool.blocks == figures["blocks"]


def test_blocks_of_a_log_of_tinyllama() -> None:
    """22 layers of 4 heads of 64 elements: 22,528 bytes a token; 65 blocks of 32 tokens hold 2051."""
    figures = printed("tutorials/pull/150")
    pool = BlockPool(figures["window"], figures["blocks"], 32, 22_528)
    assert pool.blocks * 32 == figures["tokens"]
    assert round(pool.bytes / GIB, 2) == figures["alloc_gib"]
    assert ceil(figures["window"] / 32) == figures["blocks_per_seq"]


def test_blocks_of_a_log_on_two_ranks() -> None:
    """65,536 bytes a token. What is there is printed to 0.01 GiB, so a block more or less is the same."""
    figures = printed("tensorrtllm_backend/issues/576")
    (pool,) = block_pools([group(None, 65_536)], int(figures["avail_gib"] * 0.9 * GIB), 64, 8192)
    assert abs(pool.blocks - figures["primary"]) <= 1


def test_bytes_of_a_log_on_four_ranks() -> None:
    figures = printed("tensorrtllm_backend/issues/366")
    (mistral,) = window_groups(bundled_architecture("mistralai/Mistral-7B-v0.3"), TensorrtArgs(tp_size=4))
    assert figures["bytes"] / mistral.token_bytes == figures["tokens"]


@pytest.mark.parametrize("source", ["TensorRT-LLM/issues/224", "TensorRT-LLM/issues/494"])
def test_tokens_of_logs_of_llama_2_7b(source: str) -> None:
    """32 layers of 32 heads of 128 elements, 524,288 bytes a token: as many tokens as their bytes hold."""
    tokens = printed(source)["tokens"]
    (pool,) = block_pools([group(None, 524_288)], tokens * 524_288, 16, 4096)
    assert pool.blocks * 16 in range(tokens, tokens + 16)


@pytest.mark.parametrize(
    ("request_", "blocks"),
    [
        (Beams(100, 28), 4),
        (Beams(100, 29), 5),
        (Beams(100, 60, beams=4), 3 + 2 * 4),
        (Beams(900, 100), 32),
        (Beams(1000, 100), 32 + 1),
        (Beams(1000, 24), 32),
        (Beams(5000, 5000, beams=2), 32 + 2),
        (Beams(1000, 100, sink=32), 33 + 1),
    ],
)
def test_what_a_whole_request_needs(request_: Beams, blocks: int) -> None:
    """A window of 1024 tokens in blocks of 32: past it, one block more for each beam."""
    assert blocks_to_completion(BlockPool(1024, 100, 32, 1), request_) == blocks


def test_what_one_step_needs() -> None:
    pool = BlockPool(1024, 100, 32, 1)
    assert blocks_for_prompt(pool, Beams(100, 10)) == 4
    assert blocks_for_prompt(pool, Beams(96, 10, beams=4)) == 3
    assert blocks_for_prompt(pool, Beams(100, 10, beams=4)) == 3 + 4
    assert blocks_for_prompt(pool, Beams(5000, 10)) == 32
    assert blocks_for_prompt(pool, Beams(5000, 10), chunk=64) == 34
    assert blocks_for_step(pool, Beams(96, 10), 96) == 1
    assert blocks_for_step(pool, Beams(96, 10), 97) == 0
    assert blocks_for_step(pool, Beams(96, 40, beams=3), 128, draft_tokens=3) == 3
    assert blocks_for_step(pool, Beams(2000, 40), 2000) == 0


def test_the_longest_request_of_one_pool() -> None:
    assert longest_request([BlockPool(8192, 100, 32, 1)], 8192) == 3200
    assert longest_request([BlockPool(8192, 300, 32, 1)], 8192) == 8192
    assert longest_request([BlockPool(1024, 32, 32, 1)], 8192) == 1024
    assert longest_request([BlockPool(1024, 33, 32, 1)], 8192) == 8192


def test_gemma_4_31b_by_the_default_split() -> None:
    """65 pages without a window and 33 of the window are one request of 2048 tokens."""
    pools = page_pools(PAGES, BUDGET, 32)
    assert dict(zip([each.windows for each in PAGES], pools.pages, strict=True)) == {
        (1024,): 788,
        (None,): 1554,
    }
    assert pools.grain == 16 * MIB
    assert longest_sequence(pools, 262_144) == 49_728
    assert 788 // 33 == 23


def test_gemma_4_31b_by_a_typical_batch() -> None:
    pools = page_pools(PAGES, BUDGET, 32, batch=typical_batch(8192, 8, 8192))
    assert longest_sequence(pools, 262_144) == 90_368


def test_gemma_4_31b_by_a_ratio() -> None:
    pools = page_pools(PAGES, BUDGET, 32, ratio=(0.091, 0.909))
    windows, full = pools.pages
    assert (full * 32, windows // 33) == (274_816, 2)
    assert longest_sequence(pools, 262_144) == 262_144


def test_gemma_4_needs_the_second_manager() -> None:
    assert mixes_head_sizes(GEMMA4)
    assert not mixes_head_sizes(bundled_architecture("google/gemma-3-27b-it"))


@pytest.mark.parametrize(
    ("gib", "mib"), [(0.5, 2), (1.5, 2), (2, 4), (3.9, 4), (4, 8), (8, 16), (15.9, 16), (16, 32), (100, 32)]
)
def test_grains(gib: float, mib: int) -> None:
    assert grain_bytes(int(gib * GIB)) == mib * MIB


def test_a_window_holds_32_or_33_pages() -> None:
    assert {live_pages(1024, length, length, 32) for length in range(4096, 4096 + 64)} == {32, 33}


def test_windows_of_equal_pages_share_a_pool() -> None:
    """gpt-oss: 12 layers with a window and 12 without, of the same size."""
    groups = page_groups(window_groups(bundled_architecture("openai/gpt-oss-20b"), TensorrtArgs()), 32)
    assert [each.windows for each in groups] == [(128, None)]


def test_too_little_for_a_window() -> None:
    with pytest.raises(EngineRefused, match="min_slots"):
        page_pools(PAGES, 100 * MIB, 32)
    with pytest.raises(EngineRefused, match="one positive share for each of 2"):
        page_pools(PAGES, BUDGET, 32, ratio=(1.0,))


def test_windows_repeat_over_layers() -> None:
    model = bundled_architecture("meta-llama/Llama-3.1-8B")
    groups = window_groups(model, TensorrtArgs(max_attention_window=(512, 512, 131072)))
    assert [(each.window, each.layers) for each in groups] == [(512, 22), (None, 10)]


@given(
    quota=st.integers(1, 200).map(lambda size: size * GIB),
    full=st.integers(1, 40),
    windows=st.integers(1, 60),
    history=st.integers(1, 9000),
)
def test_pages_fit_the_quota_and_no_window_starves(quota: int, full: int, windows: int, history: int) -> None:
    groups = page_groups([group(1024, 8192 * windows, windows), group(None, 4096 * full, full)], 32)
    pools = page_pools(groups, quota, 32, batch=typical_batch(history, 4, history))
    assert pools.bytes <= quota
    assert all(pages >= need for pages, need in zip(pools.pages, (33, 1), strict=False) if len(groups) > 1)


@pytest.mark.parametrize("name", ["0.4.0", "latest"])
def test_releases_that_are_not_modelled(name: str) -> None:
    with pytest.raises(UnknownEngineRelease, match="is no release of TensorRT-LLM"):
        RELEASES.named(name)


def test_blocks_of_older_releases() -> None:
    assert RELEASES.named("0.12.0")[1].tokens_per_block == 64
    assert RELEASES.named("1.3.0rc27")[1].tokens_per_block == 32
