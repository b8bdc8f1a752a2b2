"""Feed-forward networks without routing."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DenseFeedForward:
    """A gated or plain feed-forward network."""

    intermediate_size: int
    gated: bool = True
    bias: bool = False
    output_bias: bool = False
    """Only the last projection has a bias."""
    names: tuple[str, str] = ("up_proj", "down_proj")
    """What the engine calls the projections of a plain network."""
    gates_by_release: bool = False
    """Older releases have its first matrix in full on every rank (ModernBERT)."""


@dataclass(frozen=True, slots=True)
class NoFeedForward:
    """A layer whose feed-forward network was pruned (Nemotron-NAS)."""
