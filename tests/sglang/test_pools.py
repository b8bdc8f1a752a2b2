"""Pools of SGLang, against what its own configurators answered and published logs print."""

import json
from pathlib import Path
from typing import Any

import pytest

from service.engine_plans.engine_plan import EngineRefused
from service.engine_plans.engine_releases import UnknownEngineRelease
from service.sglang.pool_bytes import PoolBytes, pool_bytes
from service.sglang.pools import PoolQuestion, TokenPools, pools_in
from service.sglang.releases import RELEASES
from service.sglang.server_args import SglangArgs
from tests.accuracy.oracle import bundled_architecture

ROWS = [
    json.loads(line)
    for line in Path("tests/data/other_engines/sglang_pools.jsonl").read_text("utf-8").splitlines()
]
CAPPED = ("SWARequestCapPoolConfigurator", "SWAChunkCapPoolConfigurator")
"""Its name in 0.5.23 and in 0.5.20."""
GEMMA4 = bundled_architecture("google/gemma-4-31B-it")
BUDGET = int(11.54 * 2**30)


def question(row: dict[str, Any], *, capped: bool) -> PoolQuestion:
    asked, release = row["question"], row["version"]
    element: int = asked["element_bytes"]

    def size(kind: str) -> int:
        heads = max(1, asked[f"{kind}_heads"] // asked["tp"])
        width: int = heads * (asked[f"{kind}_dim"] + asked[f"{kind}_v_dim"])
        layers: int = asked[f"{kind}_layers"]
        return width * layers * element

    sizes = PoolBytes(
        full=size("full"),
        windows=size("swa"),
        full_layers=asked["full_layers"],
        window_layers=asked["swa_layers"],
        window=asked["window"],
        keys=0,
        window_keys=0,
        states=0,
        convolution=0,
        is_mla=False,
    )
    args = SglangArgs(
        swa_full_tokens_ratio=asked["ratio"],
        max_running_requests=asked["requests"],
        disable_radix_cache=capped,
        disable_overlap_schedule=not asked["overlap"],
    )
    return PoolQuestion(sizes, args, RELEASES.named(release)[1], asked["page"], asked["chunk"])


def answer(row: dict[str, Any], *, capped: bool) -> list[int | None] | str:
    try:
        pools = pools_in(question(row, capped=capped), row["question"]["budget"])
    except EngineRefused:
        return "refused"
    return [pools.full, pools.windows]


def expected(row: dict[str, Any], *names: str) -> list[int] | str:
    found: list[int] | str = next(row["answer"][name] for name in names if name in row["answer"])
    return found if isinstance(found, list) else "refused"


def test_the_pools_of_random_shapes() -> None:
    assert len(ROWS) == 600
    for row in ROWS:
        assert answer(row, capped=False) == expected(row, "HybridSWAPoolConfigurator"), row
        assert answer(row, capped=True) == expected(row, *CAPPED), row


def gemma4(
    budget: int = BUDGET,
    chunk: int = 4096,
    release: str = "0.5.23",
    **flags: Any,  # noqa: ANN401
) -> TokenPools:
    args, rules = SglangArgs(tp_size=2, **flags), RELEASES.named(release)[1]
    return pools_in(PoolQuestion(pool_bytes(GEMMA4, args, rules), args, rules, 1, chunk), budget)


@pytest.mark.parametrize(
    ("flags", "full", "windows"),
    [
        ({}, 33_612, 26_889),
        ({"swa_full_tokens_ratio": 0.25}, 86_432, None),
        ({"swa_full_tokens_ratio": 0.1}, 151_257, None),
        ({"swa_full_tokens_ratio": 0.05}, 201_676, None),
        ({"disable_radix_cache": True, "max_running_requests": 1}, 209_044, 9_347),
        ({"disable_radix_cache": True, "max_running_requests": 1, "chunk": 2048}, 250_004, None),
        ({"disable_radix_cache": True, "max_running_requests": 8}, 128_264, None),
    ],
)
def test_gemma_4_31b_on_two_gpus(flags: dict[str, Any], full: int, windows: int | None) -> None:
    pools = gemma4(**flags)
    assert pools.full == full
    assert windows is None or pools.windows == windows


def test_bytes_of_gemma_4_31b() -> None:
    """On two ranks: 10 layers of 2 x 1024 elements and 50 of 8 x 512, 2 bytes each."""
    sizes = pool_bytes(GEMMA4, SglangArgs(tp_size=2), RELEASES.named(None)[1])
    assert (sizes.full, sizes.windows, sizes.window) == (40_960, 409_600, 1024)
    assert sizes.whole == 450_560


def test_gemma_3_has_one_pool() -> None:
    sizes = pool_bytes(bundled_architecture("google/gemma-3-27b-it"), SglangArgs(), RELEASES.named(None)[1])
    assert (sizes.windows, sizes.full) == (0, 62 * 16 * 2 * 128 * 2)


def test_before_0_5_11_gemma_4_has_one_pool() -> None:
    assert gemma4(release="0.5.10").windows is None


def test_shared_layers_are_allocated() -> None:
    """Gemma 4 E4B: 7 full layers of 2 x 1024 elements and 35 of 2 x 512, shared or not."""
    model = bundled_architecture("google/gemma-4-E4B-it")
    sizes = pool_bytes(model, SglangArgs(), RELEASES.named(None)[1])
    assert (sizes.full_layers, sizes.window_layers) == (7, 35)
    assert (sizes.full, sizes.windows) == (7 * 2 * 1024 * 2, 35 * 2 * 512 * 2)


def test_every_rank_has_a_copy_of_mla() -> None:
    model, rules = bundled_architecture("deepseek-ai/DeepSeek-V3"), RELEASES.named(None)[1]
    sizes = {pool_bytes(model, SglangArgs(tp_size=ranks), rules).full for ranks in (1, 2, 8)}
    assert sizes == {576 * 61 * 2}


def test_sparse_attention_in_8_bits_stores_scales_and_index_keys() -> None:
    """512 elements with 4 scales, 64 elements of 2 bytes, and an index key of 128 with 1 scale."""
    model, rules = bundled_architecture("deepseek-ai/DeepSeek-V3.2"), RELEASES.named(None)[1]
    args = SglangArgs(kv_cache_dtype="fp8_e4m3")
    assert pool_bytes(model, args, rules).full == (512 + 16 + 128 + 128 + 4) * 61


def test_states_take_nine_nineteenths() -> None:
    """Qwen3-Next: 36 layers of 3 x 8192 elements in 2 bytes and 32 x 128 x 128 in 4."""
    model, rules = bundled_architecture("Qwen/Qwen3-Next-80B-A3B-Instruct"), RELEASES.named(None)[1]
    sizes = pool_bytes(model, SglangArgs(), rules)
    slot = 36 * (3 * 8192 * 2 + 32 * 128 * 128 * 4)
    assert (sizes.states, sizes.full) == (slot, 12 * 2 * 2 * 256 * 2)
    budget = 20 << 30
    pools = pools_in(PoolQuestion(sizes, SglangArgs(), rules, 1, 8192), budget)
    assert pools.states == (budget * 9 // 19 - slot) // slot
    assert pools.full == (budget - (pools.states + 1) * slot) // sizes.full


def test_too_little_memory() -> None:
    with pytest.raises(EngineRefused, match="cannot hold even one request"):
        gemma4(budget=200_000_000)
    with pytest.raises(EngineRefused, match="leaves no room for the full KV pool"):
        gemma4(budget=200_000_000, disable_radix_cache=True, max_running_requests=1)
    with pytest.raises(EngineRefused, match="Not enough memory"):
        gemma4(budget=400_000, release="0.5.10")


@pytest.mark.parametrize("name", ["0.4.8", "latest", "b7000"])
def test_releases_that_are_not_modelled(name: str) -> None:
    with pytest.raises(UnknownEngineRelease, match="is no release of SGLang"):
        RELEASES.named(name)
