"""Answers about models."""

from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import Field

from service.advisor.request.plan_request import Model
from service.application.catalogs.model_catalog import BundledModel
from service.application.schemas.answers.architecture import (
    ArchitectureAnswer,
    ExplainedArchitecture,
    written_architecture,
)
from service.application.schemas.base import Output
from service.application.schemas.members import From, WrittenMember
from service.hub.checkpoint_weights import Weights


def _architecture(model: Model) -> WrittenMember:
    return written_architecture(model.architecture)


class ModelAnswer(Output):
    """A model and where its config comes from."""

    id: str = Field(description="Id of the model, or the name given with a config")
    revision: str | None = Field(description="Commit of the Hub; null where it is not known")
    source: Literal["hub", "bundled", "inline"] = Field(
        description="Where the config comes from: the Hub, the bundled snapshot or the request"
    )
    architecture: Annotated[ArchitectureAnswer, From(_architecture)] = Field(
        description="What the config says about the model"
    )
    checkpoint_bytes: int | None = Field(
        description="Bytes of all tensors of the checkpoint; null where that is not known"
    )
    note: str | None = Field(
        description="What a person should know about where the config comes from; null where there is "
        "nothing to say"
    )
    stale: bool = Field(
        description="Whether the Hub could not be reached and an answer of at most a day ago is used in its "
        "place"
    )


class ExplainedModel(ModelAnswer):
    """A model with its layers in order."""

    architecture: ExplainedArchitecture = Field(
        description="What the config says about the model, with its layers in order"
    )

    @classmethod
    def of(cls, model: Model) -> Self:
        """Explain a model that was read."""
        return cls(
            id=model.id,
            revision=model.revision,
            source=model.source,
            architecture=ExplainedArchitecture.of(model.architecture),
            checkpoint_bytes=model.checkpoint_bytes,
            note=model.note,
            stale=model.stale,
        )


class ModelVariantAnswer(Output):
    """A published checkpoint of a bundled model with quantized weights."""

    id: str = Field(description="Id of the checkpoint")
    format: str = Field(
        description="What the end of its name says of its weights, such as `awq` or `fp8-dynamic`; empty "
        "where it says nothing"
    )
    quantization: str | None = Field(
        description="Method of its weights, by the engine's name; null where its name tells none"
    )
    weight_bytes: int | None = Field(description="Bytes of all its weights; null where nothing tells it")
    is_computed: bool = Field(
        description="Whether the bytes are computed from a config, to a few percent; otherwise they are "
        "those of its files"
    )
    is_bundled: bool = Field(
        description="Whether its own config is bundled, so that it is planned without the Hub; otherwise the "
        "layout that its name stands for is taken"
    )
    source: str | None = Field(description="Where it is named publicly; null where its config is bundled")


class BundledModelAnswer(Output):
    """A bundled model, in short."""

    id: str = Field(description="Id of the model")
    architecture: str = Field(description="Its architecture class, as the config names it")
    parameters: int | None = Field(
        description="Number of its weights, before quantization: the Hub's count, or else computed from the "
        "config; null where neither is known"
    )
    dtype: str | None = Field(
        description="Dtype of activations, and of weights that are not quantized; null where the config "
        "cannot be read"
    )
    quantization: str | None = Field(
        description="Method of its quantized weights, by the engine's name; where its config names none, "
        "what it says of them, such as `4 bits`; null where they are not quantized"
    )
    siblings: list[str] = Field(
        description="Ids of bundled quantized checkpoints of the same model, by their names"
    )
    weight_bytes: int | None = Field(
        description="Bytes of all its weights: of its files where these are known, else computed from the "
        "config; null where neither is known"
    )
    variants: list[ModelVariantAnswer] = Field(
        description="Published quantized checkpoints of the same model, bundled or not, the least published "
        "loss of accuracy first"
    )
    unmodelled: str | None = Field(description="Why it cannot be planned; null where it can")


class ModelList(Output):
    """Bundled models."""

    models: list[str] = Field(description="Ids, sorted")
    details: list[BundledModelAnswer] = Field(
        description="The same models in the same order, with size, class and quantization"
    )
    next: str | None = Field(description="Value of `after` for the next page; null on the last page")

    @classmethod
    def of(cls, found: Iterable[BundledModel], following: str | None) -> Self:
        """List the models of a page; ``following``: the value of `after` for the next page."""
        details = [BundledModelAnswer.model_validate(each) for each in found]
        return cls(models=[each.id for each in details], details=details, next=following)


class ModelWeightsAnswer(Output):
    """What the headers of a model's weight files say."""

    id: str = Field(description="Id of the model")
    revision: str = Field(description="Commit of the Hub")
    files: list[str] = Field(description="Files that hold the weights, each tensor once")
    files_read: int = Field(
        description="Number of files whose headers were read; repeat the request to read the rest"
    )
    tensors: int = Field(description="Number of tensors in the files that were read")
    total_bytes: int = Field(description="Bytes of the tensors in the files that were read")
    bytes_by_dtype: dict[str, int] = Field(description="Bytes of tensors by dtype")
    parameters_by_dtype: dict[str, int] = Field(
        description="Elements of tensors by dtype, as stored: packed elements are not unpacked"
    )
    note: str | None = Field(description="Why not all files were read; null where all were")

    @classmethod
    def of(cls, model_id: str, revision: str, weights: Weights) -> Self:
        """Describe weights whose headers were read."""
        return cls(
            id=model_id,
            revision=revision,
            files=list(weights.files),
            files_read=weights.read,
            tensors=weights.tensors.count,
            total_bytes=weights.tensors.total_bytes,
            bytes_by_dtype=dict(weights.tensors.stored_bytes),
            parameters_by_dtype=dict(weights.tensors.parameters),
            note=weights.fault,
        )
