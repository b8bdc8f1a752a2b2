"""The tensors that a rank of a planned start allocates, for a probe that allocates the same."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from service.advisor.candidates.plan_types import Candidate
from service.advisor.dry_runs.budget_inputs import budget_inputs
from service.gpus.gpu_type import GpuType
from service.kv_cache.specs import each_layer
from service.memory.weights.counts.parameters import parameter_tensors
from service.memory.weights.schemes.online_quantization import quantized_online


@dataclass(frozen=True, slots=True)
class PlannedTensors:
    """Sizes of tensors, in bytes."""

    weights: tuple[int, ...]
    """Of the modules; their sum is the weights of the rank."""
    cache: tuple[int, ...]
    """Of the cache: one for each layer of the widest group. The other groups share these tensors."""


def planned_tensors(candidate: Candidate, gpu: GpuType) -> PlannedTensors:
    """Return the tensors of a candidate that starts.

    Raises:
        ValueError: the candidate has no cache.
    """
    start, memory, cache = candidate.start, candidate.memory, candidate.kv_cache
    if start is None or memory is None or cache is None:
        raise ValueError("a candidate without a cache has no tensors")
    inputs = budget_inputs(candidate.model, start, candidate.flags, gpu, None)
    stored = quantized_online(start.architecture, inputs.quantization)
    modules = parameter_tensors(stored, inputs.deployment, inputs.release)
    widest = max(start.layout.stages[0], key=lambda group: group.bytes_per_block)
    pages = [spec.page_size for _, spec in each_layer(widest.layers)]
    return PlannedTensors(
        weights=tuple(_fitted(modules, memory.weights.bytes)),
        cache=tuple(
            page * cache.num_blocks for page in _fitted(pages, cache.bytes_per_block) if cache.num_blocks
        ),
    )


def _fitted(sizes: Sequence[int], whole: int) -> Iterator[int]:
    """Yield sizes until their sum is the whole; the last one is cut, or one more is added, to reach it."""
    left = whole
    for size in sizes:
        if left <= 0:
            return
        yield min(size, left)
        left -= size
    if left > 0:
        yield left
