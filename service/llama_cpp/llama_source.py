"""LlamaSource: where a model's layers and weights come from: a config with a quantization, or a GGUF file."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from service.engine_plans.engine_question import EngineQuestion
from service.llama_cpp.device_layout import DeviceLayout
from service.llama_cpp.gguf_model import GgufModel
from service.llama_cpp.llama_weights import device_weights
from service.llama_cpp.model_layers import LlamaModel, llama_model
from service.memory.budget_types import Estimate


class LlamaSource(Protocol):
    """A model that the server can load."""

    def model(self) -> LlamaModel:
        """Return its layers.

        Raises:
            NotConverted: llama.cpp has no such model.
            UnmodelledLayers: its caches are not modelled.
        """

    def weights(self, layout: DeviceLayout) -> tuple[Estimate, ...]:
        """Return the weights of each device."""

    def ends(self) -> tuple[int, int]:
        """Return the size of the vocabulary and that of a hidden vector."""

    def words(self) -> Iterator[str]:
        """Yield the words of a command that name it."""

    def note(self) -> str:
        """Return what to know of its weights."""


@dataclass(frozen=True, slots=True)
class CheckpointSource:
    """A model by its config, quantized as a name says."""

    asked: EngineQuestion
    quantization: str

    def model(self) -> LlamaModel:
        """Return its layers."""
        return llama_model(self.asked.model)

    def weights(self, layout: DeviceLayout) -> tuple[Estimate, ...]:
        """Return the weights of each device, by the bits of a weight."""
        return device_weights(self.asked.elements, layout, self.quantization)

    def ends(self) -> tuple[int, int]:
        """Return the size of the vocabulary and that of a hidden vector."""
        return self.asked.model.vocab_size, self.asked.model.hidden_size

    def words(self) -> Iterator[str]:
        """Yield the words of a command that name it."""
        yield from ("-hf", f"{self.asked.model_id}:{self.quantization}")

    def note(self) -> str:
        """Return what to know of its weights."""
        return f"weights as {self.quantization}; `-hf` needs a repository with such a GGUF file"


@dataclass(frozen=True, slots=True)
class FileSource:
    """A model in GGUF's format: a file of this host, or files of a repository."""

    gguf: GgufModel
    name: str
    command: tuple[str, ...]
    """Words of a command that name it."""
    remarks: tuple[str, ...] = ()
    """What else to know of its weights."""

    def model(self) -> LlamaModel:
        """Return its layers."""
        return self.gguf.model

    def weights(self, layout: DeviceLayout) -> tuple[Estimate, ...]:
        """Return the weights of each device, by the tensors of the file."""
        return self.gguf.weights(layout)

    def ends(self) -> tuple[int, int]:
        """Return the size of the vocabulary and that of a hidden vector."""
        return self.gguf.vocab_size, self.gguf.hidden_size

    def words(self) -> Iterator[str]:
        """Yield the words of a command that name it."""
        yield from self.command

    def note(self) -> str:
        """Return what to know of its weights."""
        return "; ".join(("weights by the tensors of the file's header", *self.remarks))
