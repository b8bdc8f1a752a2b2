"""LlamaCaches: the caches of a context, their cells and their bytes on each device.

Source: llama.cpp 0c1e57098, `create_memory` in src/llama-model.cpp, src/llama-kv-cache*.cpp and
src/llama-memory-recurrent.cpp.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from service.llama_cpp.builds import FLASH, Build, WindowRows
from service.llama_cpp.cache_types import FLOAT32
from service.llama_cpp.context import LlamaContext
from service.llama_cpp.model_layers import LlamaLayer, LlamaModel
from service.units import round_up


class CellKind(StrEnum):
    """What a cache holds."""

    ALL = "all"
    """All layers, in a model whose windows share the context's cells."""
    CONTEXT = "context"
    """Layers without a window, beside those with one."""
    WINDOW = "window"
    INDEXER = "indexer"
    COMPRESSED = "compressed"
    """Vectors of groups of tokens (DeepSeek V4)."""
    COMPRESSED_INDEXER = "compressed_indexer"


@dataclass(frozen=True, slots=True)
class LayerRow:
    """One cell of one layer, in bytes."""

    layer: int
    keys: int
    values: int


@dataclass(frozen=True, slots=True)
class CellCache:
    """A cache of cells, each with a row of every layer."""

    kind: CellKind
    cells: int
    """Cells of one stream."""
    streams: int
    rows: tuple[LayerRow, ...]

    @property
    def key_bytes(self) -> int:
        """Bytes of keys on all devices."""
        return self.streams * self.cells * sum(row.keys for row in self.rows)

    @property
    def value_bytes(self) -> int:
        """Bytes of values on all devices."""
        return self.streams * self.cells * sum(row.values for row in self.rows)

    def bytes_of(self, layers: Iterable[int]) -> int:
        """Return the bytes of some layers."""
        chosen = frozenset(layers)
        rows = sum(row.keys + row.values for row in self.rows if row.layer in chosen)
        return self.streams * self.cells * rows


@dataclass(frozen=True, slots=True)
class StateCache:
    """Recurrent states: one row per sequence, in 32 bits."""

    rows: int
    """Rows of each layer."""
    layers: tuple[tuple[int, int, int, int], ...]
    """Layer, and the bytes of one row of its convolution, its state and its n-grams."""

    @property
    def convolution_bytes(self) -> int:
        """Bytes of convolutions (`R`) on all devices."""
        return self.rows * sum(layer[1] for layer in self.layers)

    @property
    def state_bytes(self) -> int:
        """Bytes of states (`S`) on all devices."""
        return self.rows * sum(layer[2] for layer in self.layers)

    @property
    def ngram_bytes(self) -> int:
        """Bytes of convolutions over n-grams (`P`) on all devices."""
        return self.rows * sum(layer[3] for layer in self.layers)

    @property
    def total_bytes(self) -> int:
        """Bytes on all devices."""
        return self.convolution_bytes + self.state_bytes + self.ngram_bytes

    def bytes_of(self, layers: Iterable[int]) -> int:
        """Return the bytes of some layers."""
        chosen = frozenset(layers)
        return self.rows * sum(sum(layer[1:]) for layer in self.layers if layer[0] in chosen)


@dataclass(frozen=True, slots=True)
class LlamaCaches:
    """All caches of a context."""

    cells: tuple[CellCache, ...]
    states: StateCache | None

    def bytes_of(self, layers: Iterable[int]) -> int:
        """Return the bytes of some layers in all caches."""
        chosen = tuple(layers)
        size = sum(cache.bytes_of(chosen) for cache in self.cells)
        return size + (self.states.bytes_of(chosen) if self.states is not None else 0)

    @property
    def total_bytes(self) -> int:
        """Bytes on all devices."""
        states = self.states
        recurrent = (
            0 if states is None else states.convolution_bytes + states.state_bytes + states.ngram_bytes
        )
        return recurrent + sum(cache.key_bytes + cache.value_bytes for cache in self.cells)


def caches_of(model: LlamaModel, context: LlamaContext, build: Build) -> LlamaCaches:
    """Return the caches of a context, for every model but those that store compressed groups."""
    sizes = _Rows(model, context, build)
    cells: list[CellCache] = []
    if model.splits_windows and build.window_rows is not WindowRows.WHOLE:
        window = window_cells(model, context, build, shared=context.unified)
        cells.append(sizes.cache(CellKind.CONTEXT, context.n_ctx_seq, lambda layer: not layer.is_window))
        cells.append(sizes.cache(CellKind.WINDOW, window, lambda layer: layer.is_window))
    elif any(layer.attends for layer in model.layers):
        cells.append(sizes.cache(CellKind.ALL, context.n_ctx_seq, lambda _: True))
    if any(layer.indexer_keys for layer in model.layers):
        cells.append(sizes.indexer(CellKind.INDEXER, context.n_ctx_seq))
    return LlamaCaches(tuple(cells), _states(model, context))


def window_cells(model: LlamaModel, context: LlamaContext, build: Build, *, shared: bool) -> int:
    """Return the cells of one stream of the windows' cache; ``shared``: all sequences use one stream."""
    if context.swa_full:
        return context.n_ctx_seq
    slots = context.n_seq_max if shared or build.window_rows is not WindowRows.STREAM_AND_UBATCH else 1
    batch = context.n_batch if build.window_rows is WindowRows.SLOTS_AND_BATCH else context.n_ubatch
    padding = build.window_padding[FLASH if context.flash else 0]
    return round_up(min(context.n_ctx_seq, model.window * slots + batch), padding)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The bytes of rows under a context's types."""

    model: LlamaModel
    context: LlamaContext
    build: Build

    def cache(self, kind: CellKind, cells: int, chosen: Callable[[LlamaLayer], bool]) -> CellCache:
        """Return a cache of the attending layers that are chosen."""
        rows = tuple(
            LayerRow(index, self._keys(layer.keys.elements), self._values(layer))
            for index, layer in enumerate(self.model.layers)
            if layer.attends and chosen(layer)
        )
        return CellCache(kind, cells, self.context.streams, rows)

    def indexer(self, kind: CellKind, cells: int) -> CellCache:
        """Return the cache of the indexers' keys."""
        rows = tuple(
            LayerRow(
                index, self._keys(layer.indexer_keys), self.context.values.row_bytes(layer.indexer_values)
            )
            for index, layer in enumerate(self.model.layers)
            if layer.indexer_keys
        )
        return CellCache(kind, cells, self.context.streams, rows)

    def _keys(self, elements: int) -> int:
        return self.context.keys.row_bytes(elements)

    def _values(self, layer: LlamaLayer) -> int:
        if self.model.is_mla and not self.build.mla_stores_values:
            return 0
        # Without flash attention values are stored transposed, each row as wide as the widest of all layers.
        elements = layer.values.elements if self.context.flash else self.model.widest_values
        return self.context.values.row_bytes(elements)


def _states(model: LlamaModel, context: LlamaContext) -> StateCache | None:
    layers = tuple(
        (
            index,
            FLOAT32.row_bytes(layer.state.convolution),
            FLOAT32.row_bytes(layer.state.recurrent),
            FLOAT32.row_bytes(layer.state.ngrams),
        )
        for index, layer in enumerate(model.layers)
        if layer.state is not None
    )
    return StateCache(context.n_seq_max * context.states_per_sequence, layers) if layers else None
