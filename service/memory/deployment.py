"""How a model is spread over ranks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from service.architecture.model import ModelArchitecture
from service.memory.modules import Shards

ELEMENT_BYTES: Final[Mapping[str, int]] = {"bfloat16": 2, "float16": 2, "float32": 4}


@dataclass(frozen=True, slots=True)
class Deployment:
    """How the model is spread, and on what."""

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    data_parallel_size: int = 1
    enable_expert_parallel: bool = False
    compute_capability: tuple[int, int] = (9, 0)
    language_model_only: bool = False
    """Leave the towers out."""
    dtype: str | None = None
    """Type the engine runs in; the config's own when ``None``."""

    @property
    def shards(self) -> Shards:
        """How one rank's share follows."""
        experts = self.tensor_parallel_size * self.data_parallel_size if self.enable_expert_parallel else 1
        return Shards(self.tensor_parallel_size, experts)

    def element_bytes(self, architecture: ModelArchitecture) -> int:
        """Return the bytes of one unquantized weight."""
        return ELEMENT_BYTES[self.dtype or architecture.dtype]

    def stages(self, architecture: ModelArchitecture) -> tuple[range, ...]:
        """Return the layers of each pipeline stage."""
        return stage_layers(
            len(architecture.layers), self.pipeline_parallel_size, architecture.attentions_per_layer
        )


def stage_layers(num_layers: int, stages: int, together: int = 1) -> tuple[range, ...]:
    """Deal layers out to pipeline stages, ``together`` of them at a time.

    What does not divide evenly goes to the stages before the last, from behind.
    Source: vLLM 0.24.0, distributed.utils.get_pp_indices.
    """
    units = num_layers // together
    counts = [units // stages * together] * stages
    for extra in range(units % stages):
        counts[-(extra + 2)] += together
    starts = [sum(counts[:stage]) for stage in range(stages)]
    return tuple(range(start, start + count) for start, count in zip(starts, counts, strict=True))
