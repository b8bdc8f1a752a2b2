"""The cache that one layer needs: the engine's KVCacheSpec."""

from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeAlias

from service.engine_config.engine_config import RequestDemand
from service.engines.refusal import EngineRefusal, Stage
from service.kv_cache.formats import CacheFormat
from service.units import ceil_div, round_up


class CacheKind(StrEnum):
    """Kinds of caches, by the engine's names."""

    FULL_ATTENTION = "full_attention"
    SLIDING_WINDOW = "sliding_window"
    CHUNKED_LOCAL_ATTENTION = "chunked_local_attention"
    MLA_ATTENTION = "mla_attention"
    SLIDING_WINDOW_MLA = "sliding_window_mla"
    CROSS_ATTENTION = "cross_attention"
    SINK_FULL_ATTENTION = "sink_full_attention"
    CIRCULAR_BUFFER = "circular_buffer"
    MAMBA = "mamba"
    UNIFORM_TYPE = "uniform_type"


WINDOWED_KINDS: Final = frozenset({CacheKind.SLIDING_WINDOW, CacheKind.SLIDING_WINDOW_MLA})
"""Kinds that store a window of tokens."""


@dataclass(frozen=True, slots=True)
class AttentionSpec:
    """Keys and values of every stored token."""

    kind: CacheKind
    block_size: int
    num_kv_heads: int
    head_size: int
    head_size_v: int
    """0 where one vector per token serves as both (MLA)."""
    format: CacheFormat
    whole_format: CacheFormat | None = None
    """The format once the layer stores every token, where its kind is sized by another format."""
    sliding_window: int | None = None
    attention_chunk_size: int | None = None
    page_size_padded: int | None = None
    indexes_by_block_stride: bool = True
    """Whether the layer's backend finds pages by a stride, so that they may be padded."""
    tokens_per_state: int = 1
    """Tokens that are compressed into one entry of the cache."""
    alignment: int = 1
    """Bytes of which a page is a multiple."""
    kernel_block: int | None = None
    """Largest block of the backend's kernels, where they take only fixed sizes and the spec states it."""
    quantization_forgotten: bool = False
    """The engine no longer knows that the cache is quantized, and takes the spec for another."""
    block_alignment: int = 1
    """Bytes of which a block over all layers is a whole number."""

    @property
    def bytes_per_token(self) -> int:
        """Bytes of one token (or of one compressed entry) in this layer on one rank."""
        return self.num_kv_heads * self.format.head_bytes(self.head_size, self.head_size_v)

    @property
    def unpadded_page_size(self) -> int:
        """Bytes of one block without padding."""
        return self.block_size // self.tokens_per_state * self.bytes_per_token

    @property
    def page_size(self) -> int:
        """Bytes of one block of this layer on one rank."""
        return self.page_size_padded or round_up(self.unpadded_page_size, self.alignment)

    def blocks_per_request(self, demand: RequestDemand) -> int:
        """Return the blocks that one request holds at most.

        Source: vLLM 0.32.0, max_memory_usage_bytes of FullAttentionSpec, SlidingWindowSpec,
        ChunkedLocalAttentionSpec, CrossAttentionSpec and CircularBufferSpec.

        Raises:
            EngineRefusal: a window does not go with decode context parallelism (stage ``memory``).
        """
        if self.kind is CacheKind.CIRCULAR_BUFFER:
            return 1
        if self.kind is CacheKind.CROSS_ATTENTION:
            return ceil_div(demand.encoder_tokens, self.block_size)
        if self.is_windowed and demand.context_parallel > 1:
            raise EngineRefusal(Stage.MEMORY, "DCP not support sliding window.", type="AssertionError")
        blocks = ceil_div(ceil_div(self.retained_tokens(demand), demand.context_parallel), self.block_size)
        # One more block, since a window need not start where a block does.
        return blocks + 1 if self.is_windowed else blocks

    @property
    def is_windowed(self) -> bool:
        """Whether the layer stores a window of tokens."""
        return self.kind in WINDOWED_KINDS and self.sliding_window is not None

    def retained_tokens(self, demand: RequestDemand) -> int:
        """Return the most tokens of one request that are stored, those in flight included."""
        retained = demand.max_model_len
        if self.is_windowed and self.sliding_window is not None:
            retained = self.sliding_window - 1 + demand.retained_tokens + demand.in_flight_tokens
        elif self.kind is CacheKind.CHUNKED_LOCAL_ATTENTION and self.attention_chunk_size is not None:
            retained = self.attention_chunk_size + demand.in_flight_tokens
        return min(retained, demand.max_model_len)

    def scaled(self, ratio: int) -> "AttentionSpec":
        """Return the spec with a block of ``ratio`` times as many tokens."""
        return replace(self, block_size=self.block_size * ratio)

    def padded(self, page_size: int) -> "AttentionSpec":
        """Return the spec with a page of ``page_size`` bytes."""
        return replace(self, page_size_padded=page_size)


@dataclass(frozen=True, slots=True)
class StateSpec:
    """One recurrent state per sequence (the engine's MambaSpec)."""

    block_size: int
    """Tokens between two stored states; the maximum length when only the last is stored."""
    state_bytes: int
    pages_per_request: int | None
    """``None`` when the state of every block is stored."""
    page_size_padded: int | None = None
    speculative_pages: int = 0
    """Additional states, one per draft token."""
    replicated: bool = False
    """Every rank stores the whole state."""

    @property
    def kind(self) -> CacheKind:
        """Every recurrent state is of kind ``mamba`` to the engine."""
        return CacheKind.MAMBA

    @property
    def unpadded_page_size(self) -> int:
        """Bytes of one state without padding."""
        return self.state_bytes

    @property
    def page_size(self) -> int:
        """Bytes of one state as allocated."""
        return self.page_size_padded or self.state_bytes

    def blocks_per_request(self, demand: RequestDemand) -> int:
        """Return the states that one request holds."""
        if self.pages_per_request is None:
            return ceil_div(demand.max_model_len, self.block_size) + self.speculative_pages
        return self.pages_per_request + self.speculative_pages

    def padded(self, page_size: int) -> "StateSpec":
        """Return the spec with a page of ``page_size`` bytes."""
        return replace(self, page_size_padded=page_size)


LayerSpec: TypeAlias = AttentionSpec | StateSpec


@dataclass(frozen=True, slots=True)
class SpecLayers:
    """The layers of a model, or of a part of it, whose caches have one spec."""

    spec: LayerSpec
    indices: tuple[int, ...]
    """Positions in the decoder, ascending. A layer with two caches of this spec is listed twice."""

    @property
    def count(self) -> int:
        """Number of caches."""
        return len(self.indices)

    def within(self, layers: Container[int]) -> "SpecLayers":
        """Return those of some layers; there may be none."""
        return SpecLayers(self.spec, tuple(index for index in self.indices if index in layers))


def merge_equal(caches: Iterable[SpecLayers]) -> tuple[SpecLayers, ...]:
    """Return the same caches with each spec once, in the order in which the specs first appear.

    Caches without any layer are left out.
    """
    merged: dict[LayerSpec, SpecLayers] = {}
    for cache in caches:
        if not cache.indices:
            continue
        same = merged.setdefault(cache.spec, cache)
        if same is not cache:
            merged[cache.spec] = SpecLayers(same.spec, tuple(sorted((*same.indices, *cache.indices))))
    return tuple(merged.values())


def each_layer(caches: Iterable[SpecLayers]) -> tuple[tuple[int, LayerSpec], ...]:
    """Return index and spec of every cache, by the position of its layer in the decoder."""
    caches = tuple(caches)
    places = sorted((index, place) for place, cache in enumerate(caches) for index in cache.indices)
    return tuple((index, caches[place].spec) for index, place in places)


def page_sizes(caches: Iterable[SpecLayers]) -> frozenset[int]:
    """Return the distinct page sizes of some layers, in bytes."""
    return frozenset(cache.spec.page_size for cache in caches)
