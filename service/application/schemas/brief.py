"""The short answer to a plan for many GPU types: the best candidates of each."""

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

    type: str = Field(description="Name of the exception that the engine raises")
    message: str = Field(description="The engine's own words")
    stage: Stage = Field(description="The step of the start at which the engine gives up")


class BriefCacheAnswer(Output):
    """What the engine makes of the cache memory."""

    available_bytes: int = Field(description="Bytes of cache of the rank that has the least")
    num_blocks: int = Field(description="Blocks of the pool, after any override")
    tokens: int = Field(
        description="Tokens that the release logs as the size of its cache; releases count them in "
        "different ways"
    )
    max_concurrency: float = Field(description="Requests of the maximum length that fit at once, unrounded")
    max_model_len: int = Field(description="Tokens of the longest request that the engine accepts")


class BriefCandidateAnswer(Output):
    """One way to serve the model on one GPU type, in short."""

    kv_cache_dtype: str = Field(description="The value of `--kv-cache-dtype`")
    tensor_parallel_size: int = Field(description="GPUs that share every layer")
    pipeline_parallel_size: int = Field(description="Pipeline stages, each on GPUs of its own")
    block_size: int | None = Field(
        description="Tokens of one block, as the engine chooses them; null where the start fails before that"
    )
    verdict: Verdict = Field(description="Whether the engine starts, and whether that is certain")
    starts: bool = Field(
        description="Whether the engine gets a cache, by the middle of every interval; `verdict` says how "
        "certain that is"
    )
    error: BriefErrorAnswer | None = Field(
        description="Why the engine does not start, or may not; null where the plan finds no refusal"
    )
    kv_cache: BriefCacheAnswer | None = Field(
        description="The cache that the engine makes of its memory; null where it gets none"
    )
    admitted_at_once: int | None = Field(
        description="Requests of the workload that are admitted at once; null without a workload or without "
        "a cache"
    )

    @classmethod
    def of(cls, candidate: Candidate) -> Self:
        """Read a candidate from the core's values."""
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

    gpu: BriefGpuAnswer = Field(description="The GPU type")
    reason: str = Field(description="Why the recommended candidate is recommended, or why none is")
    recommended: BriefCandidateAnswer | None = Field(description="The best candidate; null where none starts")
    command: str | None = Field(
        description="The command that starts the recommended candidate; null without one"
    )
    candidates: list[BriefCandidateAnswer] = Field(
        description="The best candidate for each number of GPUs, the fewest GPUs first; where none starts, "
        "one that is refused"
    )
    tried: int = Field(description="Number of candidates planned")
    starting: int = Field(description="Number of candidates that start or may start")
    levers: list[LeverAnswer] = Field(
        description="Single changes to the recommended candidate, each planned, the largest gain first; "
        "empty unless `include` has `levers`"
    )

    @classmethod
    def of(cls, plan: GpuPlan) -> Self:
        """Read the plan of one GPU type from the core's values."""
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
    """The short answer for many GPU types; `include: [details]` asks for the full one."""

    plans: list[BriefGpuPlanAnswer] = Field(
        description="One plan for each GPU type, in the order of the request"
    )
    upgrades: list[UpgradeAnswer] = Field(
        description="One step for each GPU type and each pair of neighbours in `engine.versions`; empty "
        "without them"
    )

    @classmethod
    def of(cls, plan: Plan) -> Self:
        """Read a plan from the core's values."""
        return cls(
            verdict=plan.verdict,
            model=ModelAnswer.of(plan.model),
            engine=EngineAnswer.model_validate(plan.engine),
            plans=[BriefGpuPlanAnswer.of(gpu) for gpu in plan.plans],
            upgrades=[UpgradeAnswer.model_validate(step) for step in plan.upgrades],
        )
