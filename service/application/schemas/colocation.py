"""Several engines on one GPU: what is asked, and the answer."""

from typing import Annotated, Final, Self

from pydantic import Field

from service.advisor.candidates.verdict import Verdict
from service.advisor.colocation import Colocation, SharedEngine
from service.application.schemas.answers.candidate import CandidateAnswer
from service.application.schemas.answers.hardware import PlannedGpuAnswer
from service.application.schemas.answers.plan import EngineAnswer
from service.application.schemas.base import Input, Output
from service.application.schemas.plain_values import answer_of
from service.application.schemas.requests.gpu_choice import GpuChoice
from service.application.schemas.requests.plan_body import MAX_COMMAND, PlanBody
from service.memory.budget_types import Estimate

MAX_ENGINES: Final = 8
"""Engines of one request."""


class ColocationBody(Input):
    """Several starts that share GPUs, in the order in which they start."""

    gpu: GpuChoice = Field(description="The GPU type, as in a plan")
    command: Annotated[str, Field(min_length=1, max_length=MAX_COMMAND)] | None = Field(
        default=None,
        description="Starts of the engine in one text: a script, a Compose file, several commands. They are "
        "planned in the order in which they are written; left out: `engines` says them",
    )
    engines: Annotated[list[PlanBody], Field(min_length=1, max_length=MAX_ENGINES)] | None = Field(
        default=None,
        description="The same starts as bodies of plans, without `gpus`; left out: `command` says them",
    )
    version: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        default=None,
        description="Release of the starts of `command`; left out: what each image or requirement says, or "
        "the newest",
    )


class IntervalAnswer(Output):
    """Bytes with their 10th and 90th percentile."""

    bytes: int = Field(description="The middle of the interval, in bytes")
    low: int = Field(description="The 10th percentile, in bytes")
    high: int = Field(description="The 90th percentile, in bytes")

    @classmethod
    def of(cls, estimate: Estimate | None) -> Self | None:
        """Read an interval; ``None`` for none."""
        return None if estimate is None else cls.model_validate(estimate)


class SharedEngineAnswer(Output):
    """One engine, planned with what the engines before it left free."""

    model: str = Field(description="Id of the model")
    engine: EngineAnswer = Field(description="The release that was planned")
    devices: list[str] = Field(description="GPUs that it takes, by index or UUID")
    beside: list[int] = Field(
        description="Places in this list, counted from 0, of the engines that hold memory of its GPUs when "
        "it starts"
    )
    free: IntervalAnswer | None = Field(
        description="Bytes that it finds free; null where the start fails before memory is read"
    )
    held: IntervalAnswer | None = Field(
        description="Bytes that it holds of each of its GPUs, from when it is ready (`bytes`) to full load "
        "(`high`); null where it does not start"
    )
    candidate: CandidateAnswer = Field(description="The start, as in a plan")
    notes: list[str] = Field(description="How its command was read")


class ColocationAnswer(Output):
    """What several engines on the same GPUs do, one started after another."""

    verdict: Verdict = Field(description="Whether all of them start, and whether that is certain")
    gpu: PlannedGpuAnswer = Field(description="The GPU type")
    engines: list[SharedEngineAnswer] = Field(description="The engines in their order")
    warnings: list[str] = Field(
        description="Shares with which all engines start, where they do not; what can go wrong between them"
    )

    @classmethod
    def of(cls, shared: Colocation) -> Self:
        """Read the engines from the core's values."""
        return cls(
            verdict=shared.verdict,
            gpu=PlannedGpuAnswer.model_validate(shared.gpu),
            engines=[_engine(each) for each in shared.engines],
            warnings=list(shared.warnings),
        )


def _engine(shared: SharedEngine) -> SharedEngineAnswer:
    command = shared.request.command
    return SharedEngineAnswer(
        model=shared.request.model.id,
        engine=EngineAnswer.model_validate(shared.request.engine),
        devices=list(shared.devices),
        beside=list(shared.beside),
        free=IntervalAnswer.of(shared.free),
        held=IntervalAnswer.of(shared.held),
        candidate=answer_of(CandidateAnswer, shared.candidate),
        notes=[] if command is None else list(command.notes),
    )
