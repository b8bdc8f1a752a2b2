"""The caches of a model that stores compressed groups of tokens (DeepSeek V4).

Source, read only: llama.cpp 0c1e57098, src/llama-kv-cache-dsv4.cpp. Every sequence has a stream of its own,
whatever `-kvu` says.
"""

from collections.abc import Callable
from typing import Final

from service.llama_cpp.builds import Build
from service.llama_cpp.cache_types import FLOAT32
from service.llama_cpp.caches import CellCache, CellKind, LayerRow, LlamaCaches, StateCache, window_cells
from service.llama_cpp.context import LlamaContext
from service.llama_cpp.model_layers import LlamaLayer, LlamaModel
from service.units import ceil_div, round_up

PADDING: Final = 256
"""Cells of compressed groups are padded to a multiple of these."""


def compresses(model: LlamaModel) -> bool:
    """Whether some layers store compressed groups of tokens."""
    return any(layer.compress_ratio for layer in model.layers)


def compressed_caches(model: LlamaModel, context: LlamaContext, build: Build) -> LlamaCaches:
    """Return the caches: windows, compressed groups of each size, and indexers."""

    def cache(kind: CellKind, size: int, elements: Callable[[LlamaLayer], int]) -> CellCache:
        rows = tuple(
            LayerRow(index, context.keys.row_bytes(elements(layer)), 0)
            for index, layer in enumerate(model.layers)
            if elements(layer)
        )
        return CellCache(kind, size, context.n_seq_max, rows)

    def groups(ratio: int) -> int:
        return round_up(max(1, ceil_div(context.n_ctx_seq, ratio)), PADDING)

    def of_ratio(ratio: int) -> Callable[[LlamaLayer], int]:
        return lambda layer: layer.keys.elements if layer.compress_ratio == ratio else 0

    ratios = sorted({layer.compress_ratio for layer in model.layers} - {0})
    window = window_cells(model, context, build, shared=False)
    found = [
        cache(CellKind.CONTEXT, context.n_ctx_seq, lambda _: 0),
        cache(CellKind.WINDOW, window, lambda layer: layer.keys.elements),
        *(cache(CellKind.COMPRESSED, groups(ratio), of_ratio(ratio)) for ratio in ratios),
    ]
    indexed = min((layer.compress_ratio for layer in model.layers if layer.indexer_keys), default=0)
    if indexed:
        found.append(cache(CellKind.COMPRESSED_INDEXER, groups(indexed), lambda layer: layer.indexer_keys))
    return LlamaCaches(tuple(found), _compressor_states(model, context))


def _compressor_states(model: LlamaModel, context: LlamaContext) -> StateCache:
    """Return what compressors hold of groups that are not full: a vector and a score for each token."""

    def elements(layer: LlamaLayer) -> int:
        # Groups with an indexer overlap: two groups of tokens, each vector twice as wide.
        overlap = 2 if layer.indexer_keys else 1
        rows = overlap * layer.compress_ratio
        return 2 * rows * overlap * (layer.keys.elements + layer.indexer_keys)

    layers = tuple(
        (index, 0, FLOAT32.row_bytes(elements(layer)), 0)
        for index, layer in enumerate(model.layers)
        if layer.compress_ratio
    )
    return StateCache(context.n_seq_max * context.states_per_sequence, layers)
