"""Laws that hold whatever the model."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from service.advisor.candidates.engine_start import Start
from service.advisor.dry_runs.dry_run import dry_start
from service.architecture.pipeline import stage_layers
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.model_classes import first_releases
from service.engines.refusal import EngineRefusal
from service.engines.releases import RELEASES, rules_for
from service.engines.rules.capacity import TokenReport
from service.gpus.catalog import find_gpu
from service.kv_cache.capacity import size_cache
from service.kv_cache.formats import QUANTIZED, cache_format
from service.kv_cache.grouping import group_layers
from service.kv_cache.packing import bytes_per_block
from service.kv_cache.specs import (
    AttentionSpec,
    CacheKind,
    SpecLayers,
    StateSpec,
)
from tests.accuracy.oracle import bundled_architecture

MODELS = (
    "google/gemma-4-31B-it",
    "google/gemma-4-E4B-it",
    "google/gemma-3-27b-it",
    "openai/gpt-oss-20b",
    "Qwen/Qwen3.6-35B-A3B",
    "deepseek-ai/DeepSeek-V3",
    "meta-llama/Llama-3.1-8B",
    "mistralai/Mistral-7B-v0.1",
)
GPU = find_gpu("h100-sxm-80gb")
SUPPORTED = [
    (model, rules_for(release))
    for model in MODELS
    for release in RELEASES
    if release >= first_releases()[bundled_architecture(model).class_name]
]
rules = st.sampled_from([rules_for(release) for release in RELEASES])
supported = st.sampled_from(SUPPORTED)
"""Models with the rules of releases that run them."""
sizes = st.integers(1 << 28, 1 << 38)


def start(model: str, of: EngineRules, *, ranks: int = 1, length: int = 8192) -> Start:
    flags = ServeFlags(tensor_parallel_size=ranks, max_model_len=length, kv_cache_dtype="auto")
    return dry_start(bundled_architecture(model), flags, of, GPU)


@given(supported, sizes, sizes)
def test_more_memory_never_gives_fewer_blocks(case: tuple[str, EngineRules], one: int, other: int) -> None:
    model, of = case
    started = start(model, of)
    try:
        small = size_cache(started.layout, started.engine_config, min(one, other))
    except EngineRefusal:
        return
    large = size_cache(started.layout, started.engine_config, max(one, other))
    assert small.num_blocks <= large.num_blocks
    assert small.tokens <= large.tokens
    assert small.max_concurrency <= large.max_concurrency


@given(supported, sizes)
def test_blocks_never_take_more_than_what_is_there(case: tuple[str, EngineRules], available: int) -> None:
    model, of = case
    started = start(model, of)
    try:
        cache = size_cache(started.layout, started.engine_config, available)
    except EngineRefusal:
        return
    assert cache.num_blocks * cache.largest_bytes_per_block <= available
    assert (cache.num_blocks + 1) * cache.largest_bytes_per_block > available


@given(supported, sizes)
def test_the_estimated_length_is_the_longest_that_fits(case: tuple[str, EngineRules], available: int) -> None:
    model, of = case
    started = start(model, of, length=131072 if "Mistral" not in model else 32768)
    fitted = replace(started.engine_config, fit_max_model_len=True)
    try:
        cache = size_cache(started.layout, fitted, available)
    except EngineRefusal:
        return
    assert cache.max_model_len == cache.estimated_max_model_len
    size_cache(started.layout, replace(started.engine_config, max_model_len=cache.max_model_len), available)
    if cache.max_model_len < started.engine_config.max_model_len:
        longer = replace(started.engine_config, max_model_len=cache.max_model_len + 1)
        with pytest.raises(EngineRefusal):
            size_cache(started.layout, longer, available)


@given(supported)
def test_all_pages_of_several_groups_are_equal(case: tuple[str, EngineRules]) -> None:
    model, of = case
    groups = start(model, of).layout.groups
    if len(groups) > 1:
        assert len({group.page_size for group in groups}) == 1


@given(supported)
def test_every_layer_with_a_cache_is_in_exactly_one_group(case: tuple[str, EngineRules]) -> None:
    model, of = case
    groups = start(model, of).layout.groups
    indices = [index for group in groups for layers in group.layers for index in layers.indices]
    owners = [
        index
        for index, layer in enumerate(bundled_architecture(model).layers)
        if getattr(layer.mixer, "shares_cache_of", None) is None
    ]
    assert sorted(indices) == owners


@given(
    st.sampled_from(["meta-llama/Llama-3.1-8B", "google/gemma-3-27b-it"]), rules, st.sampled_from([2, 4, 8])
)
def test_tensor_parallelism_divides_what_a_block_costs(model: str, of: EngineRules, ranks: int) -> None:
    whole, part = start(model, of).layout, start(model, of, ranks=ranks).layout
    packed = of.pages.packed_block_bytes
    assert bytes_per_block(part.stages[0], packed) * ranks == bytes_per_block(whole.stages[0], packed)


@given(rules, sizes)
def test_latent_attention_is_not_divided_by_tensor_parallelism(of: EngineRules, available: int) -> None:
    model = "deepseek-ai/DeepSeek-V3"
    assume(available > 1 << 32)
    one, eight = start(model, of), start(model, of, ranks=8)
    assert size_cache(one.layout, one.engine_config, available).num_blocks == (
        size_cache(eight.layout, eight.engine_config, available).num_blocks
    )


@given(st.integers(1, 500), st.integers(1, 16))
def test_stages_share_all_layers_in_order(layers: int, stages: int) -> None:
    assume(stages <= layers)
    parts = stage_layers(layers, stages)
    assert [index for part in parts for index in part] == list(range(layers))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("dtype", ["fp8_ds_mla", "nvfp4_ds_mla"])
def test_a_quantized_latent_vector_is_smaller_than_a_plain_one(dtype: str) -> None:
    assert cache_format(dtype, "bfloat16").head_bytes(576, 0) < 2 * 576


@pytest.mark.parametrize("dtype", sorted(name for name in QUANTIZED if not name.endswith("_ds_mla")))
@pytest.mark.parametrize("size", [64, 128, 256, 512])
def test_a_quantized_head_is_smaller_than_a_plain_one(dtype: str, size: int) -> None:
    assert cache_format(dtype, "bfloat16").head_bytes(size, size) < 4 * size


SLOTS = {  # slot bytes per token and head: vLLM 0.20.2, TurboQuantConfig.slot_size_aligned
    "turboquant_k8v4": {64: 100, 80: 124, 96: 148, 112: 172, 128: 196, 192: 292, 256: 388, 512: 772},
    "turboquant_4bit_nc": {64: 70, 80: 86, 96: 102, 112: 118, 128: 134, 192: 198, 256: 262, 512: 518},
    "turboquant_k3v4_nc": {64: 62, 80: 76, 96: 90, 112: 104, 128: 118, 192: 174, 256: 230, 512: 454},
    "turboquant_3bit_nc": {64: 54, 80: 66, 96: 78, 112: 90, 128: 102, 192: 150, 256: 198, 512: 390},
}


@pytest.mark.parametrize("dtype", sorted(SLOTS))
def test_turboquant_slots(dtype: str) -> None:
    for size, slot in SLOTS[dtype].items():
        assert cache_format(dtype, "bfloat16").head_bytes(size, size) == slot


@pytest.mark.parametrize(
    ("dtype", "page"),
    [
        ("auto", 65_536),
        ("fp8", 32_768),
        ("nvfp4", 18_432),
        ("fp8_per_token_head", 33_792),
        ("int4_per_token_head", 17_408),
    ],
)
def test_a_llama_3_page_of_16_tokens(dtype: str, page: int) -> None:
    spec = AttentionSpec(CacheKind.FULL_ATTENTION, 16, 8, 128, 128, cache_format(dtype, "bfloat16"))
    assert spec.page_size == page


def layers_of(num_sliding: int, num_full: int) -> tuple[SpecLayers, ...]:
    plain = cache_format("auto", "bfloat16")
    sliding = AttentionSpec(CacheKind.SLIDING_WINDOW, 16, 8, 128, 128, plain, sliding_window=1024)
    full = AttentionSpec(CacheKind.FULL_ATTENTION, 16, 8, 128, 128, plain)
    indices = tuple(range(num_sliding + num_full))
    return SpecLayers(sliding, indices[:num_sliding]), SpecLayers(full, indices[num_sliding:])


@pytest.mark.parametrize(
    ("release", "counts", "groups"),
    [
        ("0.10.2", (12, 13), [12, 12, 1]),  # neighbours, by the smaller kind
        ("0.11.0", (12, 13), [12, 7, 6]),  # every second layer
        ("0.12.0", (12, 13), [12, 13]),  # below one and a quarter
        ("0.17.1", (12, 17), [12, 9, 8]),
        ("0.19.0", (12, 13), [12, 13]),  # gpt-oss with one more layer: padded to the larger kind
        ("0.19.0", (12, 17), [12, 17]),  # below one and a half
        ("0.19.0", (12, 18), [12, 9, 9]),
        ("0.19.0", (52, 10), [9, 9, 9, 9, 8, 8, 10]),  # Gemma 3 27B
    ],
)
def test_group_sizes(release: str, counts: tuple[int, int], groups: list[int]) -> None:
    rules = rules_for(next(r for r in RELEASES if str(r) == release))
    found = group_layers(layers_of(*counts), rules.groups, rules.pages)
    assert [group.num_layers for group in found] == groups


def test_layers_of_one_kind_with_different_pages_are_one_uniform_group() -> None:
    narrow, wide = (
        AttentionSpec(CacheKind.FULL_ATTENTION, 16, heads, 128, 128, cache_format("auto", "bfloat16"))
        for heads in (4, 8)
    )
    caches, rules = (SpecLayers(narrow, (0,)), SpecLayers(wide, (1,))), rules_for(RELEASES[-1])
    (group,) = group_layers(caches, rules.groups, rules.pages)
    assert group.kind is CacheKind.UNIFORM_TYPE
    assert group.page_size == narrow.page_size + wide.page_size


def test_states_and_attention_need_the_hybrid_manager() -> None:
    full = layers_of(0, 1)[1]
    caches, rules = (SpecLayers(StateSpec(8192, 65_536, 1), (1,)), full), rules_for(RELEASES[-1])
    with pytest.raises(EngineRefusal, match="unified type"):
        group_layers(caches, rules.groups, rules.pages, hybrid_manager=False)


@given(supported, sizes)
def test_the_report_says_what_the_numbers_say(case: tuple[str, EngineRules], available: int) -> None:
    model, of = case
    started = start(model, of)
    try:
        cache = size_cache(started.layout, started.engine_config, available)
    except EngineRefusal:
        return
    assert f"{cache.tokens:,} tokens" in " ".join(cache.log_lines)
    assert f"{cache.max_concurrency:.2f}x" in " ".join(cache.log_lines)
    if of.capacity.token_report is TokenReport.CONCURRENCY:
        assert cache.tokens == int(cache.max_concurrency * cache.max_model_len)
