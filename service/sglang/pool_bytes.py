"""PoolBytes: the bytes that a token, or a request's states, take in SGLang's pools on one rank.

Source: SGLang 0.5.10, 0.5.20 and 0.5.23, `DefaultPoolConfigurator` and `HybridSWAPoolConfigurator`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Final

from service.architecture.layers.attention import Attention
from service.architecture.layers.compressed_attention import CompressedAttention
from service.architecture.layers.decoder_layer import DecoderLayer
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.layers.recurrence import (
    GatedDeltaNet,
    KimiDeltaAttention,
    KimiK3DeltaAttention,
    LinearAttention,
    Mamba,
    Mamba2,
    Recurrence,
    ShortConvolution,
)
from service.architecture.model import ModelArchitecture
from service.sglang.releases import PoolRules
from service.sglang.server_args import CACHE_BITS, TRTLLM, SglangArgs
from service.units import ceil_div, round_up

ELEMENT: Final = {"bfloat16": 2, "float16": 2, "float32": 4}
QUANTIZED_BLOCK: Final = 128
"""Elements of sparse attention's rows and index keys that share a scale of 4 bytes (`quant_block_size`)."""
SCALE_BYTES: Final = 4
FP4_BLOCK: Final = 16
MXFP8_BLOCK: Final = 32
CONVOLUTION_BYTES: Final = 2
"""`SGLANG_MAMBA_CONV_DTYPE`: bfloat16."""


class UnmodelledPools(ValueError):
    """SGLang has pools for the model that are not modelled here."""


@dataclass(frozen=True, slots=True)
class PoolBytes:
    """Bytes on one rank."""

    full: int
    """One token of all layers without a window, or of all layers where they share a pool."""
    windows: int
    """One token of the layers with a window that have a pool of their own; 0 without such a pool."""
    full_layers: int
    window_layers: int
    window: int
    """Tokens of the window; 0 without a pool of its own."""
    keys: int
    """The part of `full` that keys, or MLA's vectors, take."""
    window_keys: int
    states: int
    """States of one request in all recurrent layers."""
    convolution: int
    """The part of `states` that convolutions take."""
    is_mla: bool

    @property
    def whole(self) -> int:
        """One token of all layers."""
        return self.full + self.windows


def pool_bytes(model: ModelArchitecture, args: SglangArgs, rules: PoolRules) -> PoolBytes:
    """Return the bytes of a token and of a request's states.

    Raises:
        UnmodelledPools: a layer has a cache of another kind.
    """
    split = rules.splits(model.class_name) and _asks_for_windows(args, rules)
    windows = [layer for layer in model.layers if split and _window(layer) is not None]
    inside = set(map(id, windows))
    full = [layer for layer in model.layers if not (split and id(layer) in inside)]
    row = _Row(model, args, rules)
    keys = sum(row.keys(layer) for layer in full)
    window_keys = sum(row.keys(layer) for layer in windows)
    convolution, states = row.states(model.layers)
    return PoolBytes(
        full=keys + sum(row.values(layer) for layer in full),
        windows=window_keys + sum(row.values(layer) for layer in windows),
        full_layers=sum(_stores(layer) for layer in full),
        window_layers=len(windows),
        window=max((_window(layer) or 0 for layer in windows), default=0),
        keys=keys,
        window_keys=window_keys,
        states=convolution + states,
        convolution=convolution,
        is_mla=model.is_mla,
    )


def _asks_for_windows(args: SglangArgs, rules: PoolRules) -> bool:
    return rules.split != "by_share" or args.hybrid_kvcache_ratio is not None


def _window(layer: DecoderLayer) -> int | None:
    mixer = layer.mixer
    if isinstance(mixer, Attention):
        return mixer.sliding_window or mixer.attention_chunk_size
    return mixer.sliding_window if isinstance(mixer, MultiHeadLatentAttention) else None


def _stores(layer: DecoderLayer) -> bool:
    return isinstance(layer.mixer, Attention | MultiHeadLatentAttention)


@dataclass(frozen=True, slots=True)
class _Row:
    """One layer on one rank."""

    model: ModelArchitecture
    args: SglangArgs
    rules: PoolRules

    def keys(self, layer: DecoderLayer) -> int:
        """Bytes of keys, or of MLA's vector and the indexer's key."""
        mixer = layer.mixer
        if isinstance(mixer, CompressedAttention):
            raise UnmodelledPools(f"{self.model.class_name}: pools of compressed groups are not modelled")
        if isinstance(mixer, MultiHeadLatentAttention):
            return self._vector(mixer)
        if not isinstance(mixer, Attention):
            return 0
        return self._stored(self._heads(mixer) * mixer.head_size)

    def values(self, layer: DecoderLayer) -> int:
        """Bytes of values."""
        mixer = layer.mixer
        if not isinstance(mixer, Attention):
            return 0
        size = mixer.head_size_v if self.rules.sizes_values else mixer.head_size
        return self._stored(self._heads(mixer) * size)

    def _heads(self, mixer: Attention) -> int:
        return max(1, mixer.num_kv_heads // self.args.tp_size)

    def _stored(self, elements: int) -> int:
        bits = CACHE_BITS[self.args.kv_cache_dtype]
        if self.args.kv_cache_dtype == "auto":
            return elements * ELEMENT[self.model.dtype]
        size = elements * bits // 8
        if bits == 4:  # noqa: PLR2004 - half a byte
            return size + elements // FP4_BLOCK
        return size + (elements // MXFP8_BLOCK if self.args.kv_cache_dtype == "mxfp8" else 0)

    def _vector(self, mixer: MultiHeadLatentAttention) -> int:
        """Return the bytes of MLA's vector, in full on every rank."""
        if mixer.indexer is None:
            return self._stored(mixer.head_size)
        scaled = self.args.kv_cache_dtype == "fp8_e4m3" and self.args.dsa_backend != TRTLLM
        rank, rotary = mixer.kv_lora_rank, mixer.qk_rope_head_dim
        row = _scaled(rank) + rotary * 2 if scaled else self._stored(mixer.head_size)
        indexer = ceil_div(_scaled(mixer.indexer.head_dim), mixer.indexer.group_size)
        return row + (0 if mixer.indexer.reuses_selection else indexer)

    def states(self, layers: Iterable[DecoderLayer]) -> tuple[int, int]:
        """Return the bytes of all layers' convolutions and matrices."""
        convolutions = matrices = 0
        ssm = ELEMENT[self.model.states.dtype or "float32"]
        for layer in layers:
            for mixer in (layer.mixer, layer.beside):
                if isinstance(mixer, Recurrence):
                    convolution, matrix = self._state(mixer)
                    convolutions += convolution * CONVOLUTION_BYTES
                    matrices += matrix * ssm
        return convolutions, matrices

    def _state(self, mixer: Recurrence) -> tuple[int, int]:
        """Return the elements of a layer's convolution and matrix on one rank."""
        ranks = self.args.tp_size
        if isinstance(mixer, GatedDeltaNet):
            key, value = (
                mixer.num_key_heads * mixer.key_head_dim,
                mixer.num_value_heads * mixer.value_head_dim,
            )
            matrix = value * mixer.key_head_dim
            return (mixer.conv_kernel - 1) * (2 * key + value) // ranks, matrix // ranks
        if isinstance(mixer, KimiDeltaAttention | KimiK3DeltaAttention):
            width = mixer.num_heads * mixer.head_dim
            return 3 * (mixer.conv_kernel - 1) * width // ranks, width * mixer.head_dim // ranks
        if isinstance(mixer, Mamba2):
            groups = round_up(mixer.num_groups, ranks) if mixer.num_groups == 1 else mixer.num_groups
            channels = mixer.intermediate_size + 2 * groups * mixer.state_size
            matrix = prod((mixer.num_heads, mixer.head_dim, mixer.state_size))
            return (mixer.conv_kernel - 1) * channels // ranks, matrix // ranks
        if isinstance(mixer, Mamba):
            matrix = mixer.intermediate_size * mixer.state_size
            return (mixer.conv_kernel - 1) * mixer.intermediate_size // ranks, matrix // ranks
        if isinstance(mixer, ShortConvolution):
            return (mixer.conv_kernel - 1) * mixer.channels // ranks, 0
        if isinstance(mixer, LinearAttention):
            return 0, mixer.num_heads * mixer.head_dim * mixer.head_dim // ranks
        raise UnmodelledPools(f"states of {type(mixer).__name__} are not modelled for SGLang")


def _scaled(elements: int) -> int:
    """Return the bytes of 8-bit elements with their scales."""
    return elements + elements // QUANTIZED_BLOCK * SCALE_BYTES
