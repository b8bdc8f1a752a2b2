"""Terms of the budget that depend on the device: its total, its free memory, and what libraries take."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, floor
from typing import Final

from service.gpus.gpu_type import GpuType, MemoryBasis
from service.memory.budget_types import Basis, Estimate
from service.memory.interval import difference, exact, from_range
from service.memory.ranges import MibRange, RankRanges, for_capability

BASES: Final = {
    MemoryBasis.GIVEN: Basis.GIVEN,
    MemoryBasis.PRINTED: Basis.MEASURED,
    MemoryBasis.DRIVER: Basis.CALIBRATED,
    MemoryBasis.MARKETING: Basis.ASSUMED,
}


@dataclass(frozen=True, slots=True)
class NonTorchGrowth(RankRanges):
    """What libraries allocate outside PyTorch during the profile run, on GPUs of some capability."""

    capability: tuple[int, int]
    """Least compute capability that the sizes are for."""
    several_eager: MibRange | None = None
    """The same on several ranks that compile nothing, where it differs."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """How tensor parallel ranks exchange their sums."""

    several: bool
    """Tensor parallelism spans more than one GPU."""
    eager: bool = False
    """Nothing is compiled, so that no pass fuses the exchange."""
    joined: bool = True
    """NVLink joins them."""


@dataclass(frozen=True, slots=True)
class Unexplained:
    """How far starts on GPUs of some capability are from the sum of their terms, in MiB."""

    capability: tuple[int, int]
    """Least compute capability that the sizes are for."""
    one: int
    several: int


@dataclass(frozen=True, slots=True)
class DeviceConstants:
    """Dated constants of a device's memory."""

    growth_mib: tuple[NonTorchGrowth, ...]
    apart_mib: MibRange
    """The growth on several ranks that NVLink does not join."""
    unified_mib: MibRange
    """The growth where the GPU shares the host's memory."""
    context_mib: RankRanges
    """What the CUDA context and the ranks' communicators hold when the engine first reads the free memory."""
    unexplained_mib: tuple[Unexplained, ...]
    """What eight of ten starts on which nothing was fitted may have more or less for the cache than the terms
    and their bounds explain, on one rank and on several.
    """
    rounds_up: bool
    """The requested share is rounded up to whole bytes, or else down."""
    sources: Mapping[str, str]


def device_total(gpu: GpuType) -> Estimate:
    """Return the bytes that CUDA reports as the total of a GPU of this type."""
    return Estimate(
        gpu.memory_bytes,
        gpu.memory_low_bytes,
        gpu.memory_high_bytes,
        BASES[gpu.memory_basis],
        gpu.source,
    )


def requested_memory(total: Estimate, share: float, constants: DeviceConstants) -> Estimate:
    """Return the bytes that ``gpu_memory_utilization`` (``share``) grants to the engine."""
    whole = ceil if constants.rounds_up else floor
    return Estimate(
        whole(total.bytes * share),
        whole(total.low * share),
        whole(total.high * share),
        total.basis,
        f"total x {share:g}; {constants.sources['rounds_up']}",
    )


def free_memory(total: Estimate, constants: DeviceConstants, *, several_ranks: bool) -> Estimate:
    """Return the bytes that are free when the engine first reads them on an otherwise idle device."""
    context, source = constants.context_mib, constants.sources["context_mib"]
    held = from_range(context.several if several_ranks else context.one, Basis.CALIBRATED, source)
    return difference(total, (held,), f"total less the CUDA context; {source}")


def non_torch_growth(
    capability: tuple[int, int],
    constants: DeviceConstants,
    ranks: Ranks,
    *,
    unified_memory: bool,
) -> Estimate:
    """Return the bytes that libraries allocate outside PyTorch during the profile run.

    ``unified_memory``: the GPU shares the host's memory.
    """
    if unified_memory:
        return from_range(constants.unified_mib, Basis.ASSUMED, constants.sources["unified_mib"])
    growth = for_capability(constants.growth_mib, capability)
    if ranks.several and not ranks.joined and (ranks.eager or growth.several_eager is None):
        return from_range(constants.apart_mib, Basis.CALIBRATED, constants.sources["apart_mib"])
    several = (growth.several_eager if ranks.eager else None) or growth.several
    size = several if ranks.several else growth.one
    return from_range(size, Basis.CALIBRATED, constants.sources["growth_mib"])


def unexplained(
    capability: tuple[int, int], constants: DeviceConstants, *, several_ranks: bool, unified_memory: bool
) -> Estimate:
    """Return by how much the memory left for the cache may differ from what the terms leave, either way.

    Terms are added as if each were wrong by itself. Where the constants come from other GPUs, several are
    wrong together, and only whole starts show by how much.
    """
    source = constants.sources["unexplained_mib"]
    if unified_memory:
        return exact(0, Basis.CALIBRATED, source)
    entry = for_capability(constants.unexplained_mib, capability)
    size = entry.several if several_ranks else entry.one
    return from_range(MibRange(0, -size, size), Basis.CALIBRATED, source)
