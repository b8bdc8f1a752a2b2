"""Pools that users' logs print (`tests/data/other_engines/published_logs.jsonl`)."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from service.sglang.log_lines import log_lines
from service.sglang.pool_bytes import PoolBytes, pool_bytes
from service.sglang.pools import PoolQuestion, TokenPools
from service.sglang.releases import RELEASES
from service.sglang.server_args import SglangArgs
from tests.accuracy.oracle import bundled_architecture

ROWS = [
    json.loads(line)
    for line in Path("tests/data/other_engines/published_logs.jsonl").read_text("utf-8").splitlines()
]


def printed(source: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(row["printed"] for row in ROWS if row["source_url"].endswith(source))
    return found


def shape(keys: int, values: int, window_keys: int = 0, window_values: int = 0) -> PoolBytes:
    return PoolBytes(
        full=keys + values,
        windows=window_keys + window_values,
        full_layers=0,
        window_layers=0,
        window=128,
        keys=keys,
        window_keys=window_keys,
        states=0,
        convolution=0,
        is_mla=False,
    )


def lines(sizes: PoolBytes, pools: TokenPools, page: int = 1) -> tuple[str, ...]:
    return log_lines(PoolQuestion(sizes, SglangArgs(), RELEASES.named(None)[1], page, 8192), pools)


def test_a_pool_of_equal_layers() -> None:
    figures = printed("sglang/pull/18263")
    rules = RELEASES.named("0.5.1")[1]
    sizes = pool_bytes(bundled_architecture("Qwen/Qwen3-30B-A3B-Instruct-2507"), SglangArgs(), rules)
    assert lines(sizes, TokenPools(figures["tokens"], None, None)) == (
        (
            f"KV Cache is allocated. #tokens: {figures['tokens']}, K size: {figures['k_gb']} GB, "
            f"V size: {figures['v_gb']} GB"
        ),
    )


def test_a_model_of_80_layers_on_8_ranks() -> None:
    """One head of 128 elements of 2 bytes on each rank, in 80 layers."""
    figures = printed("sglang/pull/11716")
    (line,) = lines(shape(80 * 128 * 2, 80 * 128 * 2), TokenPools(figures["tokens"], None, None))
    assert line.endswith(f"K size: {figures['k_gb']} GB, V size: {figures['v_gb']} GB")


def test_two_pools_of_mimo_v2_flash() -> None:
    """On each of 4 ranks: 39 layers with windows of 2 heads, keys of 192 and values of 128 elements."""
    figures = printed("sglang/pull/18039")
    sizes = shape(9 * 192 * 2, 9 * 128 * 2, 39 * 2 * 192 * 2, 39 * 2 * 128 * 2)
    found = lines(sizes, TokenPools(figures["full"], figures["swa"], None), page=64)
    assert found[0] == (
        f"Use sliding window memory pool. full_layer_tokens={figures['full']}, "
        f"swa_layer_tokens={figures['swa']}"
    )
    assert found[1].endswith(f"K size: {figures['swa_k_gb']} GB, V size: {figures['swa_v_gb']} GB")
    assert figures["swa"] == int(figures["full"] * 0.8) // 64 * 64


def test_a_quantized_pool_with_states_beside_it() -> None:
    """Qwen3.x 27B on 2 ranks: 16 layers of 2 heads of 256 elements, one byte each."""
    figures = printed("club-3090/issues/1261")
    model, rules = bundled_architecture("Qwen/Qwen3.5-27B"), RELEASES.named(None)[1]
    sizes = pool_bytes(model, SglangArgs(tp_size=2, kv_cache_dtype="fp8_e4m3"), rules)
    found = lines(sizes, TokenPools(figures["tokens"], None, 1))
    assert found[-1].endswith(f"K size: {figures['k_gb']:.2f} GB, V size: {figures['v_gb']:.2f} GB")


def test_the_reserve_of_multimodal_models() -> None:
    figures = printed("sglang/issues/40558")
    assert round(RELEASES.named("0.5.20")[1].multimodal_mib / 1024, 2) == figures["mm_reserve_gb"]
    assert RELEASES.named("0.5.10")[1].multimodal_mib == 0


@pytest.mark.parametrize("page", [1, 64])
def test_a_pool_of_mla_has_one_size(page: int) -> None:
    """DeepSeek R1: 61 layers of 576 elements, 70,272 bytes for each of 59,868 tokens and a page."""
    sizes = pool_bytes(bundled_architecture("deepseek-ai/DeepSeek-V3"), SglangArgs(), RELEASES.named(None)[1])
    size = (59_868 + page) * 70_272 / 2**30
    assert lines(sizes, TokenPools(59_868, None, None), page) == (
        f"KV Cache is allocated. #tokens: 59868, KV size: {size:.2f} GB",
    )
