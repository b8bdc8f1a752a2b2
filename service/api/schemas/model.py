"""Models as they are answered."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any, Literal, Self

from pydantic import Field

from service.advisor.request import Model
from service.api.schemas.model_config import Output
from service.architecture.layers import Attention, FeedForward, LatentAttention, Mixer
from service.architecture.model import ModelArchitecture


class LayerKind(Output):
    """Layers that are alike."""

    kind: str
    layers: int
    dimensions: dict[str, Any] = Field(description="Heads, widths and windows, by the field's usual names")


class ContextAnswer(Output):
    """The lengths that the config names."""

    key: str | None
    length: int | None
    model_max_length: int | None
    original_length: int | None


class QuantizationAnswer(Output):
    """How the checkpoint is quantized."""

    method: str
    bits: int | None
    group_size: int | None
    cache_algorithm: str | None = Field(description="The cache format that the checkpoint names")


class ArchitectureAnswer(Output):
    """What the config says of the model."""

    class_name: str
    model_type: str
    dtype: str
    hidden_size: int
    vocab_size: int
    num_layers: int
    attention: list[LayerKind] = Field(description="What mixes tokens, most layers first")
    feed_forward: list[LayerKind]
    context: ContextAnswer
    quantization: QuantizationAnswer | None
    tie_word_embeddings: bool
    multimodal: bool

    @classmethod
    def of(cls, model: ModelArchitecture) -> Self:
        """Summarize an architecture."""
        quantization = model.quantization
        return cls(
            class_name=model.class_name,
            model_type=model.model_type,
            dtype=model.dtype,
            hidden_size=model.hidden_size,
            vocab_size=model.vocab_size,
            num_layers=len(model.layers),
            attention=_kinds(_mixer(layer.mixer) for layer in model.layers),
            feed_forward=_kinds((_name(layer.feed_forward), layer.feed_forward) for layer in model.layers),
            context=ContextAnswer.model_validate(model.context),
            quantization=QuantizationAnswer.model_validate(quantization) if quantization else None,
            tie_word_embeddings=model.tie_word_embeddings,
            multimodal=model.multimodal,
        )


def _mixer(mixer: Mixer) -> tuple[str, Mixer]:
    if not isinstance(mixer, Attention):
        return _name(mixer), mixer
    window = "full_attention" if mixer.sliding_window is None else "sliding_window"
    if mixer.shares_cache_of is None:
        return window, mixer
    # Which earlier layer is read does not make layers differ.
    return f"{window}_shared_cache", replace(mixer, shares_cache_of=None)


def _name(part: Mixer | FeedForward) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(part).__name__).lower()


def _kinds(parts: Iterable[tuple[str, Mixer | FeedForward]]) -> list[LayerKind]:
    return [
        LayerKind(kind=kind, layers=count, dimensions=_dimensions(part))
        for (kind, part), count in Counter(parts).most_common()
    ]


def _dimensions(part: Mixer | FeedForward) -> dict[str, Any]:
    dimensions = asdict(part)
    dimensions.pop("shares_cache_of", None)
    if isinstance(part, LatentAttention):
        dimensions["head_size"] = part.head_size
    return dimensions


class ModelAnswer(Output):
    """A model and where its config comes from."""

    id: str
    revision: str | None = Field(description="Commit, where known")
    source: Literal["hub", "bundled", "inline"]
    architecture: ArchitectureAnswer
    checkpoint_bytes: int | None
    note: str | None

    @classmethod
    def of(cls, model: Model) -> Self:
        """Describe a model that was read."""
        return cls(
            id=model.id,
            revision=model.revision,
            source=model.source,
            architecture=ArchitectureAnswer.of(model.architecture),
            checkpoint_bytes=model.checkpoint_bytes,
            note=model.note,
        )


class ModelList(Output):
    """Ids of bundled models."""

    models: list[str]
