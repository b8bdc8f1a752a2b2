"""Answers about a model's architecture: its layers, their order, and what they cache."""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import asdict, replace
from fractions import Fraction
from functools import lru_cache
from itertools import groupby
from typing import Any, Final, Self, TypeVar

from pydantic import Field

from service.application.schemas.base import Output
from service.application.schemas.members import WrittenMember
from service.architecture.layer_kinds import kind_name, kind_of_mixer
from service.architecture.layers.attention import Attention
from service.architecture.layers.decoder_layer import FeedForward, Mixer
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.long_lists import LONG_LISTS
from service.architecture.model import ModelArchitecture
from service.kv_cache.per_token import token_bytes
from service.kv_cache.recurrent_states import state_shape

Part = TypeVar("Part", bound=Hashable)


NO_DIMENSIONS: Final = ("shares_cache_of", "encodes", "gates_by_release")
"""Fields of layers that say what they do, which their kind tells, or how a release builds them."""
ARCHITECTURES: Final = 64
"""Architectures whose JSON is stored."""


class LayerKind(Output):
    """Equal layers, wherever they stand."""

    kind: str = Field(description="What the layers are, such as `full_attention` or `mixture_of_experts`")
    layers: int = Field(description="Number of layers")
    dimensions: dict[str, Any] = Field(
        description="Heads, widths and windows of one layer, by their usual names"
    )


class LayerRun(Output):
    """Equal layers that follow one another."""

    first: int = Field(description="Index of the first layer, counted from 0")
    last: int = Field(description="Index of the last layer, counted from 0")
    attention: int = Field(description="Index of their kind under `attention`, counted from 0")
    feed_forward: int = Field(description="Index of their kind under `feed_forward`, counted from 0")
    state_beside: str | None = Field(
        description="The recurrent mixer that runs in parallel with the attention; null where there is none"
    )
    reads_cache_of: int | None = Field(
        description="Index of the earlier layer whose cache they read, since they keep none of their own; "
        "null where they keep their own"
    )


class CachePerToken(Output):
    """Bytes of one token of a sequence in the cache, on a single rank."""

    bytes: int | float = Field(description="Bytes over all layers while no window is full")
    bytes_beyond_windows: int | float = Field(
        description="Bytes over all layers once windows and chunks are full"
    )


class StateShapes(Output):
    """Shapes of the state that one recurrent layer keeps of a sequence, on a single rank."""

    kind: str = Field(description="What the recurrent layer is, such as `mamba2`")
    layers: int = Field(description="Number of layers")
    convolution: list[int] = Field(
        description="Shape of the convolution state of one layer, tokens and channels; empty without a "
        "convolution"
    )
    recurrent: list[int] = Field(
        description="Shape of the recurrent state of one layer: heads and their matrices, or channels and "
        "their vectors"
    )


class ContextAnswer(Output):
    """Lengths that the config names."""

    key: str | None = Field(
        description="Member of the config that holds the maximum length; null where none does"
    )
    length: int | None = Field(description="The maximum length in tokens; null where the config names none")
    model_max_length: int | None = Field(
        description="The tokenizer's maximum length in tokens; null where it is not known"
    )
    original_length: int | None = Field(
        description="Length in tokens before RoPE scaling; null without scaling"
    )


class QuantizationAnswer(Output):
    """How the checkpoint is quantized."""

    method: str = Field(description="Method of the quantized weights, such as `fp8`")
    bits: int | None = Field(description="Bits of a quantized weight; null where the config does not say")
    group_size: int | None = Field(
        description="Weights that share one scale; null where the config does not say"
    )
    cache_algorithm: str | None = Field(
        description="The cache dtype that the checkpoint asks for; null where it asks for none"
    )


class ArchitectureAnswer(Output):
    """What the config says about the model."""

    class_name: str = Field(description="The model class that the engine loads")
    model_type: str = Field(description="`model_type` of the config")
    dtype: str = Field(description="Dtype of weights and activations")
    hidden_size: int = Field(description="Width of the residual stream, in elements")
    vocab_size: int = Field(description="Number of tokens of the vocabulary")
    num_layers: int = Field(description="Number of layers")
    attention: list[LayerKind] = Field(
        description="Kinds of token mixers, attention or recurrent, the kind of most layers first"
    )
    feed_forward: list[LayerKind] = Field(
        description="Kinds of feed-forward networks, the kind of most layers first"
    )
    context: ContextAnswer = Field(description="Lengths that the config names")
    quantization: QuantizationAnswer | None = Field(
        description="How the checkpoint is quantized; null where it is not"
    )
    tie_word_embeddings: bool = Field(description="Whether the output layer uses the input embeddings")
    multimodal: bool = Field(description="Whether the model also reads images, audio or video")

    @classmethod
    def of(cls, model: ModelArchitecture) -> Self:
        """Summarize an architecture."""
        return cls(**_summary(model))


@LONG_LISTS.emptied
@lru_cache(maxsize=ARCHITECTURES)
def written_architecture(architecture: ModelArchitecture) -> WrittenMember:
    """Return what the config says about a model as JSON, once for all its answers."""
    return WrittenMember(ArchitectureAnswer.of(architecture).model_dump_json())


class ExplainedArchitecture(ArchitectureAnswer):
    """What the config says about the model, layer by layer, and what each token and sequence caches."""

    layers: list[LayerRun] = Field(description="The layers in order; equal neighbours are one entry")
    cache_per_token: dict[str, CachePerToken] = Field(
        description="Bytes of one token by cache dtype, of the dtypes that this kind of attention has; a "
        "release may have fewer"
    )
    states: list[StateShapes] = Field(description="What recurrent layers keep of one sequence, of any length")

    @classmethod
    def of(cls, model: ModelArchitecture) -> Self:
        """Explain an architecture."""
        return cls(
            **_summary(model),
            layers=list(_runs(model)),
            cache_per_token={
                dtype: CachePerToken(bytes=_number(each.first), bytes_beyond_windows=_number(each.later))
                for dtype, each in token_bytes(model).items()
            },
            states=_states(model),
        )


def _summary(model: ModelArchitecture) -> dict[str, Any]:
    quantization = model.quantization
    return {
        "class_name": model.named_class or model.class_name,
        "model_type": model.model_type,
        "dtype": model.dtype,
        "hidden_size": model.hidden_size,
        "vocab_size": model.vocab_size,
        "num_layers": model.num_layers,
        "attention": _kinds(kind_of_mixer(layer.mixer) for layer in model.layers),
        "feed_forward": _kinds((kind_name(layer.feed_forward), layer.feed_forward) for layer in model.layers),
        "context": ContextAnswer.model_validate(model.context),
        "quantization": QuantizationAnswer.model_validate(quantization) if quantization else None,
        "tie_word_embeddings": model.tie_word_embeddings,
        "multimodal": model.multimodal,
    }


def _runs(model: ModelArchitecture) -> Iterator[LayerRun]:
    mixers = _positions(kind_of_mixer(layer.mixer) for layer in model.layers)
    networks = _positions((kind_name(layer.feed_forward), layer.feed_forward) for layer in model.layers)
    alike = groupby(enumerate(model.layers), key=lambda pair: replace(pair[1], norms=0))
    for layer, run in alike:
        indices = [index for index, _ in run]
        yield LayerRun(
            first=indices[0],
            last=indices[-1],
            attention=mixers[kind_of_mixer(layer.mixer)],
            feed_forward=networks[kind_name(layer.feed_forward), layer.feed_forward],
            state_beside=None if layer.beside is None else kind_name(layer.beside),
            reads_cache_of=layer.mixer.shares_cache_of if isinstance(layer.mixer, Attention) else None,
        )


def _positions(parts: Iterable[Part]) -> dict[Part, int]:
    """Return the index of each kind in the list of kinds."""
    return {part: position for position, (part, _) in enumerate(Counter(parts).most_common())}


def _states(model: ModelArchitecture) -> list[StateShapes]:
    return [
        StateShapes(
            kind=kind_name(mixer),
            layers=count,
            convolution=list(state_shape(mixer, 1).convolution),
            recurrent=list(state_shape(mixer, 1).recurrent),
        )
        for mixer, count in Counter(mixer for _, mixer in model.recurrent_layers).most_common()
    ]


def _number(size: Fraction) -> int | float:
    """Return bytes as an integer where they are whole; a compressed token takes a fraction of a byte."""
    return int(size) if size.denominator == 1 else round(float(size), 3)


def _kinds(parts: Iterable[tuple[str, Mixer | FeedForward]]) -> list[LayerKind]:
    return [
        LayerKind(kind=kind, layers=count, dimensions=_dimensions(part))
        for (kind, part), count in Counter(parts).most_common()
    ]


def _with_weights(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a layer's type with those of its weights beside them, at every level."""
    own = fields.pop("weights", {})
    return {
        name: _with_weights(value) if isinstance(value, dict) else value
        for name, value in {**fields, **own}.items()
    }


def _dimensions(part: Mixer | FeedForward) -> dict[str, Any]:
    dimensions = _with_weights(asdict(part))
    for name in NO_DIMENSIONS:
        dimensions.pop(name, None)
    if isinstance(part, MultiHeadLatentAttention):
        dimensions["head_size"] = part.head_size
    return dimensions
