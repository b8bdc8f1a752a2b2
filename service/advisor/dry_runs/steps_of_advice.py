"""Which step of the order of advice a candidate takes."""

from dataclasses import dataclass
from math import inf

from service.advisor.candidates.advice import (
    FALLBACK_BACKENDS,
    LIMITS,
    NARROW_ACTIVATIONS,
    NODES,
    STEPS,
    Step,
)
from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.verdict import Verdict
from service.advisor.dry_runs.outcome import MEMORY_DECIDES
from service.advisor.request.plan_request import Objective, PlanRequest, Workload
from service.engine_config.cache_dtype import canonical
from service.engines.flags import ServeFlags
from service.gpus.capability import ComputeCapability
from service.gpus.gpu_type import GpuType
from service.gpus.nvlink import NvlinkDomain

EIGHT_BIT_FLOATS = frozenset({"fp8", "fp8_ds_mla"})
"""Caches of 8-bit floats that published deployments use, by their canonical names."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What decides about a candidate beside its own start."""

    specified: ServeFlags
    """The flags of the request; what a candidate adds to them is advice."""
    objective: Objective = Objective.BALANCED
    workload: Workload | None = None
    node: int = LIMITS.node
    """GPUs of one node of this GPU type."""
    nvlink: NvlinkDomain | None = None
    """How NVLink joins GPUs of this type; ``None``: not known."""
    has_more: bool = False
    """Whether there is more than one GPU in any case, as the request says."""
    full_length: int = 0
    """Tokens of the context that the model has with the flags of the request."""
    prefers_fp8: bool = False
    """Whether an fp8 cache counts as no loss: the checkpoint's makers ask for it, or its layers compute in
    8 bits and a workload says that throughput matters."""

    @classmethod
    def of(cls, request: PlanRequest, gpu: GpuType, count: int | None = None) -> "Asked":
        """Return what a request asks on one GPU type; the full length is not known before a start."""
        narrow = request.workload is not None and computes_in_8_bits(request, gpu)
        return cls(
            specified=request.serve,
            objective=request.objective,
            workload=request.workload,
            node=NODES.get(gpu.id, LIMITS.node),
            nvlink=gpu.nvlink_domain,
            has_more=count is not None and count > 1,
            prefers_fp8=narrow or request.model.makers_cache_dtype == "fp8",
        )

    @property
    def joined(self) -> int:
        """GPUs that exchange over NVLink for certain."""
        return 1 if self.nvlink is None else self.nvlink.joined

    def requests(self, gpus: int) -> int:
        """Return how many requests of the maximum length so many GPUs should hold.

        One is enough for a single GPU, and where the request says what is to be served or on what.
        """
        flags = self.specified
        given = flags.max_model_len is not None or flags.tensor_parallel_size is not None
        if self.is_single(gpus) or self.workload is not None or given:
            return 1
        if 1 < gpus == self.joined < self.node:
            return 1  # a second request is not worth ranks that NVLink does not join
        half = self.joined >= self.node and gpus > 1 and gpus * 2 == self.node
        return LIMITS.requests_of_half_a_board if half else LIMITS.requests

    def is_single(self, gpus: int) -> bool:
        """Whether more than so many GPUs would mean a second GPU that nobody said is there."""
        return gpus == 1 and not self.has_more


def computes_in_8_bits(request: PlanRequest, gpu: GpuType) -> bool:
    """Whether the linear layers of the checkpoint take activations of 8 bits or fewer on this GPU type."""
    quantization = request.model.architecture.quantization
    least = None if quantization is None else NARROW_ACTIVATIONS.get(quantization.method)
    capability = gpu.compute_capability
    return least is not None and capability is not None and capability >= ComputeCapability.parse(least)


def is_fp8(candidate: Candidate) -> bool:
    """Whether the cache stores 8-bit floats as published deployments do."""
    return canonical(candidate.resolved_kv_cache_dtype or "") in EIGHT_BIT_FLOATS


def uses_fallback(candidate: Candidate) -> bool:
    """Whether the backend of most layers is one that the engine tries last."""
    return bool(candidate.attention_backends) and candidate.attention_backends[0] in FALLBACK_BACKENDS


def requests_of(candidate: Candidate) -> float:
    """Return the requests of the maximum length that one replica holds; an encoder has nothing to hold."""
    cache = candidate.kv_cache
    if candidate.caches_nothing:
        return inf
    return 0.0 if cache is None else cache.max_concurrency * candidate.flags.data_parallel_size


def holds_one(candidate: Candidate) -> bool:
    """Whether the cache, if there is one, holds a whole request of the maximum length."""
    return candidate.kv_cache is None or candidate.kv_cache.max_concurrency >= 1


def is_short_of_memory(candidate: Candidate) -> bool:
    """Whether memory that only a real start can measure decides whether it starts."""
    return candidate.verdict is Verdict.UNCERTAIN and any(
        each.startswith(MEMORY_DECIDES) for each in candidate.doubts
    )


def length_of(candidate: Candidate) -> int:
    """Return the tokens of the longest request that the engine accepts; 0 where it does not get so far.

    With ``--max-model-len auto`` that is the length to which the engine shortens the context.
    """
    cache = candidate.kv_cache
    return whole_length_of(candidate) if cache is None else cache.max_model_len


def whole_length_of(candidate: Candidate) -> int:
    """Return the tokens of the context before the engine shortens it to the memory; 0 without a start."""
    return 0 if candidate.start is None else candidate.start.engine_config.max_model_len


def loses_nothing(candidate: Candidate, asked: Asked) -> bool:
    """Whether the cache loses nothing, or no more than what was asked for or what the layers lose."""
    return (
        candidate.quality.loss == 0
        or asked.specified.kv_cache_dtype is not None
        or (asked.prefers_fp8 and is_fp8(candidate))
    )


def has_other_cache(candidate: Candidate, asked: Asked) -> bool:
    """Whether the cache loses something, and is not one of 8-bit floats."""
    return not (loses_nothing(candidate, asked) or is_fp8(candidate))


def step_of(candidate: Candidate, asked: Asked) -> Step:
    """Return the first step of the order whose conditions a candidate meets."""
    flags, specified = candidate.flags, asked.specified
    if has_other_cache(candidate, asked):
        return Step.OTHER_CACHE
    if not holds_one(candidate):
        return Step.PART_OF_A_REQUEST
    if flags.pipeline_parallel_size > specified.pipeline_parallel_size or candidate.gpus > LIMITS.node:
        return Step.SEVERAL_NODES
    if flags.quantization != specified.quantization:
        return _quantized(candidate, asked)
    if length_of(candidate) < asked.full_length:
        return _shorter(candidate, asked)
    return _whole(candidate, asked)


def _quantized(candidate: Candidate, asked: Asked) -> Step:
    """Return the step of a candidate with weights that the engine quantizes while it loads them."""
    if length_of(candidate) < min(LIMITS.tokens, asked.full_length):
        return Step.ANY_LENGTH
    # Weights of 16 bits take twice the ranks.
    joined = min(2 * candidate.gpus, asked.node) <= asked.joined
    if joined or asked.has_more or candidate.gpus > asked.node:
        return Step.QUANTIZED_WEIGHTS
    return Step.QUANTIZED_WEIGHTS_ON_ONE if candidate.gpus == 1 else Step.QUANTIZED_WEIGHTS_WITHOUT_NVLINK


def _whole(candidate: Candidate, asked: Asked) -> Step:
    """Return the step of a candidate with the full context."""
    roomy = requests_of(candidate) >= asked.requests(candidate.gpus)
    if loses_nothing(candidate, asked):
        return _whole_without_loss(candidate, asked, roomy=roomy)
    if not roomy or uses_fallback(candidate) or candidate.gpus > asked.node:
        return Step.FP8_CACHE_AT_LAST
    cheap = asked.is_single(candidate.gpus) or asked.workload is not None
    return Step.FP8_CACHE if cheap else Step.FP8_CACHE_ON_SEVERAL


def _whole_without_loss(candidate: Candidate, asked: Asked, *, roomy: bool) -> Step:
    """Return the step of a candidate with the full context and a cache that loses nothing."""
    flags, specified = candidate.flags, asked.specified
    if candidate.gpus > asked.node and specified.tensor_parallel_size is None:
        return Step.NEXT_NODE
    if flags.enable_expert_parallel and not specified.enable_expert_parallel:
        return Step.EXPERT_PARALLEL
    if not roomy:
        return Step.LITTLE_ROOM
    if flags.max_num_seqs == specified.max_num_seqs:
        return Step.FULL_LENGTH
    return Step.FEWER_SEQUENCES if asked.is_single(candidate.gpus) else Step.FEWER_SEQUENCES_ON_SEVERAL


def _shorter(candidate: Candidate, asked: Asked) -> Step:
    """Return the step of a candidate with a shorter context than the model has."""
    length, share = length_of(candidate), asked.full_length * LIMITS.percent // 100
    whole_batch = candidate.flags.max_num_seqs == asked.specified.max_num_seqs
    if loses_nothing(candidate, asked) and whole_batch:
        if asked.is_single(candidate.gpus) and length >= min(LIMITS.tokens, share):
            return Step.SHORTER_LENGTH
        if length >= share and candidate.gpus <= asked.node:
            return Step.LITTLE_ROOM
    return Step.MUCH_SHORTER_LENGTH if length >= min(LIMITS.tokens, share) else Step.ANY_LENGTH


def group_of(candidate: Candidate, asked: Asked) -> int:
    """Return the group of the candidate's step."""
    return STEPS[step_of(candidate, asked)].group
