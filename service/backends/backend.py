"""An attention backend as the cache's layout sees it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from service.architecture.layers.cache_part import CachePart

DEFAULT_BLOCK_SIZE: Final = 16
"""Tokens; the engine's ``CacheConfig.DEFAULT_BLOCK_SIZE`` in every release."""


@dataclass(frozen=True, slots=True)
class KernelBlockSizes:
    """The block sizes, in tokens, that a backend's kernels read.

    Mirrors ``get_supported_kernel_block_sizes``: fixed sizes, and sizes of which every multiple will do.
    """

    fixed: tuple[int, ...] = ()
    multiples_of: tuple[int, ...] = ()
    preference: int | None = None
    """The block size that the backend prefers whatever the default is."""

    def __post_init__(self) -> None:
        if not self.units or min(self.units) < 1:
            raise ValueError(f"kernel block sizes must be positive: {self.fixed} {self.multiples_of}")

    @property
    def units(self) -> tuple[int, ...]:
        """Every declared size, fixed ones first."""
        return self.fixed + self.multiples_of

    @property
    def minimum(self) -> int:
        """The smallest declared size."""
        return min(self.units)

    def accepts(self, block_size: int) -> bool:
        """Say whether a cache block can be cut into kernel blocks (``supports_block_size``)."""
        return any(block_size % unit == 0 for unit in self.units)

    def preferred(self, default: int = DEFAULT_BLOCK_SIZE) -> int:
        """Return the block size of this backend when the user names none (``get_preferred_block_size``)."""
        if self.preference is not None:
            return self.preference
        return default if self.accepts(default) else self.minimum


@dataclass(frozen=True, slots=True)
class EngineFailure:
    """An exception of the engine, in its own words."""

    type: str
    message: str


@dataclass(frozen=True, slots=True)
class AttentionBackend:
    """The backend chosen for one layer, as it behaves for that layer."""

    name: str
    kernel_block_sizes: KernelBlockSizes
    """As the engine asks for the model as a whole."""
    spec_block_sizes: KernelBlockSizes
    """As it asks for one layer's own spec, where layers differ in head size."""
    indexes_kv_by_block_stride: bool
    """Its kernels find a page by the block stride, so pages may be padded."""
    # Layers of two cache dtypes may well share one backend.
    cache_dtype: str = field(default="auto", compare=False)
    """Type of the layer's cache: the requested dtype, or the backend's own format of it."""
    nameless: bool = False
    """The release's class has no name: its ``get_name`` raises ``NotImplementedError``."""
    plain_cache: bool = False
    """It stores a byte per element whatever the cache dtype packs."""
    flash_attn_version: int | None = None
    """The FlashAttention version this layer would run with; None: none runs on this GPU."""
    layouts: tuple[str, ...] = ()
    """How the cache may lie in memory for its kernels, preferred first; none where it does not matter."""
    packed_rows: int = 1
    """Block sizes are multiples of this number of tokens where the pages of all layers lie side by side."""
    unpacked_in_prompts: str | None = None
    """Why attention over prompts takes longer than with other caches; ``None`` where it does not."""
    failure_when_run: EngineFailure | None = None
    """The engine accepts the layer, then fails at its first forward pass or graph capture."""
    failure_at_setup: EngineFailure | None = None
    """The engine sizes the cache, then always fails when it sets up this layer's cache."""

    @property
    def paging(self) -> tuple[object, ...]:
        """What the cache's layout depends on."""
        return (
            self.name,
            self.kernel_block_sizes,
            self.spec_block_sizes,
            self.indexes_kv_by_block_stride,
            self.cache_dtype,
            self.plain_cache,
            self.packed_rows,
        )


@dataclass(frozen=True, eq=False)
class Backends:
    """The backend of each cache of each layer, in the order in which the engine builds them.

    Two instances are equal only where they are one object, so that an instance can be a key.
    """

    distinct: tuple[AttentionBackend, ...]
    """The different backends, in the order of their first use."""
    places: Mapping[tuple[int, CachePart], int]
    """By layer index and part of the layer, the place of its backend in ``distinct``."""

    def __getitem__(self, key: tuple[int, CachePart]) -> AttentionBackend:
        """Return the backend of a part of a layer."""
        return self.distinct[self.places[key]]

    def __len__(self) -> int:
        """Return the number of caches that have a backend."""
        return len(self.places)

    def items(self) -> Iterator[tuple[tuple[int, CachePart], AttentionBackend]]:
        """Yield layer index and part of the layer, and the backend."""
        return ((key, self.distinct[place]) for key, place in self.places.items())

    def values(self) -> Iterator[AttentionBackend]:
        """Yield the backend of each part of each layer."""
        return (self.distinct[place] for place in self.places.values())

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the backends of attention, the one of most layers first."""
        layers: Counter[str] = Counter()
        for backend, count in self._attending:
            layers[backend.name] += count
        return tuple(name for name, _ in layers.most_common())

    @cached_property
    def stored_dtype(self) -> str | None:
        """The cache dtype that most attention layers store; ``None`` where all store the requested one."""
        layers: Counter[str] = Counter()
        for backend, count in self._attending:
            if backend.cache_dtype != "auto":
                layers[backend.cache_dtype] += count
        return layers.most_common(1)[0][0] if layers else None

    @cached_property
    def _attending(self) -> tuple[tuple[AttentionBackend, int], ...]:
        """Backends of attention with the number of their layers, in the order of the first of these."""
        counts = Counter([place for (_, part), place in self.places.items() if part is CachePart.ATTENTION])
        return tuple((self.distinct[place], count) for place, count in counts.items())

    def within(self, layers: range) -> "Backends":
        """Return the backends of some layers."""
        own = {key: place for key, place in self.places.items() if key[0] in layers}
        order = {place: number for number, place in enumerate(dict.fromkeys(own.values()))}
        return Backends(
            tuple(self.distinct[place] for place in order), {key: order[place] for key, place in own.items()}
        )
