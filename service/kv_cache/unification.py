"""One page size for all layers, by scaling blocks and padding pages."""

from collections.abc import Callable, Mapping
from math import lcm
from typing import Final, TypeAlias

from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.pages import PageRules, PageUnification
from service.kv_cache.specs import (
    AttentionSpec,
    CacheKind,
    LayerSpec,
    SpecLayers,
    StateSpec,
    merge_equal,
    page_sizes,
)
from service.units import round_up

Pad: TypeAlias = Callable[[LayerSpec, int], LayerSpec | None]
"""Brings a spec, whose page does not divide the largest, to that size; ``None`` when it cannot."""


def _refuse(spec: LayerSpec, largest: int) -> None:  # noqa: ARG001 - a Pad that pads nothing
    return None


def _pad_block_strided(spec: LayerSpec, largest: int) -> LayerSpec | None:
    return spec.padded(largest) if isinstance(spec, AttentionSpec) and spec.indexes_by_block_stride else None


def _pad_block_strided_and_states(spec: LayerSpec, largest: int) -> LayerSpec | None:
    return spec.padded(largest) if isinstance(spec, StateSpec) else _pad_block_strided(spec, largest)


def _pad_unless_mla(spec: LayerSpec, largest: int) -> LayerSpec | None:
    return None if spec.kind is CacheKind.MLA_ATTENTION else spec.padded(largest)


def _pad_to_divisor(spec: LayerSpec, largest: int) -> LayerSpec | None:
    ratio = largest // spec.page_size
    if isinstance(spec, StateSpec) or largest % ratio:
        return None
    return spec.scaled(ratio).padded(largest)


PADDINGS: Final[Mapping[PageUnification, Pad]] = {
    PageUnification.DIVIDE: _refuse,
    PageUnification.DIVIDE_OR_PAD_BLOCK_STRIDED: _pad_block_strided,
    PageUnification.DIVIDE_OR_PAD_BLOCK_STRIDED_AND_STATES: _pad_block_strided_and_states,
    PageUnification.DIVIDE_OR_PAD_UNLESS_MLA: _pad_unless_mla,
    PageUnification.DIVIDE_OR_PAD_TO_DIVISOR: _pad_to_divisor,
    PageUnification.DIVIDE_OR_PAD_TO_COMMON_MULTIPLE: _refuse,
}
STATES_NEVER_DIVIDE: Final = frozenset(
    {PageUnification.DIVIDE_OR_PAD_BLOCK_STRIDED_AND_STATES, PageUnification.DIVIDE_OR_PAD_UNLESS_MLA}
)
"""Rules that pad a recurrent state even where its page divides the largest."""


def unify_page_sizes(caches: tuple[SpecLayers, ...], pages: PageRules) -> tuple[SpecLayers, ...]:
    """Return the layers with pages of one size.

    Source: vLLM 0.20.2 to 0.32.0, v1/core/kv_cache_utils.py unify_kv_cache_spec_page_size.

    Raises:
        EngineRefusal: a page can be neither scaled nor padded by the release's rule (stage ``page_size``).
    """
    for cache in caches:
        if cache.spec.page_size < cache.spec.unpadded_page_size:
            detail = "Blocks were aligned with states that have no room for draft tokens."
            raise EngineRefusal(Stage.PAGE_SIZE, "", type="AssertionError", detail=detail)
    if len(page_sizes(caches)) == 1:
        return caches
    if pages.unification is PageUnification.NONE:
        raise _refusal(caches, caches[0], pages)
    if pages.unification is PageUnification.DIVIDE_OR_PAD_TO_COMMON_MULTIPLE:
        caches = _grow_states(caches)
    largest = max(page_sizes(caches))
    return merge_equal(SpecLayers(_unified(cache, largest, caches, pages), cache.indices) for cache in caches)


def _unified(cache: SpecLayers, largest: int, caches: tuple[SpecLayers, ...], pages: PageRules) -> LayerSpec:
    spec = cache.spec
    if spec.page_size == largest:
        return spec
    if isinstance(spec, StateSpec) and pages.unification in STATES_NEVER_DIVIDE:
        return spec.padded(largest)
    if isinstance(spec, AttentionSpec) and largest % spec.page_size == 0:
        return spec.scaled(largest // spec.page_size)
    padded = PADDINGS[pages.unification](spec, largest)
    if padded is None:
        raise _refusal(caches, cache, pages)
    return padded


def _grow_states(caches: tuple[SpecLayers, ...]) -> tuple[SpecLayers, ...]:
    """Pad recurrent pages to the next multiple that all attention pages divide (pull request 40128)."""
    common = lcm(*page_sizes(cache for cache in caches if isinstance(cache.spec, AttentionSpec)))
    return tuple(
        SpecLayers(cache.spec.padded(round_up(cache.spec.page_size, common)), cache.indices)
        if isinstance(cache.spec, StateSpec)
        else cache
        for cache in caches
    )


def _refusal(caches: tuple[SpecLayers, ...], cache: SpecLayers, pages: PageRules) -> EngineRefusal:
    sizes = ", ".join(f"{size:,}" for size in sorted(page_sizes(caches), reverse=True))
    name = f"model.layers.{cache.indices[0]}.self_attn.attn"
    return EngineRefusal(
        Stage.PAGE_SIZE,
        (pages.refusal or "").format(layer=name),
        type="NotImplementedError",
        detail=f"Pages of {sizes} B: the largest is no multiple of every other.",
    )
