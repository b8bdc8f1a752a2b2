"""The lines that llama.cpp logs of its caches.

Source: llama.cpp 0c1e57098, src/llama-kv-cache*.cpp and src/llama-memory-recurrent.cpp.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from service.llama_cpp.builds import Build
from service.llama_cpp.caches import CellCache, CellKind, StateCache
from service.llama_cpp.device_layout import DeviceLayout
from service.llama_cpp.largest_context import CacheDemand
from service.llama_cpp.model_layers import LlamaModel
from service.units import MIB

HOST: Final = "CPU"
FULL_WINDOWS: Final = "https://github.com/ggml-org/llama.cpp/pull/13194#issuecomment-2868343055"


@dataclass(frozen=True, slots=True)
class CacheLog:
    """The lines of one context's caches."""

    model: LlamaModel
    demand: CacheDemand
    layout: DeviceLayout
    build: Build
    name_of: Callable[[int], str] = "CUDA{}".format
    """Name of a device."""

    def lines(self) -> tuple[str, ...]:
        """Return the lines, in order."""
        return tuple(self._lines())

    def _lines(self) -> Iterator[str]:
        caches, context = self.demand.caches, self.demand.context
        if context.swa_full and any(cache.kind is CellKind.WINDOW for cache in caches.cells):
            yield f"{self.build.cache_class}: using full-size SWA cache (ref: {FULL_WINDOWS})"
        indexed = any(cache.kind is CellKind.INDEXER for cache in caches.cells)
        for cache in caches.cells:
            yield from _heading(cache, self.build, indexed=indexed)
            yield from self._cells(cache)
        if caches.states is not None:
            yield from self._states(caches.states)

    def _cells(self, cache: CellCache) -> Iterator[str]:
        owner, context = "llama_kv_cache", self.demand.context
        for device, name in self._devices():
            layers = frozenset(self.layout.layers_on(device))
            if any(row.layer in layers for row in cache.rows):
                yield f"{owner}: {name:>10} KV buffer size = {cache.bytes_of(layers) / MIB:8.2f} MiB"
        keys, values = cache.key_bytes / MIB, cache.value_bytes / MIB
        yield (
            f"{owner}: size = {keys + values:7.2f} MiB ({cache.cells:6d} cells, {len(cache.rows):3d} layers, "
            f"{context.n_seq_max:2d}/{cache.streams} seqs), K ({context.keys.name}): {keys:7.2f} MiB, "
            f"V ({context.values.name}): {values:7.2f} MiB"
        )

    def _states(self, states: StateCache) -> Iterator[str]:
        owner, context = "llama_memory_recurrent", self.demand.context
        for device, name in self._devices():
            size = states.bytes_of(self.layout.layers_on(device))
            if size:
                yield f"{owner}: {name:>10} RS buffer size = {size / MIB:8.2f} MiB"
        rows, ngrams = states.convolution_bytes / MIB, states.ngram_bytes / MIB
        slots, spare = context.n_seq_max, context.states_per_sequence - 1
        yield (
            f"{owner}: size = {states.total_bytes / MIB:7.2f} MiB ({slots:6d} cells, "
            f"{len(self.model.layers):3d} layers, {slots:2d} seqs {spare:2d} rs_seq), "
            f"R (f32): {rows:7.2f} MiB, S (f32): {states.state_bytes / MIB:7.2f} MiB, "
            f"P (f32): {ngrams:7.2f} MiB"
        )

    def _devices(self) -> Iterator[tuple[int | None, str]]:
        yield None, HOST
        for device in range(self.layout.devices):
            yield device, self.name_of(device)


def _heading(cache: CellCache, build: Build, *, indexed: bool) -> Iterator[str]:
    size = f"KV cache, size = {cache.cells} cells"
    sparse = "llama_kv_cache_dsa"
    if cache.kind is CellKind.CONTEXT:
        yield f"{build.cache_class}: creating non-SWA {size}"
    elif cache.kind is CellKind.WINDOW:
        yield f"{build.cache_class}: creating     SWA {size}"
    elif cache.kind is CellKind.INDEXER:
        yield f"{sparse}: creating indexer {size}"
    elif indexed and cache.kind is CellKind.ALL:
        yield f"{sparse}: creating main {size}"
