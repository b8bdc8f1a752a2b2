"""One GPU type, from the catalog or given by the caller."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from service.gpus.capability import ComputeCapability
from service.units import GIB, MIB

SMALLEST_GPU: Final = 1 * GIB
LARGEST_GPU: Final = 4096 * GIB
"""Bounds on a caller's own GPU: outside them a byte count is a slip of the unit."""


class InvalidGpu(ValueError):
    """A GPU given by the caller cannot be.

    Attributes:
        field: name of the argument at fault.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field


class Vendor(StrEnum):
    """Who makes the GPU."""

    NVIDIA = "nvidia"
    AMD = "amd"


class MemoryBasis(StrEnum):
    """What the memory CUDA reports is known from, best first."""

    GIVEN = "given"
    """The caller said so."""
    PRINTED = "printed"
    """That card printed CUDA's total on native Linux."""
    DRIVER = "driver"
    """The driver's total less the usual gap of its class."""
    MARKETING = "marketing"
    """The nominal size alone."""


class EccState(StrEnum):
    """The error correction state that the memory figures are for."""

    ON = "on"
    OFF = "off"
    NO_EFFECT = "no effect"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class TotalKind(StrEnum):
    """Whose total a figure is."""

    CUDA = "cuda"
    DRIVER = "driver"


@dataclass(frozen=True, slots=True)
class TotalVariant:
    """A total that cards of the same name print in other circumstances."""

    total: str
    """As printed, with its unit."""
    of: TotalKind
    when: str


@dataclass(frozen=True, slots=True)
class GpuType:
    """A GPU type and the memory CUDA reports on it.

    ``memory_bytes`` is cudaMemGetInfo's total, which the engine multiplies by its memory utilization
    (vLLM 0.24.0, ``request_memory``); ``memory_low_bytes`` and ``memory_high_bytes`` bound it.
    """

    id: str
    name: str
    """As the driver prints it; engines look for words in it."""
    vendor: Vendor
    memory_bytes: int
    memory_low_bytes: int
    memory_high_bytes: int
    memory_basis: MemoryBasis
    source: str
    """Where the memory figure comes from, in a sentence."""
    compute_capability: ComputeCapability | None = None
    architecture: str | None = None
    """LLVM's target name (``gfx942``) where there is no compute capability."""
    unmodelled: str | None = None
    """Why nothing is planned on this type; None where it is modelled."""
    marketing_gb: int | None = None
    driver_total_mib: int | None = None
    variants: tuple[TotalVariant, ...] = ()
    ecc: EccState = EccState.UNKNOWN
    bandwidth_gb_s: float | None = None
    """Peak memory bandwidth in 10**9 bytes per second."""
    sm_count: int | None = None
    """Streaming multiprocessors; compute units for AMD."""
    nvlink: bool | None = None
    unified_memory: bool = False
    """The memory is the host's: the total and the free part move with the operating system."""
    form_factor: str | None = None
    cautions: tuple[str, ...] = ()

    def __hash__(self) -> int:
        # Shared work is found by types, most of which differ in these.
        return hash((self.id, self.memory_bytes))

    @property
    def modelled(self) -> bool:
        """Whether plans can be made for this type."""
        return self.unmodelled is None

    @property
    def driver_total_bytes(self) -> int | None:
        """The driver's total, where one is known."""
        return None if self.driver_total_mib is None else self.driver_total_mib * MIB


def inline_gpu(  # noqa: PLR0913 - the words of the contract's GPU object
    name: str,
    memory_bytes: int,
    compute_capability: ComputeCapability | str,
    *,
    bandwidth_gb_s: float | None = None,
    sm_count: int | None = None,
    unified_memory: bool = False,
) -> GpuType:
    """Return a caller's own NVIDIA GPU, whose ``memory_bytes`` is CUDA's total and taken as exact.

    Raises:
        InvalidGpu: an argument is empty or out of range; it names the field.
    """
    if not name.strip():
        raise InvalidGpu("name", "must not be empty")
    if not SMALLEST_GPU <= memory_bytes <= LARGEST_GPU:
        raise InvalidGpu(
            "memory_bytes",
            f"{memory_bytes} is not a GPU's memory in bytes ({SMALLEST_GPU} to {LARGEST_GPU})",
        )
    if bandwidth_gb_s is not None and not bandwidth_gb_s > 0:
        raise InvalidGpu("bandwidth_gb_s", f"{bandwidth_gb_s} is not positive")
    if sm_count is not None and sm_count < 1:
        raise InvalidGpu("sm_count", f"{sm_count} is not positive")
    return GpuType(
        id=name,
        name=name,
        vendor=Vendor.NVIDIA,
        memory_bytes=memory_bytes,
        memory_low_bytes=memory_bytes,
        memory_high_bytes=memory_bytes,
        memory_basis=MemoryBasis.GIVEN,
        source="given by the caller",
        compute_capability=_capability(compute_capability),
        bandwidth_gb_s=bandwidth_gb_s,
        sm_count=sm_count,
        unified_memory=unified_memory,
    )


def _capability(given: ComputeCapability | str) -> ComputeCapability:
    if isinstance(given, ComputeCapability):
        return given
    try:
        return ComputeCapability.parse(given)
    except ValueError as error:
        raise InvalidGpu("compute_capability", str(error)) from error
