"""What a context is refused for, in llama.cpp's words, and laws of its sizes."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.engine_plans.engine_plan import EngineRefused
from service.llama_cpp.builds import UnknownBuild, build_named
from service.llama_cpp.cache_types import CACHE_TYPES
from service.llama_cpp.caches import caches_of
from service.llama_cpp.context import resolve_context
from service.llama_cpp.device_layout import layer_split
from service.llama_cpp.largest_context import cache_demand
from service.llama_cpp.model_layers import NotConverted, llama_model
from service.llama_cpp.server_flags import FlashAttention, ServerFlags, SplitMode
from tests.accuracy.oracle import bundled_architecture

BUILD = build_named(None)[1]
GEMMA4 = llama_model(bundled_architecture("google/gemma-4-31B-it"))
DEEPSEEK = llama_model(bundled_architecture("deepseek-ai/DeepSeek-V3"))
OFF = FlashAttention.OFF


def test_quantized_values_need_flash_attention() -> None:
    with pytest.raises(EngineRefused, match="quantized V cache requires flash_attn to be enabled"):
        resolve_context(ServerFlags(cache_type_v="q8_0", flash_attn=OFF), GEMMA4, BUILD)
    assert resolve_context(ServerFlags(cache_type_v="q8_0"), GEMMA4, BUILD).flash


def test_mla_has_one_type() -> None:
    words = r"model does not support different K \(q8_0\) and V \(f16\) cache types"
    with pytest.raises(EngineRefused, match=words):
        resolve_context(ServerFlags(cache_type_k="q8_0"), DEEPSEEK, BUILD)


def test_a_tensor_split_needs_flash_attention() -> None:
    with pytest.raises(EngineRefused, match="SPLIT_MODE_TENSOR requires flash_attn to be enabled"):
        resolve_context(ServerFlags(flash_attn=OFF, split_mode=SplitMode.TENSOR), GEMMA4, BUILD)


def test_blocks_divide_heads() -> None:
    layers = (replace(GEMMA4.layers[0], keys=replace(GEMMA4.layers[0].keys, size=80)),)
    words = "K cache type q8_0 with block size 32 does not divide n_embd_head_k=80"
    with pytest.raises(EngineRefused, match=words):
        resolve_context(ServerFlags(cache_type_k="q8_0"), replace(GEMMA4, layers=layers), BUILD)


def test_too_many_slots() -> None:
    with pytest.raises(EngineRefused, match="n_seq_max must be <= 256"):
        resolve_context(ServerFlags(parallel=257), GEMMA4, BUILD)


def test_classes_that_are_not_converted() -> None:
    with pytest.raises(NotConverted, match="Model PhiForCausalLM9 is not supported"):
        llama_model(replace(bundled_architecture("microsoft/phi-4"), class_name="PhiForCausalLM9"))


@pytest.mark.parametrize("name", ["0.3.36", "b0", "latest", ""])
def test_names_that_are_no_build(name: str) -> None:
    with pytest.raises(UnknownBuild, match="is no build"):
        build_named(name)


def test_rounding_may_go_up() -> None:
    """1000 cells are padded to 1024, of which each of three slots gets 341, padded to 512: 1536 in all."""
    context = resolve_context(ServerFlags(ctx_size=1000, parallel=3), GEMMA4, BUILD)
    assert (context.n_ctx, context.n_ctx_seq, context.n_batch) == (1536, 512, 1000)


def test_without_flash_attention_values_are_as_wide_as_the_widest() -> None:
    """16 heads of 256 elements are 4096, and 4 of 512 are 2048: global layers store twice their values."""
    flags = ServerFlags(ctx_size=4096, parallel=1, flash_attn=OFF)
    rows = caches_of(GEMMA4, resolve_context(flags, GEMMA4, BUILD), BUILD).cells[0].rows
    assert {(row.keys, row.values) for row in rows} == {(2 * 2048, 2 * 4096)}


def test_mla_stores_keys_alone() -> None:
    rows = caches_of(DEEPSEEK, resolve_context(ServerFlags(parallel=1), DEEPSEEK, BUILD), BUILD).cells[0].rows
    assert {(row.keys, row.values) for row in rows} == {((512 + 64) * 2, 0)}
    older = build_named("b7000")[1]
    rows = caches_of(DEEPSEEK, resolve_context(ServerFlags(parallel=1), DEEPSEEK, older), older).cells[0].rows
    assert {(row.keys, row.values) for row in rows} == {((512 + 64) * 2, 512 * 2)}


@given(
    layers=st.integers(1, 120),
    shares=st.lists(st.integers(0, 9), min_size=1, max_size=8).filter(any),
    gpu_layers=st.none() | st.integers(0, 130),
)
def test_layers_are_placed_in_order_and_once(layers: int, shares: list[int], gpu_layers: int | None) -> None:
    layout = layer_split(layers, shares, gpu_layers)
    placed = [-1 if each is None else each for each in layout.layers]
    assert placed == sorted(placed)
    offloaded = layers if gpu_layers is None else min(layers, max(0, gpu_layers - 1))
    assert sum(each >= 0 for each in placed) == offloaded
    assert all(shares[each] > 0 for each in placed if each >= 0)


@given(
    cells=st.integers(1, 200_000),
    slots=st.integers(1, 32),
    unified=st.booleans(),
    kind=st.sampled_from(sorted(CACHE_TYPES)),
    shares=st.tuples(st.integers(1, 9), st.integers(0, 9)),
)
def test_devices_hold_all_caches_together(
    cells: int, slots: int, unified: bool, kind: str, shares: tuple[int, int]
) -> None:
    flags = ServerFlags(
        ctx_size=cells, parallel=slots, kv_unified=unified, cache_type_k=kind, cache_type_v=kind
    )
    demand = cache_demand(GEMMA4, flags, BUILD, layer_split(60, shares, None))
    assert sum(demand.device_bytes) + demand.host_bytes == demand.caches.total_bytes
    assert demand.context.n_ctx >= cells - cells % slots
