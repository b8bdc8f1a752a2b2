"""Requests to explain a log, and the explanation."""

from typing import Annotated, Any, Final, Self

from pydantic import ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from service.advisor.candidates.verdict import Verdict
from service.advisor.request.plan_request import PlanRequest
from service.application.schemas.answers.engine_log import EngineLogAnswer
from service.application.schemas.answers.plan import EngineAnswer
from service.application.schemas.answers.refusal import ErrorAnswer, FixAnswer
from service.application.schemas.base import Input, Output, optional
from service.application.schemas.flags.flag_types import Name
from service.application.schemas.flags.flags import FlagsInput
from service.application.schemas.flags.serve import ServeInput
from service.application.schemas.requests.gpu_choice import GpuChoice
from service.application.schemas.requests.plan_body import MAX_PATCHES, ModelId, Revision
from service.application.schemas.requests.plan_parameters import GpuTexts
from service.application.schemas.requests.renamed import gpu_choices
from service.calibration.from_logs import StoredLog
from service.engines_compared.engine_logs import EngineLog
from service.explanation.explanation_types import Agreement, CauseBasis, Explanation

MAX_LOG: Final = 4 << 20
"""Characters of a log in JSON."""


class LoggedEngineInput(Input):
    """The engine that wrote the log."""

    version: Name | None = Field(
        default=None, description="Release that wrote the log; left out: as the log says"
    )
    patches: Annotated[list[Name], Field(max_length=MAX_PATCHES)] = Field(
        default_factory=list, description="Pull requests that were laid over the release"
    )


class ExplainBody(Input):
    """A startup log, and what it does not say. What is given with it replaces what it says."""

    log: Annotated[str, Field(max_length=MAX_LOG)] = Field(
        description="What the engine printed, whole or in part; of several starts the last is explained, and "
        "an earlier one that failed if the last did not. A log of up to 64 MiB can be the whole body of the "
        "request, as `text/plain`"
    )
    model: ModelId | None = Field(default=None, description="Id on the Hub; left out: as the log says")
    revision: Revision | None = Field(
        default=None, description="Branch, tag or commit of the model; left out: its main branch"
    )
    config: dict[str, Any] | None = Field(
        default=None, description="A config.json, used in place of the model's own; left out: the model's own"
    )
    draft_config: dict[str, Any] | None = Field(
        default=None,
        description="The config.json of the draft model that `serve.speculative_config.model` names; left "
        "out: the draft model's own",
    )
    engine: LoggedEngineInput = Field(
        default_factory=LoggedEngineInput, description="The release that wrote the log"
    )
    gpu: GpuChoice | None = Field(
        default=None, description="Id of the GPU type or a GPU of your own; left out: as the log says"
    )
    serve: ServeInput = Field(default_factory=ServeInput, description="Flags that the log does not say")
    keep: bool = Field(
        default=False,
        description="Store its figures, never its text, as evidence for later plans; needs an operator's "
        "token",
    )


class ExplainParameters(FlagsInput):
    """What is given beside a log, as flat parameters of a command line."""

    model_config = ConfigDict(strict=False)

    model: ModelId | None = Field(default=None, description="Id on the Hub; left out: as the log says")
    revision: Revision | None = Field(
        default=None, description="Branch, tag or commit of the model; left out: its main branch"
    )
    gpu: GpuTexts | None = Field(
        default=None,
        description="GPU type by id or name, or name=my-card,memory=40GiB,cc=8.0; left out: as the log says",
    )
    engine_version: Name | None = Field(
        default=None, description="Release that wrote the log; left out: as the log says"
    )
    patch: Annotated[list[Name], Field(max_length=MAX_PATCHES)] | None = Field(
        default=None, description="Pull request laid over the release, repeatable; left out: none"
    )

    def document(self) -> dict[str, Any]:
        """Return the same as the body of a POST, without the log."""
        specified = self.model_dump(exclude_none=True)
        engine = {"version": specified.pop("engine_version", None), "patches": specified.pop("patch", [])}
        own: dict[str, Any] = {
            name: specified.pop(name) for name in ("model", "revision", "gpu") if name in specified
        }
        if "gpu" in own:
            own["gpu"] = gpu_choices([own["gpu"]])[0]
        return {**own, "engine": engine, "serve": specified, "log": ""}


class ReadingAnswer(Output):
    """One value that the engine logged."""

    name: str = Field(description="What the value is, by the names that findings use")
    value: float | str = Field(description="The value in the log's own unit, or its words")
    line: int = Field(description="Line of the log, counted from 1")


class LogAnswer(Output):
    """What the log says."""

    lines: int = Field(description="Number of lines of the log")
    release: str | None = Field(description="The release that the log names; null where it names none")
    model: str | None = Field(description="The model that the log names; null where it names none")
    starts: int = Field(description="Number of starts that the log holds")
    newest_first: bool = Field(description="Whether the log was read in reverse, its newest line being first")
    unread_lines: int = Field(
        description="Number of lines in the middle of a long log that were searched for failures alone"
    )
    milestone: str = Field(description="The last step that the start reached; empty before the first")
    readings: list[ReadingAnswer] = Field(
        description="Values that the engine logged; where ranks log different values, the one that decides"
    )


class PlannedStartAnswer(Output):
    """The start that was planned for the log."""

    model: str = Field(description="Id of the model")
    engine: EngineAnswer = Field(description="The release that was planned")
    gpu: str = Field(description="Id of the GPU type")
    command: str = Field(description="The command that starts it")

    @classmethod
    def of(cls, request: PlanRequest, command: str) -> Self:
        """Describe the start that a request plans."""
        return cls(
            model=request.model.id,
            engine=EngineAnswer.model_validate(request.engine),
            gpu=request.gpus[0].id,
            command=command,
        )


class AssumptionAnswer(Output):
    """A value that the log does not say, and that the member `field` of the request could give."""

    field: str = Field(
        description="Member of the request that would say it, as a path such as `engine.version`"
    )
    taken: str = Field(description="What was assumed; empty where nothing could be")
    why: str = Field(description="Why that was assumed, or why nothing could be")


class FindingAnswer(Output):
    """One value of the log, compared with the plan."""

    name: str = Field(description="What the value is, such as `num_blocks`")
    line: int = Field(description="Line of the log, counted from 1")
    logged: float | str = Field(description="The logged value in the log's own unit, or its words")
    planned: float | str | None = Field(
        description="The planned value in the same unit; null where the plan has none"
    )
    low: float | None = Field(
        description="The least value that the plan allows, in the same unit; null for words and where "
        "nothing is compared"
    )
    high: float | None = Field(
        description="The greatest value that the plan allows, in the same unit; null for words and where "
        "nothing is compared"
    )
    agreement: Agreement = Field(description="How the two compare")
    why: str = Field(description="Why they agree, differ or are not compared")


class SaidAnswer(Output):
    """A cause that a person describes, which no message of the program shows."""

    cause: str = Field(description="Name of the cause")
    words: str = Field(description="The person's words")
    line: int = Field(description="Their line of the log, counted from 1")
    means: str = Field(description="What the failure means, if that is its cause")
    remedy: str = Field(description="What helps, if that is its cause")


class ReportedAnswer(Output):
    """A sentence of a person that says with what it works."""

    line: int = Field(description="Its line of the log, counted from 1")
    words: str = Field(description="The person's words")


class EndingAnswer(Output):
    """Why the start failed."""

    cause: str | None = Field(
        description="A short name of the cause, the same for all logs with this cause; null where the words "
        "are not known"
    )
    basis: CauseBasis = Field(description="Where the cause is known from")
    stage: str = Field(description="The step of the start that failed; empty where it is not known")
    type: str = Field(description="Name of the exception; empty where the log has none")
    message: str = Field(description="The engine's own words")
    line: int = Field(description="Line of the log, counted from 1")
    reached: str = Field(description="The last step that the start reached; empty before the first")
    means: str = Field(description="What the failure means; empty where the cause is not known")
    remedy: str = Field(description="What helps against this cause in general; empty where it is not known")
    source: str = Field(
        description="Where the engine raises it: release and function; empty where the cause is not known"
    )
    planned: ErrorAnswer | None = Field(
        description="What the plan refuses the same start with; null where it does not refuse or nothing "
        "was planned"
    )
    foreseen: bool | None = Field(
        description="Whether the plan refuses the same start for the same reason; null where nothing was "
        "planned"
    )
    offers: list[str] = Field(
        description="Flags that follow from the numbers of the log alone, each with its reason; not planned; "
        "empty where none follow"
    )
    notes: list[str] = Field(
        description="What plans showed beside `fixes`, in sentences, such as what does not help; empty where "
        "there is nothing to say"
    )
    serving: bool = Field(description="Whether the engine had started and served when it failed")
    hangs: bool = Field(
        description="Whether the engine goes on and nothing more happens, since a process does not answer"
    )
    refused: bool = Field(
        description="Whether the engine runs and refused a request, so that neither its start nor the "
        "engine failed"
    )
    start: int | None = Field(
        description="Which of several starts in the log failed, counted from 1; null where it holds one"
    )
    earlier: bool = Field(description="Whether a later start in the same log came up")
    part: str = Field(
        description="The part of the engine or of a library that raised it; empty where its traceback is not "
        "in the log or was not needed"
    )
    said: SaidAnswer | None = Field(
        description="The cause that the text describes beside the program's own message, which does not show "
        "it; null where the text describes none"
    )
    works: list[ReportedAnswer] = Field(
        description="Sentences of a person in the text that say with what it works; nothing tested them; "
        "empty where the text has none"
    )
    wanted: str = Field(
        description="Lines to paste that would tell the cause; empty where the text holds the engine's own "
        "words of it"
    )
    fixes: list[FixAnswer] = Field(
        description="Changes that get past the failure, each planned, the safest first, among them those "
        "that a plan of the same start names, but what the logged memory refutes; no verdict is surer than "
        "that of a plan of `command`; empty where none was found"
    )


class StoredLogAnswer(Output):
    """What was stored of the log, as evidence for later plans."""

    digest: str | None = Field(
        description="SHA-256 of the log's figures and of the start they belong to; null where nothing was "
        "stored"
    )
    new: bool = Field(description="Whether the same figures of the same start were not stored before")
    why: str = Field(description="Why nothing was stored, or why nothing is learned from it; empty otherwise")


class ExplanationAnswer(Output):
    """The explanation of a log."""

    log: LogAnswer = Field(description="What the log says")
    start: PlannedStartAnswer | None = Field(
        description="The start that was planned for the log; null where too little is known to plan one"
    )
    verdict: Verdict | None = Field(
        description="Whether the planned start starts, with the memory that the log reports; null where "
        "nothing was planned"
    )
    assumptions: list[AssumptionAnswer] = Field(description="What the log does not say and was assumed")
    missing: list[AssumptionAnswer] = Field(
        description="What would have been needed to plan the start; empty where it was planned"
    )
    findings: list[FindingAnswer] = Field(
        description="Values of the log compared with those of the plan, in the order of the log"
    )
    ending: EndingAnswer | None = Field(
        description="Why the start failed; null where the log shows no failure"
    )
    unmodelled: list[str] = Field(
        description="Flags of the start that change memory and that no plan takes into account"
    )
    notes: list[str] = Field(description="What a person should know about the planned start")
    kept: StoredLogAnswer | None = Field(description="What was stored of the log; null unless `keep` is true")
    other_engine: EngineLogAnswer | SkipJsonSchema[None] = optional(
        "What the log says of llama.cpp, SGLang or TensorRT-LLM. Left out where it is none of theirs"
    )

    @classmethod
    def of(
        cls, explanation: Explanation, kept: StoredLog | None = None, other: EngineLog | None = None
    ) -> Self:
        """Read an explanation from the core's values; ``other``: the log of an engine beside vLLM."""
        log = explanation.log
        return cls(
            log=LogAnswer(
                lines=log.lines,
                release=log.release,
                model=log.model,
                starts=log.starts,
                newest_first=log.newest_first,
                unread_lines=log.unread_lines,
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
            other_engine=None if other is None else EngineLogAnswer.of(other),
        )


def _start(explanation: Explanation) -> PlannedStartAnswer | None:
    if explanation.request is None or explanation.command is None:
        return None
    return PlannedStartAnswer.of(explanation.request, explanation.command)
