"""The answer to a plan: one shape for one GPU type and for all of them.

Members that few callers read are left out unless the request includes their part. No member has another form
or place because of the number of GPU types.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final, Self

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from service.advisor.advice import Step
from service.advisor.fixes import nearest_refused
from service.advisor.plan_types import Admission, Candidate, Counts, GpuPlan, Plan, Verdict, Waiting
from service.application.schemas.base import Output, optional
from service.application.schemas.command import CommandAnswer, FlagsAnswer
from service.application.schemas.hardware import GpuAnswer, PlannedGpuAnswer
from service.application.schemas.model import ModelAnswer
from service.engines.refusal import Stage
from service.kv_cache.kv_cache import KvCache
from service.memory.budget_types import Basis, Estimate, HostDemand, Level, MemoryBudget, WeightsEstimate

PLAIN_TERMS: Final = ("total", "requested", "activation", "non_torch", "cuda_graphs", "captured_graphs")
"""Memory terms without members of their own."""
HOST_TERMS: Final = ("weights", "blocks", "adapters", "media_cache", "sleeping_weights", "total")
"""Terms of the host's memory."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of an answer that a request includes."""

    memory: bool = False
    """Interval, basis and source of every memory term."""
    cache: bool = False
    """Groups, log lines, attention backends, waste, quality, and the blocks of a request."""
    candidates: bool = False
    """Every candidate, not only the recommended one."""
    levers: bool = False
    gpu: bool = False
    """Everything that is known about the GPU type."""

    @classmethod
    def of(cls, include: Collection[str]) -> Self:
        """Read the parts that a request names; `details` stands for all but the levers."""
        full = "details" in include
        return cls(
            memory=full or "memory" in include,
            cache=full or "cache" in include,
            candidates=full or "candidates" in include,
            levers="levers" in include,
            gpu=full,
        )


PLAIN: Final = Parts()
"""What a request gets that includes nothing."""


@dataclass(frozen=True, slots=True)
class Texts:
    """Long texts of an answer by id, so that a text that many figures share is written once."""

    prefix: str
    ids: dict[str, str] = field(default_factory=dict)

    def id_of(self, text: str) -> str:
        """Return the id of a text; a new text gets the next one."""
        return self.ids.setdefault(text, f"{self.prefix}{len(self.ids) + 1}")

    def by_id(self) -> dict[str, str]:
        """Return all texts by their ids."""
        return {name: text for text, name in self.ids.items()}


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


class FixAnswer(Output):
    """A single change with which the same start was planned and does not fail."""

    change: str = Field(description="The change in words: a flag with its value, a release or a patch")
    words: str = Field(description="The same as `change`")
    verdict: Verdict = Field(description="Whether the changed start starts, and whether that is certain")
    tokens: int | None = Field(
        description="Tokens of its cache, as the release logs them; null without a cache"
    )
    max_concurrency: float | None = Field(
        description="Requests of the maximum length that fit at once; null without a cache"
    )
    command: str = Field(description="The command that starts it")


class ErrorAnswer(Output):
    """Why the engine does not start, or may not."""

    type: str = Field(description="Name of the exception that the engine raises")
    message: str = Field(description="The engine's own words")
    stage: Stage = Field(description="The step of the start at which the engine gives up")
    detail: str = Field(
        description="The numbers behind the engine's words, where it does not print them; empty otherwise"
    )
    fix: list[str] = Field(
        description="The changes of `fixes`, each in words; empty where none was found or looked for"
    )
    fixes: list[FixAnswer] = Field(
        description="Single changes with which the same start was planned and does not fail; empty where "
        "none was found or looked for. They change what was asked, not what a search added to it"
    )
    notes: list[str] = Field(
        description="What else to know about ways past it, in sentences, such as ids of quantized "
        "checkpoints; empty where there is nothing to say"
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
    """Bytes of one memory term, with their 10th and 90th percentile."""

    bytes: int = Field(description="The middle of the interval, in bytes")
    low: int | SkipJsonSchema[None] = optional(
        "The 10th percentile, in bytes; equal to `bytes` where the value is exact. Left out unless "
        "`include` has `memory`"
    )
    high: int | SkipJsonSchema[None] = optional(
        "The 90th percentile, in bytes; equal to `bytes` where the value is exact. Left out unless "
        "`include` has `memory`"
    )
    basis: Basis | SkipJsonSchema[None] = optional(
        "Where the value comes from. Left out unless `include` has `memory`"
    )
    source: str | SkipJsonSchema[None] = optional(
        "Id of a text in `sources`: what the value was computed, calibrated or assumed from. Left out "
        "unless `include` has `memory`"
    )
    evidence: EvidenceAnswer | SkipJsonSchema[None] = optional(
        "The measurements behind the value. Left out where nothing was measured, and unless `include` has "
        "`memory`"
    )

    @classmethod
    def of(cls, estimate: Estimate, parts: Parts, sources: Texts) -> Self:
        """Read an estimate from the core's value."""
        if not parts.memory:
            return cls(bytes=estimate.bytes)
        return cls(**_whole(estimate, sources))


class WeightsAnswer(EstimateAnswer):
    """Weights of the fullest rank."""

    parameter_bytes: int | SkipJsonSchema[None] = optional(
        "Bytes that the rank allocates for weights before kernels repack them after loading. Left out "
        "unless `include` has `memory`"
    )


class AvailableAnswer(Output):
    """Bytes that are left for the KV cache. They decide whether the engine starts."""

    bytes: int = Field(description="The middle of the interval, in bytes")
    low: int = Field(description="The 10th percentile, in bytes; equal to `bytes` where the value is exact")
    high: int = Field(description="The 90th percentile, in bytes; equal to `bytes` where the value is exact")
    basis: Basis | SkipJsonSchema[None] = optional(
        "Where the value comes from. Left out unless `include` has `memory`"
    )
    source: str | SkipJsonSchema[None] = optional(
        "Id of a text in `sources`: what the value was computed, calibrated or assumed from. Left out "
        "unless `include` has `memory`"
    )
    evidence: EvidenceAnswer | SkipJsonSchema[None] = optional(
        "The measurements behind the value. Left out where nothing was measured, and unless `include` has "
        "`memory`"
    )

    @classmethod
    def of(cls, estimate: Estimate, parts: Parts, sources: Texts) -> Self:
        """Read an estimate from the core's value."""
        if not parts.memory:
            return cls(bytes=estimate.bytes, low=estimate.low, high=estimate.high)
        return cls(**_whole(estimate, sources))


def _whole(estimate: Estimate, sources: Texts) -> dict[str, Any]:
    evidence = estimate.evidence
    more = {"parameter_bytes": estimate.parameter_bytes} if isinstance(estimate, WeightsEstimate) else {}
    return {
        "bytes": estimate.bytes,
        "low": estimate.low,
        "high": estimate.high,
        "basis": estimate.basis,
        "source": sources.id_of(estimate.source),
        "evidence": None if evidence is None else EvidenceAnswer.model_validate(evidence),
        **more,
    }


class HostMemoryAnswer(Output):
    """Memory of the host that the flags ask for, of all ranks on all nodes together."""

    weights: EstimateAnswer = Field(
        description="Bytes of weights that the GPUs do not hold (`cpu_offload_gb`, groups)"
    )
    blocks: EstimateAnswer = Field(
        description="Bytes for cached blocks that the GPUs no longer hold (`kv_offloading_size`)"
    )
    adapters: EstimateAnswer = Field(
        description="Bytes of LoRA adapters that processes store (`max_cpu_loras`), at most"
    )
    media_cache: EstimateAnswer = Field(
        description="Bytes of processed images, videos and sound that processes cache "
        "(`mm_processor_cache_gb`), at most"
    )
    sleeping_weights: EstimateAnswer = Field(
        description="Bytes of weights while the engine sleeps at level 1 (`enable_sleep_mode`), at most"
    )
    total: EstimateAnswer = Field(description="Sum of these terms, in bytes")

    @classmethod
    def of(cls, host: HostDemand, parts: Parts, sources: Texts) -> Self:
        """Read the demand from the core's value."""
        terms = {name: EstimateAnswer.of(getattr(host, name), parts, sources) for name in HOST_TERMS}
        return cls(**terms)


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
        description="Memory that PyTorch does not allocate: CUDA context, NCCL, libraries"
    )
    cuda_graphs: EstimateAnswer = Field(
        description="Set aside for CUDA graphs before the cache is sized; 0 in releases that set nothing "
        "aside"
    )
    captured_graphs: EstimateAnswer = Field(
        description="What CUDA graphs take once they are captured, after the cache was allocated"
    )
    available_kv: AvailableAnswer = Field(
        description="What is left for the KV cache; negative where the other terms exceed the request"
    )
    adapters: EstimateAnswer | SkipJsonSchema[None] = optional(
        "Room for LoRA adapters, in bytes, which `weights` contains; 0 without `enable_lora`. Left out "
        "unless `include` has `memory`"
    )
    host: HostMemoryAnswer | SkipJsonSchema[None] = optional(
        "Memory of the host that the flags ask for, which is no part of the GPU's budget. `swap_space` is "
        "not among it: no release that can be planned allocates it. Left out unless `include` has `memory`"
    )

    @classmethod
    def of(cls, budget: MemoryBudget, parts: Parts, sources: Texts) -> Self:
        """Read a budget from the core's values."""
        plain = {term: EstimateAnswer.of(getattr(budget, term), parts, sources) for term in PLAIN_TERMS}
        return cls(
            weights=WeightsAnswer.of(budget.weights, parts, sources),
            available_kv=AvailableAnswer.of(budget.available_kv, parts, sources),
            adapters=EstimateAnswer.of(budget.adapters, parts, sources) if parts.memory else None,
            host=HostMemoryAnswer.of(budget.host, parts, sources) if parts.memory else None,
            **plain,
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
        "different ways, and some log more than one request can use"
    )
    max_concurrency: float = Field(description="Requests of the maximum length that fit at once, unrounded")
    max_model_len: int = Field(description="Tokens of the longest request that the engine accepts")
    estimated_max_model_len: int = Field(
        description="Tokens of the longest request that fits into the cache, at most `max_model_len`"
    )
    log_lines: list[str] | SkipJsonSchema[None] = optional(
        "The lines that the release logs about its cache, word for word. Left out unless `include` has "
        "`cache`"
    )
    groups: list[GroupAnswer] | SkipJsonSchema[None] = optional(
        "KV cache groups of the first pipeline stage: layers that share one block table. Left out unless "
        "`include` has `cache`"
    )

    @classmethod
    def of(cls, cache: KvCache, parts: Parts) -> Self:
        """Read a cache from the core's values."""
        return cls(
            available_bytes=cache.available_bytes,
            num_blocks=cache.num_blocks,
            bytes_per_block=cache.bytes_per_block,
            tokens=cache.tokens,
            max_concurrency=cache.max_concurrency,
            max_model_len=cache.max_model_len,
            estimated_max_model_len=cache.estimated_max_model_len,
            log_lines=list(cache.log_lines) if parts.cache else None,
            groups=[GroupAnswer.model_validate(group) for group in cache.groups] if parts.cache else None,
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


class AdmissionBlocksAnswer(Output):
    """Blocks that one request of the workload takes, and needs free before it is admitted."""

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
    admitted_by_whole_prompts: int = Field(
        description="Requests that would be admitted if the whole prompt were counted, windows included"
    )


class AdmissionAnswer(Output):
    """How many requests of the workload run at once."""

    admitted_at_once: int = Field(
        description="Requests of the workload that are admitted, each after the prompt of the one before "
        "was processed"
    )
    completed_without_preemption: int = Field(
        description="Requests that run together to their end without one of them being preempted"
    )
    waits_for: Waiting = Field(description="What the next request of the workload waits for")
    explanation: str | SkipJsonSchema[None] = optional(
        "The counts and what they mean, in sentences. Left out unless `include` has `cache`"
    )
    blocks: AdmissionBlocksAnswer | SkipJsonSchema[None] = optional(
        "Blocks of one request, by which the engine admits it. Left out unless `include` has `cache`"
    )

    @classmethod
    def of(cls, admission: Admission, parts: Parts) -> Self:
        """Read an admission from the core's values."""
        return cls(
            admitted_at_once=admission.admitted_at_once,
            completed_without_preemption=admission.completed_without_preemption,
            waits_for=admission.waits_for,
            explanation=admission.explanation if parts.cache else None,
            blocks=AdmissionBlocksAnswer.model_validate(admission) if parts.cache else None,
        )


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
        description="Bytes of tokens held for steps in flight, and of all states but the last"
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


class PrefixReuseAnswer(Output):
    """Which shared prefixes the cache gives back to later requests, so that they are not computed again."""

    step_tokens: int | None = Field(
        description="Tokens between two places at which a cached prefix can end; null where prefixes are not "
        "cached"
    )
    smallest_prefix_tokens: int | None = Field(
        description="Tokens that two prompts must have in common before anything is found in the cache; null "
        "where prefixes are not cached"
    )
    blocks: int | None = Field(
        description="Blocks of all groups that such a prefix takes; null where prefixes are not cached"
    )
    kept_when_idle: int | None = Field(
        description="Prefixes of so many tokens that stay in an idle engine; null where none are cached"
    )
    kept_beside_workload: int | None = Field(
        description="Of these, those that stay while the requests of the workload run, each at its peak; "
        "null without a workload, or where prefixes are not cached"
    )
    explanation: str = Field(description="The same in words, and why nothing is found again if so")


class CandidateAnswer(Output):
    """One way to serve the model on one GPU type."""

    verdict: Verdict = Field(description="Whether the engine starts, and whether that is certain")
    starts: bool = Field(
        description="Whether the engine gets a cache, by the middle of every interval; `verdict` says how "
        "certain that is"
    )
    gpus: int = Field(description="GPUs of one replica: tensor x pipeline x data parallel ranks")
    replicas: int | SkipJsonSchema[None] = optional(
        "Copies of this start that the GPUs of the request take, each on GPUs of its own. Left out where "
        "there is one"
    )
    tensor_parallel_size: int = Field(description="GPUs that share every layer")
    pipeline_parallel_size: int = Field(description="Pipeline stages, each on GPUs of its own")
    data_parallel_size: int = Field(
        description="Data parallel ranks of one replica, each with a cache and requests of its own"
    )
    enable_expert_parallel: bool | SkipJsonSchema[None] = optional(
        "True: each rank holds whole experts. Left out where it holds a part of every expert"
    )
    all_tokens: int | SkipJsonSchema[None] = optional(
        "Tokens of the caches of all replicas and data parallel ranks together, as the release counts them. "
        "Left out without a cache, and where there is one cache"
    )
    all_requests: float | SkipJsonSchema[None] = optional(
        "Requests of the maximum length that all replicas and data parallel ranks together hold. Left out "
        "without a cache, and where there is one cache"
    )
    kv_cache_dtype: str = Field(description="The value of `--kv-cache-dtype`")
    resolved_kv_cache_dtype: str | None = Field(
        description="The dtype in which the cache is stored; null where the start fails before it is chosen"
    )
    block_size: int | None = Field(
        description="Tokens of one block, as the engine chooses them; null where the start fails before that"
    )
    attention_backend: str | None = Field(
        description="Attention backend of most layers; null where the start fails before it is chosen"
    )
    command: str = Field(description="The command that starts this candidate")
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
    warnings: list[str] = Field(
        description="What a person should know before using it, the most important first"
    )
    prefix_reuse: PrefixReuseAnswer | SkipJsonSchema[None] = optional(
        "Which shared prefixes are found again in the cache. Left out without a cache, and unless `include` "
        "has `cache`"
    )
    notes: list[str] | SkipJsonSchema[None] = optional(
        "What its figures mean and where its cache wastes memory. Left out unless `include` has `cache`"
    )
    attention_backends: list[str] | SkipJsonSchema[None] = optional(
        "Attention backends of the layers that keep a cache, the backend of most layers first; empty where "
        "the start fails before they are chosen. Left out unless `include` has `cache`"
    )
    quality: QualityAnswer | SkipJsonSchema[None] = optional(
        "What others published about the loss of quality by this cache dtype; nothing of it is measured "
        "here. Left out unless `include` has `cache`"
    )
    waste: WasteAnswer | SkipJsonSchema[None] = optional(
        "What one request of the maximum length takes of a rank without using it. Left out without a cache, "
        "and unless `include` has `cache`"
    )

    @classmethod
    def of(cls, candidate: Candidate, parts: Parts, sources: Texts) -> Self:
        """Read a candidate from the core's values."""
        cache, memory, admission = candidate.kv_cache, candidate.memory, candidate.admission
        error, notes = candidate.error, candidate.notes
        return cls(
            verdict=candidate.verdict,
            starts=cache is not None,
            gpus=candidate.gpus,
            replicas=candidate.replicas if candidate.replicas > 1 else None,
            enable_expert_parallel=candidate.enable_expert_parallel or None,
            all_tokens=candidate.all_tokens if candidate.engines > 1 else None,
            all_requests=candidate.all_requests if candidate.engines > 1 else None,
            tensor_parallel_size=candidate.tensor_parallel_size,
            pipeline_parallel_size=candidate.pipeline_parallel_size,
            data_parallel_size=candidate.data_parallel_size,
            kv_cache_dtype=candidate.kv_cache_dtype,
            resolved_kv_cache_dtype=candidate.resolved_kv_cache_dtype,
            block_size=candidate.block_size,
            attention_backend=next(iter(candidate.attention_backends), None),
            command=candidate.command,
            error=None if error is None else ErrorAnswer.model_validate(error),
            memory=None if memory is None else MemoryAnswer.of(memory, parts, sources),
            kv_cache=None if cache is None else KvCacheAnswer.of(cache, parts),
            admission=None if admission is None else AdmissionAnswer.of(admission, parts),
            warnings=[words for words in candidate.warnings if words not in notes],
            **(_cache_part(candidate) if parts.cache else {}),
        )


def _cache_part(candidate: Candidate) -> dict[str, Any]:
    waste, reuse = candidate.waste, candidate.prefix_reuse
    return {
        "prefix_reuse": None if reuse is None else PrefixReuseAnswer.model_validate(reuse),
        "notes": list(candidate.notes),
        "attention_backends": list(candidate.attention_backends),
        "quality": QualityAnswer.model_validate(candidate.quality),
        "waste": None if waste is None else WasteAnswer.model_validate(waste),
    }


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
    completed_without_preemption: int | None = Field(
        description="Requests of the workload that finish without preemption, changed minus recommended; "
        "null without a workload"
    )
    cost: str = Field(description="What the change costs, in words; empty where nothing is known")


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
