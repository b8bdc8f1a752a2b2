"""Models as they are answered."""

from typing import Literal, Self

from pydantic import Field

from service.advisor.plan_request import Model
from service.application.schemas.architecture import ArchitectureAnswer, ExplainedArchitecture
from service.application.schemas.base import Output
from service.hub.checkpoint_weights import Weights


class ModelAnswer(Output):
    """A model and where its config comes from."""

    id: str
    revision: str | None = Field(description="Commit, where known")
    source: Literal["hub", "bundled", "inline"]
    architecture: ArchitectureAnswer
    checkpoint_bytes: int | None
    note: str | None
    stale: bool = Field(description="The Hub could not be asked anew: this is what it said within a day")

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

    architecture: ExplainedArchitecture

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

    models: list[str]


class ModelWeightsAnswer(Output):
    """What the headers of a model's files of weights tell."""

    id: str
    revision: str = Field(description="Commit")
    files: list[str] = Field(description="The files that hold the weights")
    files_read: int = Field(description="How many headers were read; ask again to go on where this ended")
    tensors: int
    total_bytes: int = Field(description="Of the files that were read")
    bytes_by_dtype: dict[str, int]
    parameters_by_dtype: dict[str, int] = Field(
        description="Elements as stored: packed ones are not unpacked"
    )
    note: str | None

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
