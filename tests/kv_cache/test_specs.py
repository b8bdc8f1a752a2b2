"""Layers by spec: how they are merged, and how the single layers are found again."""

from hypothesis import given
from hypothesis import strategies as st

from service.architecture.layers.cache_part import CachePart
from service.backends.backend import AttentionBackend, Backends, KernelBlockSizes
from service.kv_cache.formats import cache_format
from service.kv_cache.specs import (
    AttentionSpec,
    CacheKind,
    LayerSpec,
    SpecLayers,
    StateSpec,
    each_layer,
    merge_equal,
)

HALVES = cache_format("auto", "bfloat16")


def spec_of(heads: int) -> LayerSpec:
    """Return a new object, equal to any other of as many heads; none is a recurrent state."""
    if not heads:
        return StateSpec(8192, 65_536, 1)
    return AttentionSpec(CacheKind.FULL_ATTENTION, 16, heads, 128, 128, HALVES)


models = st.lists(st.integers(0, 3), max_size=20)
"""Heads of each layer."""


@given(models)
def test_each_layer_undoes_the_merge(heads: list[int]) -> None:
    layers = [(index, spec_of(count)) for index, count in enumerate(heads)]
    merged = merge_equal(SpecLayers(spec, (index,)) for index, spec in layers)
    assert list(each_layer(merged)) == layers


@given(models)
def test_each_spec_stands_once_in_the_order_of_its_first_layer(heads: list[int]) -> None:
    merged = merge_equal(SpecLayers(spec_of(count), (index,)) for index, count in enumerate(heads))
    assert [layers.spec for layers in merged] == [spec_of(count) for count in dict.fromkeys(heads)]
    assert all(list(layers.indices) == sorted(layers.indices) for layers in merged)


def test_a_layer_with_two_equal_caches_counts_twice() -> None:
    (merged,) = merge_equal(SpecLayers(spec_of(2), (0, 1)) for _ in range(2))
    assert (merged.indices, merged.count) == ((0, 0, 1, 1), 4)


@given(models, st.integers(0, 20))
def test_two_stages_hold_every_layer_once(heads: list[int], cut: int) -> None:
    merged = merge_equal(SpecLayers(spec_of(count), (index,)) for index, count in enumerate(heads))
    stages = [range(cut), range(cut, 20)]
    parts = [layers.within(stage) for stage in stages for layers in merged]
    assert each_layer(merge_equal(parts)) == each_layer(merged)


@given(st.lists(st.sampled_from("ABC"), min_size=1, max_size=12), st.integers(0, 12))
def test_the_backends_of_a_stage_are_those_of_its_layers(names: list[str], cut: int) -> None:
    order = list(dict.fromkeys(names))
    kernel = KernelBlockSizes((16,))
    distinct = tuple(
        AttentionBackend(name, kernel, kernel, indexes_kv_by_block_stride=True) for name in order
    )
    whole = Backends(
        distinct, {(index, CachePart.ATTENTION): order.index(name) for index, name in enumerate(names)}
    )
    stage = whole.within(range(cut, 12))
    assert [(index, backend.name) for (index, _), backend in stage.items()] == list(enumerate(names))[cut:]
    assert [backend.name for backend in stage.distinct] == list(dict.fromkeys(names[cut:]))
