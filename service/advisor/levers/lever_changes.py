"""Which single changes to a start are worth a dry run: flags, weights, another release, a patch."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from service.advisor.candidates.engine_start import Start
from service.advisor.candidates.plan_types import Candidate
from service.advisor.fixes.context_parallel import shared_sizes
from service.advisor.request.checkpoint_layouts import MOST_NAMED, QuantizedSibling, runnable_siblings
from service.advisor.request.plan_request import PlanRequest
from service.engines.flags import ServeFlags
from service.engines.releases import PATCHES, RELEASES
from service.gpus.gpu_type import GpuType

BATCHES: Final = (2048, 4096, 8192)
UTILIZATIONS: Final = (0.95, 0.93)
"""Shares of the memory, the largest first: the first that leaves room for a full step is a lever."""
BLOCKS: Final = (16, 32, 64, 128)


@dataclass(frozen=True, slots=True)
class LeverChange:
    """One change, as flags, as another engine or as another checkpoint of the model."""

    flag: str | None
    value: Any = None
    version: str | None = None
    patch: str | None = None
    checkpoint: QuantizedSibling | None = None
    layout: tuple[tuple[str, int | bool], ...] = ()
    """Flags that spread the start over its GPUs in another way, all at once."""

    @property
    def words(self) -> str:
        """The change as a person writes it, as a flag where it is one."""
        if self.layout:
            return " ".join(LeverChange(*each).words for each in self.layout)
        if self.flag is not None:
            option = self.flag.replace("_", "-")
            if isinstance(self.value, bool):
                return f"--{option}" if self.value else f"--no-{option}"
            return f"--{option} {self.value}"
        if self.checkpoint is not None:
            return f"checkpoint {self.checkpoint.model.id}"
        if self.patch is not None:
            return f"patch {self.patch} ({PATCHES[self.patch].status})"
        return f"vLLM {self.version}"


def changes_of(request: PlanRequest, start: Start, best: Candidate, gpu: GpuType) -> Iterator[LeverChange]:
    """Yield the changes that are worth a dry run, given the configuration of the start."""
    yield from _batch_changes(request, start)
    yield from _memory_changes(request, start, best)
    yield from _weight_changes(request, best, gpu)
    for dtype in start.engine_config.rules.dtypes.accepted:
        if dtype != best.kv_cache_dtype:
            yield LeverChange("kv_cache_dtype", dtype)
    yield from _rank_changes(request, best)
    yield from _layout_changes(request, best)
    yield from _switches(start, best.flags)
    for block in BLOCKS:
        if block != best.block_size:
            yield LeverChange("block_size", block)
    if start.engine_config.release != RELEASES[-1]:
        yield LeverChange(None, version=str(RELEASES[-1]))
    for patch in PATCHES:
        if patch not in request.engine.patches:
            yield LeverChange(None, patch=patch)


def _batch_changes(request: PlanRequest, start: Start) -> Iterator[LeverChange]:
    engine_config, workload = start.engine_config, request.workload
    batch, seqs, length = (
        engine_config.max_num_batched_tokens,
        engine_config.max_num_seqs,
        engine_config.max_model_len,
    )
    for tokens in sorted({*BATCHES, batch // 2, batch * 2} - {batch}):
        yield LeverChange("max_num_batched_tokens", tokens)
    wanted = {seqs // 2, *(() if workload is None else (workload.concurrent_requests,))}
    for number in sorted(wanted - {0, seqs}):
        yield LeverChange("max_num_seqs", number)
    needed = () if workload is None else (workload.prompt_tokens + workload.output_tokens,)
    for tokens in sorted({length // 2, *needed}):
        if 0 < tokens < length:
            yield LeverChange("max_model_len", tokens)


def _memory_changes(request: PlanRequest, start: Start, best: Candidate) -> Iterator[LeverChange]:
    given = best.flags.kv_cache_memory_bytes is not None or best.flags.num_gpu_blocks_override is not None
    if not given:
        for share in UTILIZATIONS:
            if start.engine_config.gpu_memory_utilization < share:
                yield LeverChange("gpu_memory_utilization", share)
    if request.model.architecture.media.towers and not best.flags.language_model_only:
        yield LeverChange("language_model_only", value=True)


def _weight_changes(request: PlanRequest, best: Candidate, gpu: GpuType) -> Iterator[LeverChange]:
    """Yield quantized weights: made while they load, and those of published checkpoints.

    Nothing where the request itself asks for weights that are made while they load.
    """
    if request.serve.quantization is not None:
        return
    if request.model.architecture.stores_16_bits and best.flags.quantization is None:
        yield LeverChange("quantization", best.rules.checkpoints.online_fp8)
    for sibling in islice(runnable_siblings(request, gpu), MOST_NAMED):
        yield LeverChange(None, checkpoint=sibling)


def _rank_changes(request: PlanRequest, best: Candidate) -> Iterator[LeverChange]:
    for size in (best.tensor_parallel_size // 2, best.tensor_parallel_size * 2):
        if size:
            yield LeverChange("tensor_parallel_size", size)
    for ranks in shared_sizes(request.model.architecture, best.flags, best.rules.parallelism):
        yield LeverChange("decode_context_parallel_size", ranks)


def _layout_changes(request: PlanRequest, best: Candidate) -> Iterator[LeverChange]:
    """Yield attention on data parallel ranks, where tensor parallel ones of MLA would all store one cache."""
    architecture, flags, size = request.model.architecture, best.flags, best.tensor_parallel_size
    if not (size == best.gpus > 1 and architecture.is_mla and architecture.declared.experts):
        return
    if flags.decode_context_parallel_size == 1:
        ranks = (("tensor_parallel_size", 1), ("data_parallel_size", size))
        yield LeverChange(None, layout=(*ranks, ("enable_expert_parallel", True)))


def _switches(start: Start, flags: ServeFlags) -> Iterator[LeverChange]:
    engine_config = start.engine_config
    if engine_config.concurrent_batches > engine_config.pipeline_parallel_size:
        yield LeverChange("async_scheduling", value=False)
    yield LeverChange("enable_prefix_caching", value=not engine_config.enable_prefix_caching)
    if not flags.enforce_eager:
        yield LeverChange("enforce_eager", value=True)
