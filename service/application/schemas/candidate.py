"""One candidate in an answer, and changes to it."""

from typing import Any, Self

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from service.advisor.concurrency_curve import concurrency_curve
from service.advisor.plan_types import Candidate, Verdict
from service.application.schemas.admission import AdmissionAnswer
from service.application.schemas.base import Output, optional
from service.application.schemas.kv_cache import KvCacheAnswer, PrefixReuseAnswer, WasteAnswer
from service.application.schemas.memory import MemoryAnswer
from service.application.schemas.parts import Parts, Texts
from service.application.schemas.refusal import ErrorAnswer
from service.application.schemas.speed import CostAnswer, SpeedAnswer


class QualityAnswer(Output):
    """What is published about the loss of quality by a cache dtype."""

    loss: int = Field(
        description="Rank of the cache dtype by published loss of quality: 0 for none, a greater number for "
        "more"
    )
    effect: str = Field(description="What the source reports, in short")
    source: str = Field(description="Where that is published; `none` where nothing is")


class CurvePointAnswer(Output):
    """How many requests of one length run at once and finish without preemption."""

    tokens: int = Field(
        description="Tokens of a request: a prompt, and an answer of as many tokens as the workload's, or one"
    )
    requests: int = Field(description="Number of such requests, of all replicas together")
    low: int = Field(description="The same with the 10th percentile of the memory for the cache")
    high: int = Field(description="The same with the 90th percentile of the memory for the cache")


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
    speed: SpeedAnswer | SkipJsonSchema[None] = optional(
        "How fast it serves the workload. Left out without a workload with output tokens, without a cache, "
        "with draft tokens, and on GPU types whose peaks are not known"
    )
    cost: CostAnswer | SkipJsonSchema[None] = optional(
        "What it costs at this speed. Left out without a speed, and where no price of the GPU type is known"
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

    curve: list[CurvePointAnswer] | SkipJsonSchema[None] = optional(
        "How many requests of which length run at once and finish without preemption, the shortest first. "
        "Left out without a cache, and unless `include` has `curve`"
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
            speed=None if candidate.speed is None else SpeedAnswer.model_validate(candidate.speed),
            cost=None if candidate.cost is None else CostAnswer.model_validate(candidate.cost),
            warnings=[words for words in candidate.warnings if words not in notes],
            **(_cache_part(candidate) if parts.cache else {}),
            curve=_curve(candidate) if parts.curve else None,
        )


def _curve(candidate: Candidate) -> list[CurvePointAnswer] | None:
    return [CurvePointAnswer.model_validate(point) for point in concurrency_curve(candidate)] or None


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
