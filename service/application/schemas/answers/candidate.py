"""One candidate in an answer, and changes to it."""

from typing import Annotated

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from service.advisor.candidates.lever_costs import LeverCost
from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.verdict import Verdict
from service.advisor.dry_runs.concurrency_curve import CurvePoint, concurrency_curve
from service.application.schemas.answers.admission import AdmissionAnswer
from service.application.schemas.answers.kv_cache import KvCacheAnswer, PrefixReuseAnswer, WasteAnswer
from service.application.schemas.answers.memory import MemoryAnswer
from service.application.schemas.answers.refusal import ErrorAnswer
from service.application.schemas.answers.speed import CostAnswer, SpeedAnswer
from service.application.schemas.base import Output, optional
from service.application.schemas.members import From, In, SaidOnce
from service.engines.cache_quality import Published


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


def _starts(candidate: Candidate) -> bool:
    runs = candidate.caches_nothing and candidate.verdict is not Verdict.REFUSED
    return candidate.kv_cache is not None or runs


def _caches_nothing(candidate: Candidate) -> bool | None:
    return candidate.caches_nothing or None


def _replicas(candidate: Candidate) -> int | None:
    return candidate.replicas if candidate.replicas > 1 else None


def _expert_parallel(candidate: Candidate) -> bool | None:
    return candidate.enable_expert_parallel or None


def _all_tokens(candidate: Candidate) -> int | None:
    return candidate.all_tokens if candidate.engines > 1 else None


def _all_requests(candidate: Candidate) -> float | None:
    return candidate.all_requests if candidate.engines > 1 else None


def _backend_of_most(candidate: Candidate) -> str | None:
    return next(iter(candidate.attention_backends), None)


def _curve(candidate: Candidate) -> tuple[CurvePoint, ...] | None:
    return concurrency_curve(candidate) or None


class CandidateAnswer(Output):
    """One way to serve the model on one GPU type."""

    verdict: Verdict = Field(description="Whether the engine starts, and whether that is certain")
    starts: Annotated[bool, From(_starts)] = Field(
        description="Whether the engine gets a cache, by the middle of every interval, or needs none; "
        "`verdict` says how certain that is"
    )
    caches_nothing: Annotated[bool | SkipJsonSchema[None], From(_caches_nothing)] = optional(
        "True: the model is an encoder, for which the engine sets up no KV cache, so that "
        "`max_num_batched_tokens` and `max_num_seqs` alone limit requests. Left out for models with a cache"
    )
    gpus: int = Field(description="GPUs of one replica: tensor x pipeline x data parallel ranks")
    replicas: Annotated[
        int | SkipJsonSchema[None],
        From(_replicas),
    ] = optional(
        "Copies of this start that the GPUs of the request take, each on GPUs of its own. Left out where "
        "there is one"
    )
    tensor_parallel_size: int = Field(description="GPUs that share every layer")
    pipeline_parallel_size: int = Field(description="Pipeline stages, each on GPUs of its own")
    data_parallel_size: int = Field(
        description="Data parallel ranks of one replica, each with a cache and requests of its own"
    )
    enable_expert_parallel: Annotated[bool | SkipJsonSchema[None], From(_expert_parallel)] = optional(
        "True: each rank holds whole experts. Left out where it holds a part of every expert"
    )
    all_tokens: Annotated[
        int | SkipJsonSchema[None],
        From(_all_tokens),
    ] = optional(
        "Tokens of the caches of all replicas and data parallel ranks together, as the release counts them. "
        "Left out without a cache, and where there is one cache"
    )
    all_requests: Annotated[
        float | SkipJsonSchema[None],
        From(_all_requests),
    ] = optional(
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
    attention_backend: Annotated[str | None, From(_backend_of_most)] = Field(
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
        description="The cache that the engine makes of its memory; null where it gets or needs none"
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
    warnings: Annotated[list[str], From("own_warnings"), SaidOnce()] = Field(
        description="What a person should know before using it, the most important first, without "
        "`common_warnings`. Shortened where it is repeated, as `error.message` is"
    )
    prefix_reuse: Annotated[PrefixReuseAnswer | SkipJsonSchema[None], In("cache")] = optional(
        "Which shared prefixes are found again in the cache. Left out without a cache, and unless `include` "
        "has `cache`"
    )
    notes: Annotated[list[str] | SkipJsonSchema[None], In("cache")] = optional(
        "What its figures mean and where its cache wastes memory. Left out unless `include` has `cache`"
    )
    attention_backends: Annotated[list[str] | SkipJsonSchema[None], In("cache")] = optional(
        "Attention backends of the layers that keep a cache, the backend of most layers first; empty where "
        "the start fails before they are chosen. Left out unless `include` has `cache`"
    )
    quality: Annotated[QualityAnswer | SkipJsonSchema[None], In("cache")] = optional(
        "What others published about the loss of quality by this cache dtype; nothing of it is measured "
        "here. Left out unless `include` has `cache`"
    )
    waste: Annotated[WasteAnswer | SkipJsonSchema[None], In("cache")] = optional(
        "What one request of the maximum length takes of a rank without using it. Left out without a cache, "
        "and unless `include` has `cache`"
    )

    curve: Annotated[
        list[CurvePointAnswer] | SkipJsonSchema[None],
        In("curve"),
        From(_curve),
    ] = optional(
        "How many requests of which length run at once and finish without preemption, the shortest first. "
        "Left out without a cache, and unless `include` has `curve`"
    )


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
    checkpoint: str | None = Field(
        description="Id of the quantized checkpoint of the model that the change is to, planned from its "
        "config where that is bundled, else from the layout that its name stands for; null where the change "
        "is not a checkpoint"
    )
    command: str = Field(description="The command with the change")
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
    costs: list[LeverCost] = Field(
        description="The same in one word group each, the heaviest first: `free`; `media` (images, video and "
        "audio); `prefill` (later first tokens); `accuracy`, `much_accuracy`; `speed`; `start_time`; "
        "`requests` (fewer at once, or shorter ones); `gpus`; `release`; `build` (from source); `risk` "
        "(memory may run out, or the start is uncertain)"
    )
    published: Published = Field(
        description="What stands behind the published loss of accuracy: `figures` of several models, "
        "those of `one_model`, the account of a `vendor`, or `nothing`"
    )
    part: float = Field(
        description="What it adds, as a part of what the candidate has: 1 doubles it. In requests of the "
        "workload where there is one, else in requests of the maximum length. Changes below 0.05 are last"
    )
    weight_bytes: int | None = Field(
        description="Bytes of the weights of `checkpoint`: of its files where these are known, else computed "
        "from the layout that its name stands for; null where `checkpoint` is"
    )
    longest_context: int | None = Field(
        description="Tokens of the context that is sure to fit with the change, where the recommended one "
        "was shortened to fit and this one is longer; null elsewhere"
    )
