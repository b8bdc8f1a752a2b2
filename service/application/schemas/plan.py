"""The answer to a plan."""

from typing import Self

from pydantic import Field, computed_field

from service.advisor.plan_types import Plan, Verdict, Waiting
from service.application.schemas.base import Output
from service.application.schemas.hardware import GpuAnswer
from service.application.schemas.model import ModelAnswer
from service.engines.refusal import Stage
from service.memory.budget import Basis, Level


class EngineAnswer(Output):
    """The release that was planned."""

    name: str
    version: str
    patches: list[str]
    doubt: str | None = Field(
        description="Why the plan may not hold for the version that was given: it is newer than every "
        "checked release, a development build, or not checked. Null where there is no doubt"
    )


class ErrorAnswer(Output):
    """Why the engine does not start."""

    type: str
    message: str = Field(description="The engine's own words")
    stage: Stage
    detail: str = Field(description="The numbers behind the engine's words, where it does not say them")
    fix: list[str]


class EvidenceAnswer(Output):
    """The measurements behind a term."""

    level: Level
    count: int = Field(description="Measurements, at most one for each token and day")
    logs: int = Field(description="Of these, startup logs that were kept: weaker evidence than probes")
    newest: str = Field(description="Day of the latest one")
    age_days: int


class EstimateAnswer(Output):
    """Bytes with their 10th and 90th percentile."""

    bytes: int
    low: int
    high: int
    basis: Basis
    source: str
    evidence: EvidenceAnswer | None = Field(description="Null where nothing was measured")


class WeightsAnswer(EstimateAnswer):
    """Weights of the fullest rank."""

    parameter_bytes: int = Field(description="What the rank allocates before post-load repacking")


class MemoryAnswer(Output):
    """What each byte of a rank goes to."""

    total: EstimateAnswer
    requested: EstimateAnswer
    weights: WeightsAnswer
    activation: EstimateAnswer
    non_torch: EstimateAnswer
    cuda_graphs: EstimateAnswer
    captured_graphs: EstimateAnswer
    available_kv: EstimateAnswer


class GroupAnswer(Output):
    """Layers that share one block table."""

    kind: str
    layers: int
    block_size: int
    page_size_bytes: int
    unpadded_page_size_bytes: int
    blocks_per_request: int


class KvCacheAnswer(Output):
    """What the engine makes of the cache memory."""

    available_bytes: int
    num_blocks: int
    bytes_per_block: int
    tokens: int = Field(description="What the release logs as its cache size")
    max_concurrency: float = Field(description="Requests of the maximum length that fit at once, unrounded")
    log_lines: list[str]
    max_model_len: int
    estimated_max_model_len: int
    groups: list[GroupAnswer]


class GroupAdmissionAnswer(Output):
    """What one request of the workload takes of one group."""

    kind: str
    counted_tokens: int = Field(description="Tokens of the prompt that the release's gate counts")
    blocks: int = Field(description="Blocks that must be free before the request is let in")
    whole_prompt_blocks: int = Field(description="What a gate without a cap on windows would ask for")
    blocks_after_prefill: int = Field(description="Blocks held once the prompt has been read")
    peak_decode_blocks: int = Field(description="Most blocks held while the answer is written")


class AdmissionAnswer(Output):
    """How many requests of the workload run at once."""

    prompt_tokens: int
    groups: list[GroupAdmissionAnswer]
    blocks: int = Field(description="Blocks of all groups that must be free before a request is let in")
    whole_prompt_blocks: int
    sliding_window_blocks: int = Field(description="Of `blocks`, those of the sliding-window groups")
    whole_sliding_window_blocks: int
    peak_prefill_blocks: int = Field(
        description="Most blocks that one request holds while its prompt is read"
    )
    blocks_after_prefill: int
    peak_decode_blocks: int
    free_blocks: int = Field(description="Blocks of an idle engine; one is the null block")
    admitted_at_once: int = Field(description="Let in one after the other, each once the last was read")
    admitted_by_whole_prompts: int = Field(
        description="The same, had the gate asked for the whole prompt of windows too"
    )
    completed_without_preemption: int = Field(
        description="Stay until all are answered, none put off for another"
    )
    waits_for: Waiting = Field(description="What the next request waits for")
    explanation: str


class QualityAnswer(Output):
    """What is published of a cache dtype's quality."""

    loss: int = Field(description="Place in the order of loss, 0 for none")
    effect: str
    source: str


class GroupWasteAnswer(Output):
    """Bytes that one request of the maximum length takes in one group."""

    kind: str
    taken_bytes: int
    ideal_bytes: int = Field(description="Of its tokens and its last state alone")
    reserve_bytes: int = Field(
        description="Of tokens kept for steps in flight, and of states beside the last"
    )
    rounding_bytes: int = Field(description="Of blocks that are begun but not filled")
    padding_bytes: int = Field(description="Of pages padded to the size of others")
    idle_bytes: int = Field(description="Of blocks with room for more layers than the group has")


class WasteAnswer(Output):
    """What a request takes beside what it needs."""

    taken_bytes: int
    ideal_bytes: int
    percent: float = Field(description="What is taken beyond the ideal, of what is taken")
    groups: list[GroupWasteAnswer]


class CandidateAnswer(Output):
    """One way to serve the model on one GPU type."""

    kv_cache_dtype: str
    resolved_kv_cache_dtype: str | None
    tensor_parallel_size: int
    pipeline_parallel_size: int
    block_size: int | None
    attention_backends: list[str]
    verdict: Verdict
    error: ErrorAnswer | None
    memory: MemoryAnswer | None
    kv_cache: KvCacheAnswer | None
    admission: AdmissionAnswer | None
    quality: QualityAnswer = Field(
        description="What others published of the cache dtype; nothing of it is ours"
    )
    waste: WasteAnswer | None = Field(
        description="What one request of the maximum length takes of a rank without using it"
    )
    warnings: list[str]
    command: str

    @computed_field(description="Whether the engine starts, as computed; `verdict` says how sure that is")  # type: ignore[prop-decorator]
    @property
    def starts(self) -> bool:
        """Whether the engine gets a cache, by the middle of every interval."""
        return self.kv_cache is not None

    @computed_field(description="The backend of most layers")  # type: ignore[prop-decorator]
    @property
    def attention_backend(self) -> str | None:
        """The first of the backends."""
        return next(iter(self.attention_backends), None)


class LeverAnswer(Output):
    """One change to the recommended candidate. Figures are the changed start's less the candidate's."""

    change: str
    flag: str | None = Field(description="The flag that is changed, if it is one")
    value: str | int | float | bool | None
    version: str | None = Field(description="The release that it changes to, if it does")
    patch: str | None = Field(description="The pull request that it lays on top, if it does")
    verdict: Verdict
    tokens: int = Field(description="As logged: releases count in different ways")
    available_bytes: int
    max_concurrency: float
    estimated_max_model_len: int
    admitted_at_once: int | None = Field(description="Requests of the workload; null without one")
    cost: str


class GpuPlanAnswer(Output):
    """All candidates on one GPU type."""

    gpu: GpuAnswer
    reason: str = Field(description="Why the recommended candidate is, or why there is none")
    recommended: CandidateAnswer | None
    levers: list[LeverAnswer] = Field(
        description="Single changes to it, those that give most first; only with `include: [levers]`"
    )
    candidates: list[CandidateAnswer] = Field(description="Best first; those that do not start last")


class OutcomeAnswer(Output):
    """What a release makes of the flags."""

    version: str
    verdict: Verdict
    error: str | None = Field(description="Type and words of the refusal, if it refuses")
    tokens: int | None
    max_concurrency: float | None
    max_model_len: int | None
    block_size: int | None
    blocks_per_request: int | None = Field(description="Of all groups, for a request of the maximum length")
    attention_backends: list[str]
    available_kv_bytes: int | None
    doubt: str | None = Field(description="As that of the plan's engine, for this version")


class CauseAnswer(Output):
    """A rule that, changed by itself, changes the outcome."""

    rule: str
    summary: str
    source: str


class UpgradeAnswer(Output):
    """One step from a release to the next on one GPU type."""

    gpu: str
    before: OutcomeAnswer
    after: OutcomeAnswer
    changed: list[str] = Field(description="Fields of the outcome that differ")
    causes: list[CauseAnswer] = Field(description="Each was found by planning with that one rule changed")


class Heading(Output):
    """What is planned, and the answer in a sentence."""

    verdict: str = Field(description="On how many of the GPU types it starts, or that it fits on none")
    model: ModelAnswer
    engine: EngineAnswer


class PlanAnswer(Heading):
    """The whole answer."""

    plans: list[GpuPlanAnswer]
    upgrades: list[UpgradeAnswer] = Field(description="Steps between `engine.versions`; empty without them")

    @classmethod
    def of(cls, plan: Plan) -> Self:
        """Read a plan off the core's values."""
        return cls(
            verdict=plan.verdict,
            model=ModelAnswer.of(plan.model),
            engine=EngineAnswer.model_validate(plan.engine),
            plans=[GpuPlanAnswer.model_validate(gpu) for gpu in plan.plans],
            upgrades=[UpgradeAnswer.model_validate(step) for step in plan.upgrades],
        )
