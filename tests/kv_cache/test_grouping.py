"""Layers whose pages cannot be brought to one size."""

from dataclasses import replace

import pytest
from packaging.version import Version

from service.engines.refusal import EngineRefusal, Stage
from service.engines.releases import rules_for
from service.kv_cache.formats import cache_format
from service.kv_cache.grouping import group_layers
from service.kv_cache.groups import Group
from service.kv_cache.specs import AttentionSpec, CacheKind, SpecLayers, each_layer, merge_equal

HALVES = cache_format("auto", "bfloat16")
LATENT = AttentionSpec(CacheKind.MLA_ATTENTION, 16, 1, 576, 0, HALVES, indexes_by_block_stride=False)
"""Pages of 16 x 576 x 2 = 18,432 bytes, which do not divide others; the backend reads no padded ones."""
WINDOW = AttentionSpec(CacheKind.SLIDING_WINDOW, 16, 8, 128, 128, HALVES, sliding_window=4096)
"""Pages of 16 x 8 x 256 x 2 = 65,536 bytes."""
CHUNK = AttentionSpec(CacheKind.CHUNKED_LOCAL_ATTENTION, 16, 8, 128, 128, HALVES, attention_chunk_size=8192)


def layers(*specs: AttentionSpec) -> tuple[SpecLayers, ...]:
    return merge_equal(SpecLayers(spec, (index,)) for index, spec in enumerate(specs))


def grouped(
    caches: tuple[SpecLayers, ...], release: str, *, hybrid_manager: bool = True
) -> tuple[Group, ...]:
    rules = rules_for(Version(release))
    return group_layers(caches, rules.groups, rules.pages, hybrid_manager=hybrid_manager)


def test_windows_beside_mla_keep_every_token_since_0_27() -> None:
    """As vLLM 0.27.0, _try_get_full_allocation_fallback_groups: one group in which nothing is given back."""
    mixed = layers(LATENT, WINDOW, LATENT, WINDOW)
    with pytest.raises(EngineRefusal) as caught:
        grouped(mixed, "0.26.0")
    assert caught.value.stage is Stage.PAGE_SIZE

    (group,) = grouped(mixed, "0.27.0")

    assert [index for index, _ in each_layer(group.layers)] == [0, 1, 2, 3]
    assert {layer.spec.kind for layer in group.layers} == {CacheKind.MLA_ATTENTION, CacheKind.FULL_ATTENTION}
    assert group.bytes_per_block == 2 * 18_432 + 2 * 65_536


@pytest.mark.parametrize(
    "others",
    [
        (CHUNK,),
        # Two block sizes of layers that keep everything: windows become full, but not of one type with both.
        (replace(LATENT, block_size=32),),
    ],
)
def test_other_mixtures_stay_refused(others: tuple[AttentionSpec, ...]) -> None:
    with pytest.raises(EngineRefusal) as caught:
        grouped(layers(LATENT, WINDOW, *others), "0.27.0")
    assert caught.value.stage is Stage.PAGE_SIZE


def test_windows_beside_full_attention_are_no_such_mixture() -> None:
    """Pages of three heads do not divide those of eight, and there is no MLA."""
    full = AttentionSpec(CacheKind.FULL_ATTENTION, 16, 3, 128, 128, HALVES, indexes_by_block_stride=False)
    with pytest.raises(EngineRefusal) as caught:
        grouped(layers(full, WINDOW), "0.27.0")
    assert caught.value.stage is Stage.PAGE_SIZE


def test_without_the_hybrid_manager_kinds_that_forget_in_two_ways_cannot_be_one() -> None:
    """unify_hybrid_kv_cache_specs of vLLM 0.27.0 makes layers full only where there are full ones."""
    full = AttentionSpec(CacheKind.FULL_ATTENTION, 16, 8, 128, 128, HALVES)
    (group,) = grouped(layers(full, WINDOW, CHUNK), "0.27.0", hybrid_manager=False)
    assert {layer.spec.kind for layer in group.layers} == {CacheKind.FULL_ATTENTION}

    with pytest.raises(EngineRefusal, match="to one unified type") as caught:
        grouped(layers(WINDOW, CHUNK), "0.27.0", hybrid_manager=False)
    assert caught.value.stage is Stage.GROUPING
