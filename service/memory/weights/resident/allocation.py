"""What PyTorch's caching allocator adds to the tensors of the weights.

A tensor of 10 MiB or more gets a segment of its own in multiples of 2 MiB. Of what it leaves free, the
allocator splits off only more than 1 MiB for other tensors; up to that, and all of it where
``max_split_size_mb`` forbids to split, counts as the tensor's.

Source: PyTorch, c10/cuda/CUDACachingAllocator.cpp get_allocation_size and should_split: kMinLargeAlloc,
kRoundLarge, kSmallSize.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from packaging.version import Version

from service.architecture.long_lists import LONG_LISTS
from service.architecture.model import ModelArchitecture
from service.memory.budget_types import Basis, Estimate
from service.memory.interval import around, exact
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.parameters import counted_layers, module_bytes_of, modules_beside_layers
from service.memory.weights.modules import Linear, Module, OutputEmbedding, PlainModule
from service.memory.weights.schemes.module_bytes import ModuleBytes
from service.memory.weights.weight_layout import weight_layout_at
from service.units import MIB, round_up

SOURCE: Final = "with the rests of segments of 2 MiB: PyTorch, c10/cuda/CUDACachingAllocator.cpp"
NO_RESTS: Final = exact(
    0,
    Basis.COMPUTED,
    "segments that expand are split to 512 bytes: PyTorch, c10/cuda/CUDACachingAllocator.cpp should_split",
)
OWN_SEGMENT: Final = 10 * MIB
"""Bytes from which on a tensor gets a segment of its own."""
SEGMENT_STEP: Final = 2 * MIB
LEAST_SPLIT: Final = MIB
"""The allocator splits off more than this."""
MOST_BEYOND: Final = 20 * MIB
"""A segment that is not split is given to a tensor that is less than this much smaller."""
BYTE_BITS: Final = 8


@dataclass(frozen=True, slots=True)
class Loading:
    """How weights are allocated while they load."""

    unsplit_mib: int = 0
    """MiB from which on a segment is not split; 0 where all are."""
    converts: bool = False
    """The engine quantizes an unquantized checkpoint: each layer is there in both sizes for a while."""


def segment_rests(
    architecture: ModelArchitecture,
    deployment: Parallelism,
    release: Version,
    layers: range,
    loading: Loading,
) -> Estimate:
    """Return the bytes that segments of a stage's weights have beyond the tensors, and keep for them.

    One start in ten keeps less than half of them: weights that are repacked may lie in what larger ones left,
    and logs do not tell of segments that expand, which have no rests. Qwen2.5-7B-Instruct took 14.1931
    GiB without any; Qwen2.5-14B and 72B took half and three quarters of them in three sources; all other
    starts that are logged took them all.
    """
    kernels = weight_layout_at(release).representative(deployment.compute_capability)
    size = _rests(architecture, replace(deployment, compute_capability=kernels), release, layers, loading)
    return around(size, size / 2, size, Basis.COMPUTED, SOURCE)


@LONG_LISTS.emptied
@lru_cache(maxsize=256)
def _rests(
    architecture: ModelArchitecture,
    deployment: Parallelism,
    release: Version,
    layers: range,
    loading: Loading,
) -> int:
    sizes, unsplit = module_bytes_of(architecture, deployment, release), loading.unsplit_mib * MIB

    def rests(modules: Iterable[Module]) -> int:
        return sum(rest(each, unsplit) for module in modules for each in large_tensors(module, sizes))

    size = rests(modules_beside_layers(architecture, deployment, release, layers))
    whole = replace(sizes, quantization=None) if loading.converts and unsplit else None
    for layer, count in counted_layers(architecture, deployment, release, layers):
        size += count * rests(layer)
        if whole is not None:
            size += count * _reused_by(layer, sizes, whole, unsplit)
    return size


def _reused_by(layer: Sequence[Module], sizes: ModuleBytes, whole: ModuleBytes, unsplit: int) -> int:
    """Return what the tensors of a layer that is quantized while it loads get beyond their own segments."""
    freed = sorted(each for module in layer for each in large_tensors(module, whole))
    made = (each for module in layer if sizes.scheme_of(module) for each in large_tensors(module, sizes))
    return sum(_reused(each, freed, unsplit) for each in made)


def _reused(size: int, freed: Sequence[int], unsplit: int) -> int:
    """Return what a tensor gets beyond its own segment where it gets the least freed one that is not split.

    Source: CUDACachingAllocator.cpp get_free_block: an oversized block is given as a whole, if it is less
    than max_non_split_rounding_size (20 MiB) larger.
    """
    if size < unsplit:
        return 0
    fitting = next((each for each in freed if size <= each < size + MOST_BEYOND), size)
    return _segment(fitting) - _segment(size)


def _segment(size: int) -> int:
    return round_up(size, SEGMENT_STEP)


def rest(size: int, unsplit: int) -> int:
    """Return what the segment of a tensor has beyond it, and keeps for it.

    Args:
        size: bytes of the tensor.
        unsplit: bytes from which on a segment is not split; 0 where all are.
    """
    if size < OWN_SEGMENT:
        return 0
    beyond = _segment(size) - size
    return beyond if beyond <= LEAST_SPLIT or (unsplit and size >= unsplit) else 0


def large_tensors(module: Module, sizes: ModuleBytes) -> Iterator[int]:
    """Yield the bytes of a module's matrices; scales and biases share segments."""
    if isinstance(module, PlainModule | OutputEmbedding):
        yield sizes.module(module)
        return
    scheme = sizes.scheme_of(module)
    bits = BYTE_BITS * sizes.element_bytes if scheme is None else scheme.bits
    if isinstance(module, Linear):
        yield module.inputs * sum(module.outputs) * bits // BYTE_BITS
    else:
        for width in (module.first_width, module.intermediate_size):
            yield module.count * module.hidden_size * width * bits // BYTE_BITS
