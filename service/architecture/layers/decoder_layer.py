"""One layer of a decoder: a mixer of tokens and a feed-forward network."""

from dataclasses import dataclass
from typing import TypeAlias

from service.architecture.layers.attention import Attention, NoAttention
from service.architecture.layers.compressed_attention import CompressedAttention
from service.architecture.layers.experts import MixtureOfExperts
from service.architecture.layers.feed_forward import DenseFeedForward, NoFeedForward
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.layers.recurrence import NgramConvolution, Recurrence

TokenMixer: TypeAlias = Attention | MultiHeadLatentAttention | CompressedAttention
"""Mixers that keep something per token."""
Mixer: TypeAlias = TokenMixer | Recurrence | NoAttention
FeedForward: TypeAlias = DenseFeedForward | MixtureOfExperts | NoFeedForward


@dataclass(frozen=True, slots=True)
class SharedBlock:
    """Attention and a network that several layers run in turn, each with adapters of its own (Zamba 2)."""

    owns_weights: bool
    """This layer is the first one to run the block, whose weights count once."""
    adapter_rank: int
    attention_adapters: bool


@dataclass(frozen=True, slots=True)
class DecoderLayer:
    """One block of the decoder: what mixes tokens, and what transforms each."""

    mixer: Mixer
    feed_forward: FeedForward
    norms: int = 2
    """Normalization weights of the hidden size."""
    beside: Recurrence | None = None
    """What mixes tokens in parallel to the attention (Falcon-H1)."""
    before: NgramConvolution | None = None
    """What the last few tokens together add before the mixer (Qwen4 Exp)."""
    mixer_name: str = ""
    """The mixer's module in checkpoints, where it is not called after its kind."""
    feed_forward_name: str = "mlp"
    shared: SharedBlock | None = None
    """Attention and network are those of a block that other layers run too."""
    repeats: bool = False
    """An earlier layer runs once more: the cache is its own, the weights are not (looped models)."""
