"""The answer to a plan."""

from typing import Self

from pydantic import Field, computed_field

from service.advisor.answer import Plan, Verdict
from service.api.schemas.hardware import GpuAnswer
from service.api.schemas.model import ModelAnswer
from service.api.schemas.model_config import Output
from service.engines.refusal import Stage
from service.memory.budget import Basis, Level


class EngineAnswer(Output):
    """The release that was planned."""

    name: str
    version: str
    patches: list[str]


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
    count: int = Field(description="Measurements, at most one for each node and day")
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
    """What admission asks of one group."""

    kind: str
    blocks: int


class AdmissionAnswer(Output):
    """How many requests of the workload run at once."""

    groups: list[GroupAdmissionAnswer] = Field(description="Blocks that one prompt must find free, by group")
    blocks: int
    sliding_window_blocks: int
    free_blocks: int
    admitted_at_once: int
    explanation: str


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


class GpuPlanAnswer(Output):
    """All candidates on one GPU type."""

    gpu: GpuAnswer
    recommended: CandidateAnswer | None
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


class PlanAnswer(Output):
    """The whole answer."""

    model: ModelAnswer
    engine: EngineAnswer
    plans: list[GpuPlanAnswer]
    upgrades: list[UpgradeAnswer] = Field(description="Steps between `engine.versions`; empty without them")

    @classmethod
    def of(cls, plan: Plan) -> Self:
        """Read a plan off the core's values."""
        return cls(
            model=ModelAnswer.of(plan.model),
            engine=EngineAnswer.model_validate(plan.engine),
            plans=[GpuPlanAnswer.model_validate(gpu) for gpu in plan.plans],
            upgrades=[UpgradeAnswer.model_validate(step) for step in plan.upgrades],
        )
