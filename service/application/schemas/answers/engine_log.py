"""What a startup log says of an engine beside vLLM."""

from typing import Self

from pydantic import Field

from service.application.schemas.base import Output
from service.engines_compared.engine_logs import EngineLog


class EngineLineAnswer(Output):
    """One line that says something of a cache."""

    number: int = Field(description="Number of the line in the log, from 1")
    name: str = Field(description="What the line is about, such as `pool`")
    says: str = Field(description="What it says, in a sentence")


class EngineConclusionAnswer(Output):
    """A figure that follows from lines of a log."""

    name: str = Field(description="Name of the figure, as in a plan of the engine")
    value: int = Field(description="Its value in `unit`, such as tokens or bytes")
    unit: str = Field(description="Unit of the value")
    because: str = Field(description="How it follows from the lines")


class EngineLogAnswer(Output):
    """The lines of an engine beside vLLM, and what follows from them."""

    engine: str = Field(description="Name of the engine whose lines these are")
    lines: list[EngineLineAnswer] = Field(description="Lines about its caches, in the order of the log")
    conclusions: list[EngineConclusionAnswer] = Field(description="What follows from them")

    @classmethod
    def of(cls, log: EngineLog) -> Self:
        """Describe a log."""
        return cls(
            engine=log.engine,
            lines=[EngineLineAnswer.model_validate(each) for each in log.lines],
            conclusions=[EngineConclusionAnswer.model_validate(each) for each in log.conclusions],
        )
