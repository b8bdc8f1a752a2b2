"""How a model is spread over ranks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from service.architecture.model import ModelArchitecture
from service.architecture.pipeline import model_stages
from service.memory.weights.modules import Shards

ELEMENT_BYTES: Final[Mapping[str, int]] = {"bfloat16": 2, "float16": 2, "float32": 4}


@dataclass(frozen=True, slots=True)
class Parallelism:
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
        return Shards(self.tensor_parallel_size, experts, self.data_parallel_size)

    def element_bytes(self, architecture: ModelArchitecture) -> int:
        """Return the bytes of one unquantized weight."""
        return ELEMENT_BYTES[self.dtype or architecture.dtype]

    def stages(self, architecture: ModelArchitecture) -> tuple[range, ...]:
        """Return the layers of each pipeline stage."""
        return model_stages(architecture, self.pipeline_parallel_size)
