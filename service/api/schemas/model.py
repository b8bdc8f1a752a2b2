"""Models as they are answered."""

from typing import Literal, Self

from pydantic import Field

from service.advisor.request import Model
from service.api.schemas.architecture import ArchitectureAnswer, ExplainedArchitecture
from service.api.schemas.model_config import Output


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
