"""The answer to a plan for many GPU types: the best candidates of each, in short."""

from itertools import groupby
from typing import Self

from pydantic import Field

from service.advisor.plan_types import (
    Candidate,
    GpuPlan,
    Plan,
    Verdict,
)
from service.application.schemas.base import Output
from service.application.schemas.hardware import BriefGpuAnswer
from service.application.schemas.model import ModelAnswer
from service.application.schemas.plan import (
    EngineAnswer,
    Heading,
    LeverAnswer,
    UpgradeAnswer,
)
from service.engines.refusal import Stage


class BriefErrorAnswer(Output):
    """Why the engine does not start."""

    type: str
    message: str
    stage: Stage


class BriefCacheAnswer(Output):
    """What the engine makes of the cache memory."""

    available_bytes: int
    num_blocks: int
    tokens: int
    max_concurrency: float
    max_model_len: int


class BriefCandidateAnswer(Output):
    """One way to serve the model on one GPU type, in short."""

    kv_cache_dtype: str
    tensor_parallel_size: int
    pipeline_parallel_size: int
    block_size: int | None
    verdict: Verdict
    starts: bool
    error: BriefErrorAnswer | None
    kv_cache: BriefCacheAnswer | None
    admitted_at_once: int | None = Field(description="Requests of the workload; null without one")

    @classmethod
    def of(cls, candidate: Candidate) -> Self:
        """Read a candidate off the core's values."""
        cache, error = candidate.kv_cache, candidate.error
        return cls(
            kv_cache_dtype=candidate.kv_cache_dtype,
            tensor_parallel_size=candidate.tensor_parallel_size,
            pipeline_parallel_size=candidate.pipeline_parallel_size,
            block_size=candidate.block_size,
            verdict=candidate.verdict,
            starts=cache is not None,
            error=None if error is None else BriefErrorAnswer.model_validate(error),
            kv_cache=None if cache is None else BriefCacheAnswer.model_validate(cache),
            admitted_at_once=None if candidate.admission is None else candidate.admission.admitted_at_once,
        )


class BriefGpuPlanAnswer(Output):
    """The best candidates on one GPU type."""

    gpu: BriefGpuAnswer
    reason: str
    recommended: BriefCandidateAnswer | None
    command: str | None = Field(description="That of the recommended candidate")
    candidates: list[BriefCandidateAnswer] = Field(
        description="The best for each number of GPUs, the fewest first; one that is refused, if none starts"
    )
    tried: int
    starting: int = Field(description="Of those tried, how many start or may start")
    levers: list[LeverAnswer]

    @classmethod
    def of(cls, plan: GpuPlan) -> Self:
        """Read the plan of one GPU type off the core's values."""
        best, alive = plan.recommended, [c for c in plan.candidates if c.verdict is not Verdict.REFUSED]
        specified = [next(alike) for _, alike in groupby(sorted(alive, key=_gpus), key=_gpus)]
        return cls(
            gpu=BriefGpuAnswer.model_validate(plan.gpu),
            reason=plan.reason,
            recommended=None if best is None else BriefCandidateAnswer.of(best),
            command=None if best is None else best.command,
            candidates=[BriefCandidateAnswer.of(candidate) for candidate in specified or plan.candidates[:1]],
            tried=len(plan.candidates),
            starting=len(alive),
            levers=[LeverAnswer.model_validate(lever) for lever in plan.levers],
        )


def _gpus(candidate: Candidate) -> int:
    return candidate.tensor_parallel_size * candidate.pipeline_parallel_size


class BriefPlanAnswer(Heading):
    """The answer for many GPU types: `include: [details]` asks for all of it."""

    plans: list[BriefGpuPlanAnswer]
    upgrades: list[UpgradeAnswer]

    @classmethod
    def of(cls, plan: Plan) -> Self:
        """Read a plan off the core's values."""
        return cls(
            verdict=plan.verdict,
            model=ModelAnswer.of(plan.model),
            engine=EngineAnswer.model_validate(plan.engine),
            plans=[BriefGpuPlanAnswer.of(gpu) for gpu in plan.plans],
            upgrades=[UpgradeAnswer.model_validate(step) for step in plan.upgrades],
        )
