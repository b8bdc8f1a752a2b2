"""Recipes of decoders that differ in a few choices: biases, norms, windows and experts."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from service.architecture.config import Config
from service.architecture.layers.attention import Attention, AttentionWeights, QueryKeyNorm
from service.architecture.layers.decoder_layer import DecoderLayer, FeedForward
from service.architecture.layers.experts import ExpertWeights, MixtureOfExperts
from service.architecture.layers.feed_forward import DenseFeedForward
from service.architecture.readers.recipes.family import evenly, head_size, num_kv_heads
from service.architecture.readers.recipes.windows import every_layer

Flag: TypeAlias = bool | tuple[str, ...]
"""A constant, or names of boolean fields of which one must be true."""
LAYER_NORM: Final = 2
"""Weights per channel of a normalization with a bias."""


def is_set(text: Config, flag: Flag) -> bool:
    """Return the value of a flag for one config."""
    return flag if isinstance(flag, bool) else any(text.boolean(name) for name in flag)


@dataclass(frozen=True, slots=True)
class Sparse:
    """Names of the fields of routed experts."""

    count: tuple[str, ...] = ("num_experts",)
    per_token: tuple[str, ...] = ("num_experts_per_tok",)
    width: tuple[str, ...] = ("moe_intermediate_size",)
    shared_count: tuple[str, ...] = ()
    """Fields with the number of shared experts, each of a routed expert's width."""
    shared_width: tuple[str, ...] = ()
    """Fields with the width of all shared experts together."""
    router_bias: Flag = False
    router_float32: bool = False
    is_sparse: Callable[[Config, int], bool] = lambda _, __: True
    """Returns whether the layer of an index has experts."""

    def read(self, text: Config) -> MixtureOfExperts:
        """Return the experts of a layer."""
        width = text.integer(*self.width)
        shared = text.integer(*self.shared_width, default=0, minimum=0) if self.shared_width else 0
        if not shared and self.shared_count:
            shared = width * text.count(*self.shared_count, default=0, minimum=0)
        return MixtureOfExperts(
            num_experts=text.count(*self.count),
            experts_per_token=text.count(*self.per_token, default=1),
            intermediate_size=width,
            shared_intermediate_size=shared,
            weights=ExpertWeights(
                router_bias=is_set(text, self.router_bias),
                router_float32=self.router_float32,
            ),
        )


@dataclass(frozen=True, slots=True)
class Decoder:
    """Reads layers that share one description; call it with the text part of a config."""

    qkv_bias: Flag = False
    output_bias: Flag = False
    mlp_bias: Flag = False
    gated: bool = True
    mlp_names: tuple[str, str] = ("up_proj", "down_proj")
    """What the engine calls the projections of a plain network."""
    norms: int = 2
    norm: QueryKeyNorm = QueryKeyNorm.NONE
    """How queries and keys are normalized."""
    norm_if: Flag = True
    """Condition under which they are."""
    windows: Callable[[Config], tuple[int | None, ...]] = every_layer
    window_excludes_itself: bool = False
    """Whether the config's window does not count the query itself."""
    alibi: Flag = False
    sinks: bool = False
    output_gate: bool = False
    own_keys: bool = False
    """Every query head has its own keys and values, even where the config names fewer key heads."""
    even_heads: bool = False
    """The hidden size is split among the heads, whatever ``head_dim`` says."""
    sparse: Sparse | None = None

    def __call__(self, text: Config) -> tuple[DecoderLayer, ...]:
        """Return the layers of one config."""
        mixer = self.attention(text)
        network = self.dense(text)
        return tuple(
            DecoderLayer(
                replace(mixer, sliding_window=window), self._network(text, network, index), self.norms
            )
            for index, window in enumerate(self.windows(text))
        )

    def attention(self, text: Config) -> Attention:
        """Return the attention of all layers, without their windows."""
        size = head_size(evenly(text) if self.even_heads else text)
        return Attention(
            num_heads=text.count("num_attention_heads"),
            num_kv_heads=text.count("num_attention_heads") if self.own_keys else num_kv_heads(text),
            head_size=size,
            head_size_v=size,
            window_excludes_itself=self.window_excludes_itself,
            alibi=is_set(text, self.alibi),
            sinks=self.sinks,
            weights=AttentionWeights(
                output_gate=self.output_gate,
                qkv_bias=is_set(text, self.qkv_bias),
                output_bias=is_set(text, self.output_bias),
                query_key_norm=self.norm if is_set(text, self.norm_if) else QueryKeyNorm.NONE,
            ),
        )

    def dense(self, text: Config) -> DenseFeedForward:
        """Return the feed-forward network of a layer without experts."""
        return DenseFeedForward(
            text.integer("intermediate_size", default=4 * text.integer("hidden_size")),
            gated=self.gated,
            names=self.mlp_names,
            bias=is_set(text, self.mlp_bias),
        )

    def _network(self, text: Config, dense: DenseFeedForward, index: int) -> FeedForward:
        sparse = self.sparse
        if sparse is None or not any(name in text for name in sparse.count):
            return dense
        return sparse.read(text) if sparse.is_sparse(text, index) else dense


def after_dense(text: Config, index: int) -> bool:
    """Return whether a layer comes after the leading dense layers (``first_k_dense_replace``)."""
    first = text.count("first_k_dense_replace", default=0, minimum=0)
    every = (
        text.count("moe_layer_freq", default=1)
        if not isinstance(text.fields.get("moe_layer_freq"), list)
        else 1
    )
    return index >= first and index % every == 0
