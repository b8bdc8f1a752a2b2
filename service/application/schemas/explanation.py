"""A log to explain, and its explanation."""

from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field

from service.advisor.plan_request import PlanRequest
from service.advisor.plan_types import Verdict
from service.application.schemas.base import Input, Output
from service.application.schemas.plan import EngineAnswer, ErrorAnswer
from service.application.schemas.question import (
    MAX_PATCHES,
    GpuChoice,
    GpuId,
    ModelId,
    Revision,
)
from service.application.schemas.serve import FlagsInput, Name, ServeInput
from service.calibration.from_logs import StoredLog
from service.explanation.explanation_types import Agreement, CauseBasis, Explanation
from service.startup_log.lines import MAX_CHARACTERS


class LoggedEngineInput(Input):
    """The engine that wrote the log."""

    version: Name | None = Field(default=None, description="Left out: as the log says")
    patches: Annotated[list[Name], Field(max_length=MAX_PATCHES)] = Field(default_factory=list)


class ExplainBody(Input):
    """A startup log. What it does not tell can be told beside it, and wins over what it does."""

    log: Annotated[str, Field(max_length=MAX_CHARACTERS)] = Field(
        description="What the engine printed, whole or in part; of several starts the last is explained"
    )
    model: ModelId | None = Field(default=None, description="Hub id; left out: as the log says")
    revision: Revision | None = Field(default=None, description="Branch, tag or commit")
    config: dict[str, Any] | None = Field(default=None, description="A config.json; wins over the model's")
    draft_config: dict[str, Any] | None = Field(
        default=None, description="A config.json of the draft that `serve.speculative_config.model` names"
    )
    engine: LoggedEngineInput = Field(default_factory=LoggedEngineInput)
    gpu: GpuChoice | None = Field(
        default=None, description="Id of the GPU type or a GPU of your own; left out: as the log says"
    )
    serve: ServeInput = Field(default_factory=ServeInput, description="Flags that the log does not tell")
    keep: bool = Field(
        default=False,
        description="Keep its figures, never its text, as evidence for later plans: for operators alone",
    )


class ExplainParameters(FlagsInput):
    """What is told beside a log, as flat parameters of a command line."""

    model_config = ConfigDict(strict=False)

    model: ModelId | None = Field(default=None, description="Hub id; left out: as the log says")
    revision: Revision | None = Field(default=None, description="Branch, tag or commit")
    gpu: GpuId | None = Field(default=None, description="Id of the GPU type; left out: as the log says")
    engine_version: Name | None = Field(default=None, description="Left out: as the log says")
    patch: Annotated[list[Name], Field(max_length=MAX_PATCHES)] | None = Field(
        default=None, description="Unreleased pull request on top, repeatable"
    )

    def document(self) -> dict[str, Any]:
        """Return the same as the body of a POST, without the log."""
        specified = self.model_dump(exclude_none=True)
        engine = {"version": specified.pop("engine_version", None), "patches": specified.pop("patch", [])}
        own: dict[str, Any] = {
            name: specified.pop(name) for name in ("model", "revision", "gpu") if name in specified
        }
        return {**own, "engine": engine, "serve": specified, "log": ""}


class ReadingAnswer(Output):
    """One value that the engine logged."""

    name: str
    value: float | str
    line: int


class LogAnswer(Output):
    """What the log says."""

    lines: int
    release: str | None
    model: str | None
    milestone: str = Field(description="The last point that the start reached; empty before the first")
    readings: list[ReadingAnswer] = Field(description="Of several ranks' values the one that counts")


class PlannedStartAnswer(Output):
    """The start that was planned beside the log."""

    model: str
    engine: EngineAnswer
    gpu: str
    command: str

    @classmethod
    def of(cls, request: PlanRequest, command: str) -> Self:
        """Describe the start of a question."""
        return cls(
            model=request.model.id,
            engine=EngineAnswer.model_validate(request.engine),
            gpu=request.gpus[0].id,
            command=command,
        )


class AssumptionAnswer(Output):
    """What the log does not tell: the request's `field` would."""

    field: str
    taken: str
    why: str


class FindingAnswer(Output):
    """One line of the log beside the plan."""

    name: str
    line: int = Field(description="Counted from 1 in the log")
    logged: float | str
    planned: float | str | None
    low: float | None = Field(description="Least value that the plan allows")
    high: float | None
    agreement: Agreement
    why: str


class FixAnswer(Output):
    """A change that was planned, and that gets past the failure."""

    words: str
    verdict: Verdict
    tokens: int | None
    max_concurrency: float | None
    command: str


class EndingAnswer(Output):
    """Why the start failed."""

    cause: str | None = Field(description="A name to tell causes by")
    basis: CauseBasis
    stage: str
    type: str
    message: str = Field(description="The engine's own words")
    line: int
    reached: str
    means: str
    remedy: str
    source: str
    planned: ErrorAnswer | None = Field(description="What the plan refuses with, where it refuses too")
    foreseen: bool | None = Field(description="Whether the plan refuses for the same reason")
    fixes: list[FixAnswer] = Field(description="Each was planned, with the logged memory where it holds")


class StoredLogAnswer(Output):
    """What became of the log as evidence for later plans."""

    digest: str | None = Field(description="Of its figures and of the start they are of; null if not kept")
    new: bool = Field(description="The same figures of the same start were not there yet")
    why: str = Field(description="Why it is not kept, or why nothing is learned from it; empty otherwise")


class ExplanationAnswer(Output):
    """The whole answer."""

    log: LogAnswer
    start: PlannedStartAnswer | None = Field(description="None where too little is known to plan one")
    verdict: Verdict | None = Field(description="Of the planned start, with the memory that the log tells")
    assumptions: list[AssumptionAnswer]
    missing: list[AssumptionAnswer] = Field(description="What kept the start from being planned")
    findings: list[FindingAnswer]
    ending: EndingAnswer | None = Field(description="None for a start that the log does not see fail")
    unmodelled: list[str] = Field(description="Flags of the start that no plan heeds and that matter")
    notes: list[str]
    kept: StoredLogAnswer | None = Field(description="None unless `keep` asked for it")

    @classmethod
    def of(cls, explanation: Explanation, kept: StoredLog | None = None) -> Self:
        """Read an explanation off the core's values."""
        log = explanation.log
        return cls(
            log=LogAnswer(
                lines=log.lines,
                release=log.release,
                model=log.model,
                milestone=log.milestone,
                readings=[ReadingAnswer.model_validate(each) for each in log.named.values()],
            ),
            start=_start(explanation),
            verdict=explanation.verdict,
            assumptions=[AssumptionAnswer.model_validate(each) for each in explanation.assumptions],
            missing=[AssumptionAnswer.model_validate(each) for each in explanation.missing],
            findings=[FindingAnswer.model_validate(each) for each in explanation.findings],
            ending=None if explanation.ending is None else EndingAnswer.model_validate(explanation.ending),
            unmodelled=list(explanation.unmodelled),
            notes=list(explanation.notes),
            kept=None if kept is None else StoredLogAnswer.model_validate(kept),
        )


def _start(explanation: Explanation) -> PlannedStartAnswer | None:
    if explanation.request is None or explanation.command is None:
        return None
    return PlannedStartAnswer.of(explanation.request, explanation.command)
