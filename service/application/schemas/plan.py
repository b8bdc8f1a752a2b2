"""The full answer to a plan."""

from typing import Self

from pydantic import Field, computed_field

from service.advisor.plan_types import Plan, Verdict, Waiting
from service.application.schemas.base import Output
from service.application.schemas.hardware import GpuAnswer
from service.application.schemas.model import ModelAnswer
from service.engines.refusal import Stage
from service.memory.budget_types import Basis, Level


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


class ErrorAnswer(Output):
    """Why the engine does not start, or may not."""

    type: str = Field(description="Name of the exception that the engine raises")
    message: str = Field(description="The engine's own words")
    stage: Stage = Field(description="The step of the start at which the engine gives up")
    detail: str = Field(
        description="The numbers behind the engine's words, where it does not print them; empty otherwise"
    )
    fix: list[str] = Field(
        description="Single changes with which the same start was planned and does not fail, each in words; "
        "empty where none was found or looked for"
    )


class EvidenceAnswer(Output):
    """The measurements behind a term."""

    level: Level = Field(description="How near the measured starts are to the planned one")
    count: int = Field(description="Number of measurements, at most one for each token and day")
    logs: int = Field(
        description="How many of these measurements are stored startup logs, which count less than probes"
    )
    newest: str = Field(description="Day (UTC) of the latest measurement, as in `2026-05-01`")
    age_days: int = Field(description="Age of the latest measurement in days")


class EstimateAnswer(Output):
    """Bytes with their 10th and 90th percentile."""

    bytes: int = Field(description="The middle of the interval, in bytes")
    low: int = Field(description="The 10th percentile, in bytes; equal to `bytes` where the value is exact")
    high: int = Field(description="The 90th percentile, in bytes; equal to `bytes` where the value is exact")
    basis: Basis = Field(description="Where the value comes from")
    source: str = Field(description="What the value was computed, calibrated or assumed from, in words")
    evidence: EvidenceAnswer | None = Field(
        description="The measurements behind the value; null where nothing was measured"
    )


class WeightsAnswer(EstimateAnswer):
    """Weights of the fullest rank."""

    parameter_bytes: int = Field(
        description="Bytes that the rank allocates for weights before kernels repack them after loading"
    )


class MemoryAnswer(Output):
    """The memory of one rank, term by term."""

    total: EstimateAnswer = Field(description="Total memory of the GPU, as CUDA reports it")
    requested: EstimateAnswer = Field(
        description="The share of the total that `gpu_memory_utilization` grants to the engine"
    )
    weights: WeightsAnswer = Field(description="Weights of the rank that holds the most of them")
    activation: EstimateAnswer = Field(
        description="Peak of activations in the profile run, in which the engine runs its largest step"
    )
    non_torch: EstimateAnswer = Field(
        description="Memory beside PyTorch's allocator: CUDA context, NCCL, libraries"
    )
    cuda_graphs: EstimateAnswer = Field(
        description="Set aside for CUDA graphs before the cache is sized; 0 in releases that set nothing "
        "aside"
    )
    captured_graphs: EstimateAnswer = Field(
        description="What CUDA graphs take once they are captured, after the cache was allocated"
    )
    available_kv: EstimateAnswer = Field(
        description="What is left for the KV cache; negative where the other terms exceed the request"
    )


class GroupAnswer(Output):
    """Layers that share one block table."""

    kind: str = Field(
        description="What the layers of the group keep, such as `full_attention` or `sliding_window`"
    )
    layers: int = Field(description="Number of layers of the group on the first pipeline stage")
    block_size: int = Field(description="Tokens of one block")
    page_size_bytes: int = Field(
        description="Bytes of one block of one layer, padding included; of all layers together for "
        "`uniform_type`"
    )
    unpadded_page_size_bytes: int = Field(description="The same without padding, in bytes")
    blocks_per_request: int = Field(
        description="Blocks that one request of the maximum length takes from the pool"
    )


class KvCacheAnswer(Output):
    """What the engine makes of the cache memory."""

    available_bytes: int = Field(description="Bytes of cache of the rank that has the least")
    num_blocks: int = Field(description="Blocks of the pool, after any override")
    bytes_per_block: int = Field(
        description="Bytes that one block takes over all layers of a rank of the first pipeline stage"
    )
    tokens: int = Field(
        description="Tokens that the release logs as the size of its cache; releases count them in "
        "different ways"
    )
    max_concurrency: float = Field(description="Requests of the maximum length that fit at once, unrounded")
    log_lines: list[str] = Field(description="The lines that the release logs about its cache, word for word")
    max_model_len: int = Field(description="Tokens of the longest request that the engine accepts")
    estimated_max_model_len: int = Field(
        description="Tokens of the longest request that fits into the cache, at most `max_model_len`"
    )
    groups: list[GroupAnswer] = Field(
        description="KV cache groups of the first pipeline stage: layers that share one block table"
    )


class GroupAdmissionAnswer(Output):
    """Blocks that one request of the workload takes of one KV cache group."""

    kind: str = Field(
        description="What the layers of the group keep, such as `full_attention` or `sliding_window`"
    )
    counted_tokens: int = Field(
        description="Tokens of the prompt that the release counts in this group before it admits the request"
    )
    blocks: int = Field(description="Blocks of this group that must be free before the request is admitted")
    whole_prompt_blocks: int = Field(
        description="Blocks that would have to be free if the whole prompt were counted, windows included"
    )
    blocks_after_prefill: int = Field(
        description="Blocks of this group that the request holds once its prompt has been processed"
    )
    peak_decode_blocks: int = Field(
        description="Most blocks of this group that the request holds while its answer is generated"
    )


class AdmissionAnswer(Output):
    """How many requests of the workload run at once."""

    prompt_tokens: int = Field(description="Tokens of the workload's prompt")
    groups: list[GroupAdmissionAnswer] = Field(description="The same counts for each KV cache group")
    blocks: int = Field(description="Blocks of all groups that must be free before a request is admitted")
    whole_prompt_blocks: int = Field(
        description="Blocks of all groups that would have to be free if the whole prompt were counted, "
        "windows included"
    )
    sliding_window_blocks: int = Field(description="How many of `blocks` are of sliding-window groups")
    whole_sliding_window_blocks: int = Field(
        description="How many of `whole_prompt_blocks` are of sliding-window groups"
    )
    peak_prefill_blocks: int = Field(
        description="Most blocks that one request holds while its prompt is processed"
    )
    blocks_after_prefill: int = Field(
        description="Blocks that one request holds once its prompt has been processed"
    )
    peak_decode_blocks: int = Field(
        description="Most blocks that one request holds while its answer is generated"
    )
    free_blocks: int = Field(description="Free blocks of an idle engine: all but the null block")
    admitted_at_once: int = Field(
        description="Requests of the workload that are admitted, each after the prompt of the one before "
        "was processed"
    )
    admitted_by_whole_prompts: int = Field(
        description="Requests that would be admitted if the whole prompt were counted, windows included"
    )
    completed_without_preemption: int = Field(
        description="Requests that run together to their end without one of them being preempted"
    )
    waits_for: Waiting = Field(description="What the next request of the workload waits for")
    explanation: str = Field(description="The same counts and what they mean, in sentences")


class QualityAnswer(Output):
    """What is published about the loss of quality by a cache dtype."""

    loss: int = Field(
        description="Rank of the cache dtype by published loss of quality: 0 for none, a greater number for "
        "more"
    )
    effect: str = Field(description="What the source reports, in short")
    source: str = Field(description="Where that is published; `none` where nothing is")


class GroupWasteAnswer(Output):
    """Bytes that one request of the maximum length takes in one group."""

    kind: str = Field(
        description="What the layers of the group keep, such as `full_attention` or `sliding_window`"
    )
    taken_bytes: int = Field(description="Bytes of the blocks that the request takes in this group")
    ideal_bytes: int = Field(description="Bytes of its tokens and its last state alone")
    reserve_bytes: int = Field(
        description="Bytes of tokens held for steps in flight, and of states beside the last one"
    )
    rounding_bytes: int = Field(description="Bytes of the part of the last blocks that is not filled")
    padding_bytes: int = Field(
        description="Bytes by which pages are padded, to the size of other pages or to what kernels need"
    )
    idle_bytes: int = Field(description="Bytes of blocks that have room for more layers than the group has")


class WasteAnswer(Output):
    """Bytes that one request of the maximum length takes of a rank, and what it would need at best."""

    taken_bytes: int = Field(description="Bytes of the blocks that the request takes in all groups")
    ideal_bytes: int = Field(description="Bytes of its tokens and last states alone")
    percent: float = Field(description="Percent of `taken_bytes` that is not in `ideal_bytes`")
    groups: list[GroupWasteAnswer] = Field(description="The same for each KV cache group")


class CandidateAnswer(Output):
    """One way to serve the model on one GPU type."""

    kv_cache_dtype: str = Field(description="The value of `--kv-cache-dtype`")
    resolved_kv_cache_dtype: str | None = Field(
        description="The dtype in which the cache is stored; null where the start fails before it is chosen"
    )
    tensor_parallel_size: int = Field(description="GPUs that share every layer")
    pipeline_parallel_size: int = Field(description="Pipeline stages, each on GPUs of its own")
    block_size: int | None = Field(
        description="Tokens of one block, as the engine chooses them; null where the start fails before that"
    )
    attention_backends: list[str] = Field(
        description="Attention backends of the layers that keep a cache, the backend of most layers first; "
        "empty where the start fails before they are chosen"
    )
    verdict: Verdict = Field(description="Whether the engine starts, and whether that is certain")
    error: ErrorAnswer | None = Field(
        description="Why the engine does not start, or may not; null where the plan finds no refusal"
    )
    memory: MemoryAnswer | None = Field(
        description="Memory of one rank, term by term; null where the start fails before it is known"
    )
    kv_cache: KvCacheAnswer | None = Field(
        description="The cache that the engine makes of its memory; null where it gets none"
    )
    admission: AdmissionAnswer | None = Field(
        description="How many requests of the workload run at once; null without a workload or without a "
        "cache"
    )
    quality: QualityAnswer = Field(
        description="What others published about the loss of quality by this cache dtype; nothing of it is "
        "measured here"
    )
    waste: WasteAnswer | None = Field(
        description="What one request of the maximum length takes of a rank without using it; null without "
        "a cache"
    )
    warnings: list[str] = Field(
        description="What a person should know before using it, the most important first"
    )
    command: str = Field(description="The command that starts this candidate")

    @computed_field(  # type: ignore[prop-decorator]
        description="Whether the engine gets a cache, by the middle of every interval; `verdict` says how "
        "certain that is"
    )
    @property
    def starts(self) -> bool:
        """Whether the engine gets a cache, by the middle of every interval."""
        return self.kv_cache is not None

    @computed_field(description="The backend of most layers; null where `attention_backends` is empty")  # type: ignore[prop-decorator]
    @property
    def attention_backend(self) -> str | None:
        """The first of the backends."""
        return next(iter(self.attention_backends), None)


class LeverAnswer(Output):
    """One change to the recommended candidate. Figures are the changed start's minus the candidate's."""

    change: str = Field(description="The change in words, as a flag where it is one")
    flag: str | None = Field(
        description="Name of the flag that is changed; null where the change is not a flag"
    )
    value: str | int | float | bool | None = Field(
        description="New value of the flag; null where the change is not a flag"
    )
    version: str | None = Field(
        description="The release that the change is to; null where the change is not a release"
    )
    patch: str | None = Field(
        description="The pull request that the change lays over the release; null where the change is not a "
        "patch"
    )
    verdict: Verdict = Field(description="Whether the changed start starts, and whether that is certain")
    tokens: int = Field(
        description="Tokens of the cache, changed minus recommended, as logged: releases count them in "
        "different ways"
    )
    available_bytes: int = Field(description="Bytes of cache of one rank, changed minus recommended")
    max_concurrency: float = Field(
        description="Requests of the maximum length that fit at once, changed minus recommended"
    )
    estimated_max_model_len: int = Field(
        description="Tokens of the longest request that fits, changed minus recommended"
    )
    admitted_at_once: int | None = Field(
        description="Requests of the workload admitted at once, changed minus recommended; null without a "
        "workload"
    )
    cost: str = Field(description="What the change costs, in words; empty where nothing is known")


class GpuPlanAnswer(Output):
    """All candidates on one GPU type."""

    gpu: GpuAnswer = Field(description="The GPU type")
    reason: str = Field(description="Why the recommended candidate is recommended, or why none is")
    recommended: CandidateAnswer | None = Field(description="The best candidate; null where none starts")
    levers: list[LeverAnswer] = Field(
        description="Single changes to the recommended candidate, each planned, the largest gain first; "
        "empty unless `include` has `levers`"
    )
    candidates: list[CandidateAnswer] = Field(
        description="All candidates, best first; those that do not start come last"
    )


class OutcomeAnswer(Output):
    """What a release makes of the flags."""

    version: str = Field(description="The release")
    verdict: Verdict = Field(description="Whether the engine starts, and whether that is certain")
    error: str | None = Field(
        description="Type and words of the refusal; null where the release does not refuse"
    )
    tokens: int | None = Field(
        description="Tokens of the cache as the release logs them; null without a cache"
    )
    max_concurrency: float | None = Field(
        description="Requests of the maximum length that fit at once; null without a cache"
    )
    max_model_len: int | None = Field(
        description="Tokens of the longest request that the engine accepts; null without a cache"
    )
    block_size: int | None = Field(
        description="Tokens of one block; null where the start fails before it is chosen"
    )
    blocks_per_request: int | None = Field(
        description="Blocks of all groups that one request of the maximum length takes; null without a cache"
    )
    attention_backends: list[str] = Field(description="Attention backends, the backend of most layers first")
    available_kv_bytes: int | None = Field(
        description="Bytes that are left for the cache of one rank; null where the start fails before they "
        "are known"
    )
    doubt: str | None = Field(
        description="Why this version is planned with doubt; null where there is no doubt"
    )


class CauseAnswer(Output):
    """A rule that, changed by itself, changes the outcome."""

    rule: str = Field(
        description="Name of the rule, as GET /engines lists it, or `attention_backends` or `memory_budget`"
    )
    summary: str = Field(description="What the rule decides")
    source: str = Field(
        description="Release and function, or pull request, where the new behaviour can be read"
    )


class UpgradeAnswer(Output):
    """One step from a release to the next on one GPU type."""

    gpu: str = Field(description="Id of the GPU type")
    before: OutcomeAnswer = Field(description="What the earlier named release makes of the flags")
    after: OutcomeAnswer = Field(description="What the later named release makes of the flags")
    changed: list[str] = Field(
        description="Names of the members of the outcome that differ; empty where nothing changes"
    )
    causes: list[CauseAnswer] = Field(
        description="Rules that change the outcome, each found by planning with that one rule changed"
    )


class Heading(Output):
    """What was planned, and the answer in a sentence."""

    verdict: str = Field(description="On how many of the GPU types the model starts, in one sentence")
    model: ModelAnswer = Field(description="The model, and where its config comes from")
    engine: EngineAnswer = Field(description="The release that was planned")


class PlanAnswer(Heading):
    """The answer to a plan."""

    plans: list[GpuPlanAnswer] = Field(description="One plan for each GPU type, in the order of the request")
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
            plans=[GpuPlanAnswer.model_validate(gpu) for gpu in plan.plans],
            upgrades=[UpgradeAnswer.model_validate(step) for step in plan.upgrades],
        )
