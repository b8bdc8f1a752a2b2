"""The candidates of one GPU type: which flags are tried, in rounds, until something serves."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from service.advisor.candidates.advice import LIMITS, MACHINES, STEPS, Step
from service.advisor.candidates.advice import NODES as GPUS_OF_A_NODE
from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.verdict import Verdict
from service.advisor.dry_runs.aliases import COMMON
from service.advisor.dry_runs.engine_steps import EngineSteps, FailedStart
from service.advisor.dry_runs.grid import GridOfLength, grid_of
from service.advisor.dry_runs.steps_of_advice import (
    Asked,
    group_of,
    holds_one,
    is_short_of_memory,
    loses_nothing,
    uses_fallback,
    whole_length_of,
)
from service.advisor.fixes.captured_sequences import captured_sequences
from service.advisor.fixes.combined_changes import denser_cache
from service.advisor.fixes.fix_attempt import LENGTH_STEP, FixAttempt, longest_length, sure
from service.advisor.ranking.service_level import Service, service_of
from service.advisor.request.plan_request import PlanRequest
from service.changed import changed
from service.engines.flags import ServeFlags
from service.engines.refusal import Stage
from service.gpus.gpu_type import GpuType

TENSOR_PARALLEL_SIZES: Final = (1, 2, 4, 8)
"""Sizes tried if the caller gives none: those of one node."""
NODES: Final = (2, 4)
"""Nodes tried, with one pipeline stage each, if one node has too little memory."""
IN_ONE_NODE: Final = STEPS[Step.MUCH_SHORTER_LENGTH].group
"""The last group of steps of one node that leave the weights as they are."""

Try = Callable[[Iterable[ServeFlags]], tuple[Candidate, ...]]
"""Plans flags; leaves out what is not offered."""
TryGrid = Callable[[GridOfLength], tuple[Candidate, ...]]
"""The same for flags that are planned together."""


@dataclass(frozen=True, slots=True)
class Field:
    """What candidates are searched for."""

    request: PlanRequest
    steps: EngineSteps
    gpu: GpuType
    most: int | None
    """GPUs that there are; ``None`` where that is not specified."""
    run: Try
    run_grid: TryGrid

    @property
    def specified(self) -> ServeFlags:
        """The flags of the request."""
        return self.request.serve

    @property
    def is_pinned(self) -> bool:
        """Whether the request tells both the cache dtype and the GPUs, so that it asks about one start."""
        return self.specified.kv_cache_dtype is not None and self.specified.tensor_parallel_size is not None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Tensor parallel sizes to try."""
        if self.specified.tensor_parallel_size is not None:
            return (self.specified.tensor_parallel_size,)
        others = self.specified.pipeline_parallel_size * self.specified.data_parallel_size
        sizes = [size for size in TENSOR_PARALLEL_SIZES if self.has(size * others)]
        return tuple(sizes) or TENSOR_PARALLEL_SIZES[:1]

    @property
    def cache_dtypes(self) -> tuple[str, ...]:
        """Cache dtypes to try; an encoder has no cache."""
        encodes = self.request.model.architecture.encodes
        return COMMON[:1] if encodes else self.steps.rules.dtypes.accepted

    def first_round(self) -> tuple[Candidate, ...]:
        """Plan the start that is asked for; each cache dtype at each size where these are left out."""
        if self.is_pinned:
            return self.run((self.specified,))
        return self.run_grid(grid_of(self.specified, self.cache_dtypes, self.sizes))

    @property
    def has_experts(self) -> bool:
        """Whether the model has routed experts, which whole ranks may hold."""
        return bool(self.request.model.architecture.declared.experts)

    def has(self, gpus: int) -> bool:
        """Whether there are as many GPUs; without a number, as many as machines of the type are connected."""
        if self.most is not None:
            return gpus <= self.most
        machines = MACHINES.get(self.gpu.id)
        return machines is None or gpus <= machines * GPUS_OF_A_NODE.get(self.gpu.id, LIMITS.node)


def candidates_of(field: Field, asked: Asked) -> tuple[tuple[Candidate, ...], Asked]:
    """Return all candidates, and what was asked with the length that the model has."""
    found = field.first_round()
    asked = replace(asked, full_length=max(map(whole_length_of, found), default=0))
    if field.is_pinned:
        return found, asked
    usual = [each for each in found if _is_usual(each, asked)]
    remedied = field.run(_remedies(field, usual))
    found += (*remedied, *field.run(_remedies(field, remedied)))
    for more in (_experts, _fp8_shorter, _quantized, _quantized_shorter, _quantized_fp8, _over_nodes):
        found += field.run(more(field, found, asked))
    return found, asked


def _is_usual(candidate: Candidate, asked: Asked) -> bool:
    """Whether a candidate has a cache that is tried first: the given one, or a common one without loss."""
    specified = asked.specified.kv_cache_dtype
    return candidate.kv_cache_dtype in ((specified,) if specified else COMMON) and loses_nothing(
        candidate, asked
    )


def _remedies(field: Field, candidates: Iterable[Candidate]) -> Iterator[ServeFlags]:
    """Yield candidates with a shorter context or with fewer sequences, where they are not sure to serve.

    Those are not sure to start, or hold less than one request of their length.
    """
    for candidate in candidates:
        if candidate.verdict is not Verdict.STARTS or not holds_one(candidate):
            yield from shorter(field, candidate)
            yield from fewer_sequences(field, candidate)


def shorter(field: Field, candidate: Candidate) -> Iterator[ServeFlags]:
    """Yield the longest context that is sure to fit the memory, where the workload fits into it."""
    flags = candidate.flags
    error = candidate.error
    if field.specified.max_model_len is not None or (error is not None and error.stage is not Stage.MEMORY):
        return
    yield from _sure_length(field, flags)


def _sure_length(field: Field, flags: ServeFlags) -> Iterator[ServeFlags]:
    """Yield flags with the longest context that is sure to fit, where it is shorter than theirs."""
    started = field.steps.start(flags, field.gpu)
    if isinstance(started, FailedStart) or started.start.layout.caches_nothing:
        return
    longest = longest_length(field.request, flags, field.steps, field.gpu, sure)
    length = longest // LENGTH_STEP * LENGTH_STEP
    if _needed(field) <= length < started.start.engine_config.max_model_len:
        yield flags.of_length(length)


def _needed(field: Field) -> int:
    """Return the fewest tokens that a context must have."""
    workload = field.request.workload
    return LENGTH_STEP if workload is None else workload.prompt_tokens + max(1, workload.output_tokens)


def fewer_sequences(field: Field, candidate: Candidate) -> Iterator[ServeFlags]:
    """Yield as many sequences as there are sure to be recurrent states to capture CUDA graphs with."""
    if field.specified.max_num_seqs is None:
        seqs = captured_sequences(field.request, candidate.flags, field.steps, field.gpu)
        if seqs:
            yield changed(candidate.flags, max_num_seqs=seqs)


def _experts(field: Field, found: tuple[Candidate, ...], asked: Asked) -> Iterator[ServeFlags]:
    """Yield layouts with whole experts on each rank: tensor parallel attention, or a replica of it a rank.

    With one replica of attention on each rank every rank stores the cache of its own requests. Tensor
    parallel ranks of multi-head latent attention (MLA) store the same cache each.
    """
    specified = field.specified
    if (
        not field.has_experts
        or specified.enable_expert_parallel
        or specified.tensor_parallel_size is not None
    ):
        return
    if specified.data_parallel_size > 1 or specified.pipeline_parallel_size > 1:
        return
    size = field.sizes[-1]
    plain = not asked.prefers_fp8 and any(each.kv_cache_dtype == "auto" for each in found)
    dtype = specified.kv_cache_dtype or COMMON[0 if plain else 1]
    usual = changed(specified, kv_cache_dtype=dtype, enable_expert_parallel=True)
    if size > 1:
        yield changed(usual, tensor_parallel_size=size)
        yield changed(usual, tensor_parallel_size=1, data_parallel_size=size)
    if size > 2 and not _is_served(found, asked):  # noqa: PLR2004 - half of it would be one GPU
        yield changed(usual, tensor_parallel_size=1, data_parallel_size=size // 2)


def _is_served(found: Iterable[Candidate], asked: Asked) -> bool:
    """Whether something in one node serves all that is asked with the weights as they are."""
    return any(
        each.may_serve
        and group_of(each, asked) <= IN_ONE_NODE
        and service_of(each, asked.workload) is Service.WHOLE
        for each in found
    )


def _starts(found: Iterable[Candidate], asked: Asked) -> bool:
    """Whether something in one node starts with the weights as they are."""
    return any(each.may_serve and group_of(each, asked) <= IN_ONE_NODE for each in found)


def _fp8_shorter(field: Field, found: tuple[Candidate, ...], asked: Asked) -> Iterator[ServeFlags]:
    """Yield shorter contexts with an fp8 cache, where nothing else starts in one node.

    Not with a backend that the engine tries last, unless the cache without loss takes such a one too.
    """
    if _starts(found, asked):
        return
    slow = {each.tensor_parallel_size for each in found if _is_usual(each, asked) and uses_fallback(each)}
    for candidate in found:
        if candidate.kv_cache_dtype == "fp8" and (
            not uses_fallback(candidate) or candidate.tensor_parallel_size in slow
        ):
            yield from shorter(field, candidate)


def _quantized(field: Field, found: tuple[Candidate, ...], asked: Asked) -> Iterator[ServeFlags]:
    """Yield starts with weights that the engine quantizes, on fewer GPUs than 16-bit weights need."""
    specified = field.specified
    if specified.quantization is not None or not field.request.model.architecture.stores_16_bits:
        return
    # Ranks that NVLink does not join are spared before a step that takes more of them for the weights' sake.
    last = STEPS[Step.QUANTIZED_WEIGHTS_WITHOUT_NVLINK].group
    able = [
        each
        for each in found
        if each.may_serve and group_of(each, asked) <= (IN_ONE_NODE if _is_joined(each, asked) else last)
    ]
    fewest = min((each.gpus for each in able), default=None)
    if fewest is not None and all(map(is_short_of_memory, able)):
        fewest += 1  # on as many GPUs: those may start, and weights of 8 bits may be sure to
    fp8, dtype = field.steps.rules.checkpoints.online_fp8, specified.kv_cache_dtype or "auto"
    for size in field.sizes:
        if fewest is None or size < fewest:
            yield replace(specified, kv_cache_dtype=dtype, tensor_parallel_size=size, quantization=fp8)


def _is_joined(candidate: Candidate, asked: Asked) -> bool:
    """Whether its ranks cost no more than fewer: NVLink joins them, or there are several GPUs anyway."""
    return asked.has_more or asked.joined >= asked.node or 1 < candidate.gpus <= asked.joined


def _quantized_shorter(field: Field, found: tuple[Candidate, ...], asked: Asked) -> Iterator[ServeFlags]:
    """Yield the same with a remedy, where they do not start."""
    changed = [each for each in found if each.flags.quantization != asked.specified.quantization]
    yield from _remedies(field, changed)


def _quantized_fp8(field: Field, found: tuple[Candidate, ...], asked: Asked) -> Iterator[ServeFlags]:
    """Yield the same with an fp8 cache, where the contexts of all others are shorter than one should keep."""
    if field.specified.kv_cache_dtype is not None or any(
        each.may_serve
        and not is_short_of_memory(each)
        and group_of(each, asked) <= STEPS[Step.QUANTIZED_WEIGHTS].group
        for each in found
    ):
        return
    for size in field.sizes:
        flags = (
            each.flags
            for each in found
            if each.flags.quantization != asked.specified.quantization and each.tensor_parallel_size == size
        )
        quantized = next((each.of_length(field.specified.max_model_len) for each in flags), None)
        if quantized is not None:
            start = FixAttempt("", quantized, field.steps.rules)
            for denser in denser_cache(start, field.steps, field.gpu):
                yield denser.flags
                if field.specified.max_model_len is None:
                    yield from _sure_length(field, denser.flags)


def _over_nodes(field: Field, found: tuple[Candidate, ...], asked: Asked) -> Iterator[ServeFlags]:
    """Yield the candidates with most ranks over several nodes, if one node has too little memory."""
    specified = field.specified
    if specified.tensor_parallel_size is not None or specified.pipeline_parallel_size > 1:
        return
    if _starts(found, asked):
        return
    for candidate in found:
        short = candidate.error is not None and candidate.error.stage is Stage.MEMORY
        whole = candidate.flags.max_model_len == specified.max_model_len and not candidate.flags.quantization
        if short and whole and candidate.tensor_parallel_size == LIMITS.node:
            for nodes in NODES:
                if field.has(nodes * LIMITS.node):
                    yield changed(candidate.flags, pipeline_parallel_size=nodes)
