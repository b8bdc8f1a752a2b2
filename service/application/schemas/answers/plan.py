"""The answer to a plan: one shape for one GPU type and for all of them.

Members that few callers read are left out unless the request includes their part, and where it names no GPU
type, those that follow from others. No member has another form or place because of the number of GPU types.
"""

from collections import Counter
from typing import Annotated, Literal

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from service.advisor.candidates.advice import Step
from service.advisor.candidates.plan_types import Candidate, GpuPlan, Plan
from service.advisor.candidates.verdict import Verdict
from service.advisor.ranking.nearest_refused import nearest_refused
from service.advisor.request.plan_request import FEW_GPUS
from service.application.schemas.answers.candidate import CandidateAnswer, LeverAnswer
from service.application.schemas.answers.command import CommandAnswer, FlagsAnswer
from service.application.schemas.answers.hardware import GpuAnswer, PlannedGpuAnswer
from service.application.schemas.answers.model import ModelAnswer
from service.application.schemas.answers.refusal import ErrorAnswer
from service.application.schemas.answers.upgrade import UpgradeAnswer
from service.application.schemas.base import SURVEYED, Output, optional
from service.application.schemas.members import From, In


class EngineAnswer(Output):
    """The release that was planned."""

    name: str = Field(description="Name of the engine: `vllm`")
    version: str = Field(description="The release that was planned, such as `0.19.0`")
    patches: list[str] = Field(
        description="Pull requests laid over the release, in order, such as `vllm#40391`"
    )
    doubt: str | None = Field(
        description="Why the plan may not hold for the version that was given: it is newer than every "
        "checked release, a development build, or not checked. Null where there is no doubt"
    )


class CandidateCountAnswer(Output):
    """Number of candidates that were planned, by verdict."""

    starts: Annotated[int, From(lambda counted: counted[Verdict.STARTS])] = Field(
        description="Number of candidates that start for certain"
    )
    uncertain: Annotated[int, From(lambda counted: counted[Verdict.UNCERTAIN])] = Field(
        description="Number of candidates that may start"
    )
    does_not_start: Annotated[int, From(lambda counted: counted[Verdict.REFUSED])] = Field(
        description="Number of candidates that do not start"
    )


def _counted(plan: GpuPlan) -> Counter[Verdict]:
    return Counter(each.verdict for each in plan.candidates)


def _nearest_refused(plan: GpuPlan) -> Candidate | None:
    if plan.recommended is not None:
        return None
    return nearest_refused(plan.candidates) or plan.candidates[0]


class GpuPlanAnswer(Output):
    """What the engine would do on one GPU type."""

    gpu: PlannedGpuAnswer = Field(description="The GPU type")
    count: int | SkipJsonSchema[None] = optional(
        "GPUs of this type that there are. Left out where the request does not tell"
    )
    verdict: Verdict = Field(
        description="Whether the recommended candidate starts, and whether that is certain"
    )
    recommended: CandidateAnswer | None = Field(
        description="The best candidate; null where none can be recommended"
    )
    nearest_refused: Annotated[CandidateAnswer | None, From(_nearest_refused)] = Field(
        description="The candidate that comes nearest to a start that could be recommended; null where a "
        "candidate is recommended"
    )
    reason: str = Field(
        description="Why the candidate is recommended, or why none is. Where more than four GPU types are "
        "planned at once it leaves out what else could be done, and what `kv_cache` and `speed` say"
    )
    step: Step | None = Field(
        description="The step of the order of advice that the recommended candidate takes, from the engine's "
        "defaults to what is tried last; null where none is recommended or nothing was searched"
    )
    tried: Annotated[CandidateCountAnswer | SkipJsonSchema[None], In("derived"), From(_counted)] = optional(
        f"Number of candidates planned, by verdict. {SURVEYED}"
    )
    candidates: Annotated[list[CandidateAnswer] | SkipJsonSchema[None], In("candidates")] = optional(
        "All candidates, best first; those that do not start come last. Left out unless `include` has "
        "`candidates`"
    )
    levers: Annotated[list[LeverAnswer] | SkipJsonSchema[None], In("levers")] = optional(
        "Single changes to the recommended candidate that give something, each planned: by published loss of "
        "quality, none first; of equal loss the largest gain first: requests of the workload, then "
        "concurrency. Left out unless `include` has `levers`"
    )
    gpu_type: Annotated[GpuAnswer | SkipJsonSchema[None], In("gpu"), From("gpu")] = optional(
        "Everything that is known about the GPU type. Left out unless `include` has `details`"
    )


class GpuCountAnswer(Output):
    """Number of GPU types, by the verdict on their recommended candidate."""

    starts: Annotated[int, From("start")] = Field(
        description="Number of GPU types on which the model starts for certain"
    )
    uncertain: int = Field(description="Number of GPU types on which it may start")
    does_not_start: Annotated[int, From("refused")] = Field(
        description="Number of GPU types on which it does not start"
    )
    serves_workload: Annotated[int | None, From("serve")] = Field(
        description="Number of GPU types on which all requests of the workload are admitted at once and "
        "none is preempted; null without a workload"
    )

    preempts_workload: Annotated[int | None, From("preempt")] = Field(
        description="Number of GPU types on which all requests of the workload are admitted, but some are "
        "preempted before they finish; null without a workload"
    )


def shared_warnings(plan: Plan) -> list[str]:
    """Return what is warned of on every one of many GPU types."""
    if len(plan.plans) <= FEW_GPUS:
        return []
    shown = [each.recommended or _nearest_refused(each) for each in plan.plans]
    first, *others = ([] if each is None else list(each.own_warnings) for each in shown)
    return [words for words in first if all(words in other for other in others)]


class PlanAnswer(Output):
    """The answer to a plan."""

    kind: Annotated[Literal["plan"], From(lambda _: "plan")] = Field(
        description="That vLLM alone was planned; other engines have answers of other kinds"
    )
    verdict: str = Field(description="On how many of the GPU types the model starts, in one sentence")
    outcome: Annotated[GpuCountAnswer, From("counts")] = Field(
        description="On how many of the GPU types the model starts, in numbers"
    )
    common_refusal: Annotated[ErrorAnswer | None, From("refusal")] = Field(
        description="The refusal of all candidates, where it is the same on every GPU type; null otherwise"
    )
    model: ModelAnswer = Field(description="The model, and where its config comes from")
    engine: EngineAnswer = Field(description="The release that was planned")
    command: CommandAnswer | None = Field(
        description="How the command of the request was read; null without a command"
    )
    flags: Annotated[FlagsAnswer | None, From("command")] = Field(
        description="Every flag of the command, by what the plan does with it; null without a command"
    )
    common_warnings: Annotated[list[str], From(shared_warnings)] = Field(
        description="Warnings of the best or nearest candidate that are the same on every GPU type, where "
        "more than four are planned at once; they are left out of `warnings`. Empty otherwise"
    )
    plans: list[GpuPlanAnswer] = Field(description="One plan for each GPU type, in the order of the request")
    upgrades: list[UpgradeAnswer] = Field(
        description="One step for each GPU type and each pair of neighbours in `engine.versions`; empty "
        "without them"
    )
    sources: dict[str, str] = Field(
        description="Texts by the ids that `source` of a memory term, a speed or a price names; empty where "
        "nothing names one"
    )
