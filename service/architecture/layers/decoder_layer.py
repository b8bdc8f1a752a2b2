"""One layer of a decoder: a mixer of tokens and a feed-forward network."""

from dataclasses import dataclass, field, fields
from typing import TypeAlias

from service.architecture.layers.attention import Attention, NoAttention
from service.architecture.layers.compressed_attention import CompressedAttention
from service.architecture.layers.experts import MixtureOfExperts
from service.architecture.layers.feed_forward import DenseFeedForward, NoFeedForward
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.layers.ngram_lookup import NgramLookup
from service.architecture.layers.recurrence import NgramConvolution, Recurrence

TokenMixer: TypeAlias = Attention | MultiHeadLatentAttention | CompressedAttention
"""Mixers that cache something for each token."""
Mixer: TypeAlias = TokenMixer | Recurrence | NoAttention
FeedForward: TypeAlias = DenseFeedForward | MixtureOfExperts | NoFeedForward


@dataclass(frozen=True, slots=True)
class SharedBlock:
    """Attention and a network that several layers share, each with its own adapters (Zamba 2)."""

    owns_weights: bool
    """This layer is the first one that runs the block; its weights count once."""
    adapter_rank: int
    attention_adapters: bool


@dataclass(frozen=True, slots=True)
class DecoderLayer:
    """One layer of the decoder: a mixer of tokens, and a network for each token."""

    mixer: Mixer
    feed_forward: FeedForward
    norms: int = 2
    """Normalization vectors of the hidden size."""
    beside: Recurrence | None = None
    """A recurrent mixer that runs in parallel to the attention (Falcon-H1)."""
    before: NgramConvolution | None = None
    """A convolution over n-gram embeddings that runs before the mixer (Qwen4 Exp)."""
    ngrams: NgramLookup | None = None
    """Embeddings of n-grams that are added before the mixer (DeepSeek V4.1)."""
    mixer_name: str = ""
    """Name of the mixer's module in checkpoints; empty is the usual name of its type."""
    feed_forward_name: str = "mlp"
    shared: SharedBlock | None = None
    """Set where attention and network belong to a block that other layers run too."""
    repeats: bool = False
    """An earlier layer runs once more, with its own cache and the earlier layer's weights (looped models)."""
    _hash: int | None = field(default=None, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        # Computed once: layers are keys of dictionaries, and hashing all their fields takes microseconds.
        known = self._hash
        if known is None:
            known = hash(tuple(getattr(self, each.name) for each in fields(self) if each.compare))
            object.__setattr__(self, "_hash", known)
        return known
