"""The answer to a plan: one shape for one GPU type and for all of them.

Members that few callers read are left out unless the request includes their part. No member has another form
or place because of the number of GPU types.
"""

from collections import Counter
from typing import Self

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from service.advisor.advice import Step
from service.advisor.fixes import nearest_refused
from service.advisor.plan_types import Candidate, Counts, GpuPlan, Plan, Verdict
from service.application.schemas.base import Output, optional
from service.application.schemas.candidate import CandidateAnswer, LeverAnswer
from service.application.schemas.command import CommandAnswer, FlagsAnswer
from service.application.schemas.hardware import GpuAnswer, PlannedGpuAnswer
from service.application.schemas.model import ModelAnswer
from service.application.schemas.parts import PLAIN, Parts, Texts
from service.application.schemas.refusal import ErrorAnswer
from service.application.schemas.upgrade import UpgradeAnswer


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

    starts: int = Field(description="Number of candidates that start for certain")
    uncertain: int = Field(description="Number of candidates that may start")
    does_not_start: int = Field(description="Number of candidates that do not start")


class GpuPlanAnswer(Output):
    """What the engine would do on one GPU type."""

    gpu: PlannedGpuAnswer = Field(description="The GPU type")
    count: int | SkipJsonSchema[None] = optional(
        "GPUs of this type that there are. Left out where the request does not tell"
    )
    verdict: Verdict = Field(description="Whether the best candidate starts, and whether that is certain")
    recommended: CandidateAnswer | None = Field(
        description="The best candidate; null where none can be recommended"
    )
    nearest_refused: CandidateAnswer | None = Field(
        description="The candidate that comes nearest to a start that could be recommended; null where a "
        "candidate is recommended"
    )
    reason: str = Field(description="Why the candidate is recommended, or why none is")
    step: Step | None = Field(
        description="The step of the order of advice that the recommended candidate takes, from the engine's "
        "defaults to what is tried last; null where none is recommended or nothing was searched"
    )
    tried: CandidateCountAnswer = Field(description="Number of candidates planned, by verdict")
    candidates: list[CandidateAnswer] | SkipJsonSchema[None] = optional(
        "All candidates, best first; those that do not start come last. Left out unless `include` has "
        "`candidates`"
    )
    levers: list[LeverAnswer] | SkipJsonSchema[None] = optional(
        "Single changes to the recommended candidate, each planned, the largest gain first. Left out unless "
        "`include` has `levers`"
    )
    gpu_type: GpuAnswer | SkipJsonSchema[None] = optional(
        "Everything that is known about the GPU type. Left out unless `include` has `details`"
    )

    @classmethod
    def of(cls, plan: GpuPlan, parts: Parts, sources: Texts) -> Self:
        """Read the plan of one GPU type from the core's values."""
        best, tried = plan.recommended, Counter(each.verdict for each in plan.candidates)
        near = None if best is not None else nearest_refused(plan.candidates) or plan.candidates[0]

        def answer(candidate: Candidate) -> CandidateAnswer:
            return CandidateAnswer.of(candidate, parts, sources)

        return cls(
            gpu=PlannedGpuAnswer.model_validate(plan.gpu),
            count=plan.count,
            verdict=plan.verdict,
            recommended=None if best is None else answer(best),
            nearest_refused=None if near is None else answer(near),
            reason=plan.reason,
            step=plan.step,
            tried=CandidateCountAnswer(**{verdict.value: tried[verdict] for verdict in Verdict}),
            candidates=[answer(each) for each in plan.candidates] if parts.candidates else None,
            levers=[LeverAnswer.model_validate(each) for each in plan.levers] if parts.levers else None,
            gpu_type=GpuAnswer.model_validate(plan.gpu) if parts.gpu else None,
        )


class GpuCountAnswer(Output):
    """Number of GPU types, by the verdict on their best candidate."""

    starts: int = Field(description="Number of GPU types on which the model starts for certain")
    uncertain: int = Field(description="Number of GPU types on which it may start")
    does_not_start: int = Field(description="Number of GPU types on which it does not start")
    serves_workload: int | None = Field(
        description="Number of GPU types on which all requests of the workload are admitted at once and "
        "none is preempted; null without a workload"
    )

    preempts_workload: int | None = Field(
        description="Number of GPU types on which all requests of the workload are admitted, but some are "
        "preempted before they finish; null without a workload"
    )

    @classmethod
    def of(cls, counts: Counts) -> Self:
        """Read the counts from the core's value."""
        return cls(
            starts=counts.start,
            uncertain=counts.uncertain,
            does_not_start=counts.refused,
            serves_workload=counts.serve,
            preempts_workload=counts.preempt,
        )


class PlanAnswer(Output):
    """The answer to a plan."""

    verdict: str = Field(description="On how many of the GPU types the model starts, in one sentence")
    outcome: GpuCountAnswer = Field(description="On how many of the GPU types the model starts, in numbers")
    common_refusal: ErrorAnswer | None = Field(
        description="The refusal of all candidates, where it is the same on every GPU type; null otherwise"
    )
    model: ModelAnswer = Field(description="The model, and where its config comes from")
    engine: EngineAnswer = Field(description="The release that was planned")
    command: CommandAnswer | None = Field(
        description="How the command of the request was read; null without a command"
    )
    flags: FlagsAnswer | None = Field(
        description="Every flag of the command, by what the plan does with it; null without a command"
    )
    plans: list[GpuPlanAnswer] = Field(description="One plan for each GPU type, in the order of the request")
    upgrades: list[UpgradeAnswer] = Field(
        description="One step for each GPU type and each pair of neighbours in `engine.versions`; empty "
        "without them"
    )
    sources: dict[str, str] = Field(
        description="Texts by the ids that `source` of a memory term names; empty unless `include` has "
        "`memory`"
    )

    @classmethod
    def of(cls, plan: Plan, parts: Parts = PLAIN) -> Self:
        """Read a plan from the core's values."""
        sources = Texts("s")
        plans = [GpuPlanAnswer.of(gpu, parts, sources) for gpu in plan.plans]
        return cls.around(plan, plans, sources)

    @classmethod
    def around(cls, plan: Plan, plans: list[GpuPlanAnswer], sources: Texts) -> Self:
        """Return the answer that holds the plans of GPU types, read before."""
        refusal, command = plan.refusal, plan.command
        return cls(
            verdict=plan.verdict,
            outcome=GpuCountAnswer.of(plan.counts),
            common_refusal=None if refusal is None else ErrorAnswer.model_validate(refusal),
            model=ModelAnswer.of(plan.model),
            engine=EngineAnswer.model_validate(plan.engine),
            command=None if command is None else CommandAnswer.of(command),
            flags=None if command is None else FlagsAnswer.of(command),
            plans=plans,
            upgrades=[UpgradeAnswer.model_validate(step) for step in plan.upgrades],
            sources=sources.by_id(),
        )
