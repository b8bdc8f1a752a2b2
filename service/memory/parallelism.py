"""How a model is distributed over ranks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from service.architecture.model import ModelArchitecture
from service.architecture.pipeline import model_stages
from service.memory.media_choices import ALL_MEDIA, MediaChoices
from service.memory.shards import Shards

ELEMENT_BYTES: Final[Mapping[str, int]] = {"bfloat16": 2, "float16": 2, "float32": 4}


@dataclass(frozen=True, slots=True)
class Parallelism:
    """The parallel sizes, and what else decides which weights a rank has."""

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    data_parallel_size: int = 1
    enable_expert_parallel: bool = False
    compute_capability: tuple[int, int] = (9, 0)
    language_model_only: bool = False
    """The engine does not build the towers."""
    spare_experts: int = 0
    """Experts that all ranks together store beside the model's own."""
    media: MediaChoices = ALL_MEDIA
    whole_encoders: bool = False
    """Each rank has whole towers, not a part of each."""
    dtype: str | None = None
    """The model's dtype in the engine; ``None``: the config's."""

    @property
    def shards(self) -> Shards:
        """The sizes by which modules are split over ranks."""
        experts = self.tensor_parallel_size * self.data_parallel_size if self.enable_expert_parallel else 1
        spare = self.spare_experts if self.enable_expert_parallel else 0
        return Shards(self.tensor_parallel_size, experts, self.data_parallel_size, spare)

    def element_bytes(self, architecture: ModelArchitecture) -> int:
        """Return the bytes of one unquantized weight."""
        return ELEMENT_BYTES[self.dtype or architecture.dtype]

    def stages(self, architecture: ModelArchitecture) -> tuple[range, ...]:
        """Return the layers of each pipeline stage."""
        return model_stages(architecture, self.pipeline_parallel_size)
