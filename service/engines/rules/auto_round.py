"""Which checkpoints of AutoRound a release takes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AutoRoundRules:
    """Which checkpoints of AutoRound a release takes."""

    types: frozenset[str]
    """Values of AutoRound's data_type that it knows."""
    packings: tuple[str, ...]
    """Values of AutoRound's packing_format that it knows."""
    linear_refusal: str
    """What it says of AutoRound's linear layers packed as GPTQ that Marlin does not take; empty: builds."""
    humming_bits: frozenset[str]
    """Bits of AutoRound's layers that go to the kernels of humming, experts too."""
    block_refusal: str
    """What it says of AutoRound's fp8 without blocks; empty: it does not know the type."""
