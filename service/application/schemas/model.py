"""Answers about models."""

from typing import Literal, Self

from pydantic import Field

from service.advisor.plan_request import Model
from service.application.schemas.architecture import ArchitectureAnswer, ExplainedArchitecture
from service.application.schemas.base import Output
from service.hub.checkpoint_weights import Weights


class ModelAnswer(Output):
    """A model and where its config comes from."""

    id: str = Field(description="Id of the model, or the name given beside a config")
    revision: str | None = Field(description="Commit of the Hub; null where it is not known")
    source: Literal["hub", "bundled", "inline"] = Field(
        description="Where the config comes from: the Hub, the bundled snapshot or the request"
    )
    architecture: ArchitectureAnswer = Field(description="What the config says about the model")
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
            stale=model.stale,
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


class ModelList(Output):
    """Ids of bundled models."""

    models: list[str] = Field(description="Ids, sorted")


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
