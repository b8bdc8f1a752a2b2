"""The rank whose weights are counted."""

from dataclasses import dataclass

from service.memory.shards import Shards


@dataclass(frozen=True, slots=True)
class WeightStage:
    """The rank of a pipeline stage whose weights are counted."""

    shards: Shards
    layers: range
    sequences: int
    """Requests that may run at once."""
    turboquant_layers: frozenset[int] = frozenset()
    """Numbers of the model's layers whose cache is in a TurboQuant type."""
    batch_tokens: int = 0
    """Tokens of the longest scheduler step."""
    encodes: bool = False
    """The stage has encoders."""
    compute_capability: tuple[int, int] = (9, 0)
