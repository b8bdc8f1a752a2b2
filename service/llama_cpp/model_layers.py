"""LlamaModel: a model as llama.cpp's caches see it, from our architecture."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
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
    NgramConvolution,
    Recurrence,
    ShortConvolution,
)
from service.architecture.layers.sparse_indexers import Indexer
from service.architecture.model import ModelArchitecture
from service.bundled_toml import read_toml


class NotConverted(ValueError):
    """llama.cpp has no such model class."""


class UnmodelledLayers(ValueError):
    """llama.cpp stores a part of the model that is not modelled here."""


@dataclass(frozen=True, slots=True)
class Heads:
    """Keys or values of one layer: `count` heads of `size` elements."""

    count: int
    size: int

    @property
    def elements(self) -> int:
        """Elements of a token."""
        return self.count * self.size


NO_HEADS: Final = Heads(0, 0)
ENDLESS: Final = frozenset({"mamba", "mamba2"})
ENDLESS_CONTEXT: Final = 1 << 20
"""llama.cpp 0c1e57098, conversion/mamba.py: all models without attention get this training length."""
POOLED_PARTS: Final = 3
"""llama.cpp 0c1e57098, llama_memory_hybrid_idx: an indexer that pools keys stores three for each token."""


@dataclass(frozen=True, slots=True)
class LlamaState:
    """Elements of one row of a recurrent layer's state (`n_embd_r`, `n_embd_s`), in 32 bits."""

    convolution: int
    recurrent: int
    ngrams: int = 0
    """Elements of a convolution over n-grams, which has a row of its own (Qwen4 Exp)."""


@dataclass(frozen=True, slots=True)
class LlamaLayer:
    """What one layer stores."""

    keys: Heads = NO_HEADS
    """No heads: the layer has no cache of its own (it is recurrent, or reads another layer's)."""
    values: Heads = NO_HEADS
    is_window: bool = False
    """The layer attends to a sliding window, and this architecture gives such layers a cache of their own."""
    state: LlamaState | None = None
    indexer_keys: int = 0
    """Elements of a key of sparse attention's indexer; 0 without one."""
    indexer_values: int = 0
    """Elements that an indexer's cache stores beside the key, though nothing reads them (MiniMax M3)."""
    compress_ratio: int = 0
    """Tokens of a group whose compressed vector is stored (DeepSeek V4); 0 without."""

    @property
    def attends(self) -> bool:
        """Whether the layer has cells of its own."""
        return self.keys.count > 0


@dataclass(frozen=True, slots=True)
class LlamaModel:
    """A model as llama.cpp's caches see it."""

    architecture: str
    """llama.cpp's own name (`general.architecture`)."""
    layers: tuple[LlamaLayer, ...]
    context_length: int
    """`n_ctx_train`."""
    window: int = 0
    """Tokens of a sliding window (`n_swa`)."""
    splits_windows: bool = False
    """The architecture has a cache of its own for layers with a window (`swa_type`)."""
    is_mla: bool = False
    rolls_back_states: bool = False
    """Recurrent states may have further rows, for draft tokens."""
    has_experts: bool = False
    widest_values: int = field(default=0)
    """Elements of the widest values of all layers, to which all are padded without flash attention."""

    @property
    def is_recurrent(self) -> bool:
        """Whether some layers have a state per sequence."""
        return any(layer.state is not None for layer in self.layers)


@dataclass(frozen=True, slots=True)
class _Classes:
    windowed: frozenset[str]
    rolls_back_states: frozenset[str]
    classes: Mapping[str, str]
    """llama.cpp's name of the architecture by model class."""


@cache
def _classes() -> _Classes:
    table = read_toml("service.llama_cpp", "model_classes.toml")
    named = {each: name for name, classes in table["classes"].items() for each in classes}
    return _Classes(frozenset(table["windowed"]), frozenset(table["rolls_back_states"]), named)


def splits_windows(architecture: str) -> bool:
    """Whether an architecture, by llama.cpp's name, has a cache of its own for layers with a window."""
    return architecture in _classes().windowed


def rolls_back_states(architecture: str) -> bool:
    """Whether recurrent states of an architecture may have further rows, for draft tokens."""
    return architecture in _classes().rolls_back_states


def llama_model(model: ModelArchitecture) -> LlamaModel:
    """Return a model as llama.cpp converts it to GGUF.

    Raises:
        NotConverted: llama.cpp has no such class.
        UnmodelledLayers: what it stores of the layers is not modelled.
    """
    name = _classes().classes.get(model.class_name)
    if name is None:
        raise NotConverted(f"Model {model.class_name} is not supported")
    windowed = splits_windows(name)
    layers = tuple(_layer(layer, windowed=windowed) for layer in model.layers)
    if all(layer.state is None and not layer.attends for layer in layers):
        raise UnmodelledLayers(f"{model.class_name} has no cache that is modelled")
    windows = {_window(layer) for layer in model.layers} - {None}
    return LlamaModel(
        name,
        layers,
        ENDLESS_CONTEXT if name in ENDLESS else model.context.length or 0,
        window=max((each for each in windows if each is not None), default=0) if windowed else 0,
        splits_windows=windowed and any(layer.is_window for layer in layers),
        is_mla=model.is_mla,
        rolls_back_states=rolls_back_states(name),
        has_experts=model.declared.experts,
        widest_values=max(layer.values.elements for layer in layers),
    )


def _window(layer: DecoderLayer) -> int | None:
    mixer = layer.mixer
    if isinstance(mixer, Attention):
        return mixer.sliding_window or mixer.attention_chunk_size
    if isinstance(mixer, MultiHeadLatentAttention | CompressedAttention):
        return mixer.sliding_window
    return None


def _layer(layer: DecoderLayer, *, windowed: bool) -> LlamaLayer:
    mixer, window = layer.mixer, windowed and _window(layer) is not None
    if isinstance(mixer, Attention):
        return _attention(
            mixer, is_window=window, state=None if layer.beside is None else _state(layer.beside)
        )
    if isinstance(mixer, MultiHeadLatentAttention):
        keys, values = Heads(1, mixer.head_size), Heads(1, mixer.kv_lora_rank)
        return LlamaLayer(keys, values, window, indexer_keys=_indexer_keys(mixer.indexer))
    if isinstance(mixer, CompressedAttention):
        heads = Heads(1, mixer.head_size)
        ratio = mixer.compress_ratio if mixer.compresses else 0
        indexer = _indexer_keys(mixer.indexer)
        return LlamaLayer(heads, heads, window, indexer_keys=indexer, compress_ratio=ratio)
    if isinstance(mixer, Recurrence):
        return LlamaLayer(state=_with_ngrams(_state(mixer), layer.before))
    return LlamaLayer()


def _attention(mixer: Attention, *, is_window: bool, state: LlamaState | None) -> LlamaLayer:
    keys, values = (Heads(mixer.num_kv_heads, size) for size in (mixer.head_size, mixer.head_size_v))
    if mixer.shares_cache_of is not None:
        # It stores nothing, but the padding without flash attention counts the values of all layers.
        return LlamaLayer(values=values, is_window=is_window)
    if mixer.convolutions is not None or mixer.region_indexer is not None:
        raise UnmodelledLayers("caches of packed convolutions and of regions are not modelled for llama.cpp")
    if mixer.block_indexer is not None:
        indexer = mixer.block_indexer.head_dim
        return LlamaLayer(keys, values, is_window, state, indexer, mixer.head_size_v)
    if mixer.group_indexer is not None:
        return LlamaLayer(keys, values, is_window, state, mixer.group_indexer.head_dim)
    return LlamaLayer(keys, values, is_window, state)


def _indexer_keys(indexer: Indexer | None) -> int:
    if indexer is None:
        return 0
    return indexer.head_dim * (POOLED_PARTS if indexer.group_size > 1 else 1)


def _with_ngrams(state: LlamaState, before: NgramConvolution | None) -> LlamaState:
    if before is None:
        return state
    rows = (before.conv_kernel - 1) * before.dilation
    return replace(state, ngrams=rows * before.channels)


def _state(mixer: Recurrence) -> LlamaState:
    """Return the elements of a state (llama.cpp 0c1e57098, `llama_hparams::n_embd_r` and `n_embd_s`)."""
    if isinstance(mixer, Mamba):
        return LlamaState(
            (mixer.conv_kernel - 1) * mixer.intermediate_size, mixer.state_size * mixer.intermediate_size
        )
    if isinstance(mixer, Mamba2):
        channels = mixer.intermediate_size + 2 * mixer.num_groups * mixer.state_size
        return LlamaState((mixer.conv_kernel - 1) * channels, mixer.state_size * mixer.intermediate_size)
    if isinstance(mixer, GatedDeltaNet):
        inner = mixer.num_value_heads * mixer.value_head_dim
        channels = inner + 2 * mixer.num_key_heads * mixer.key_head_dim
        return LlamaState((mixer.conv_kernel - 1) * channels, mixer.key_head_dim * inner)
    if isinstance(mixer, KimiDeltaAttention | KimiK3DeltaAttention):
        width = mixer.num_heads * mixer.head_dim
        return LlamaState(3 * (mixer.conv_kernel - 1) * width, mixer.head_dim * width)
    if isinstance(mixer, ShortConvolution):
        return LlamaState((mixer.conv_kernel - 1) * mixer.channels, 0)
    if isinstance(mixer, LinearAttention):
        return LlamaState(0, mixer.head_dim * mixer.head_dim * mixer.num_heads)
    raise UnmodelledLayers(f"states of {type(mixer).__name__} are not modelled for llama.cpp")
