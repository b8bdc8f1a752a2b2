"""GpuType: one type of GPU, from the catalog or given by the caller."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from service.gpus.capability import ComputeCapability
from service.gpus.nvlink import NvlinkDomain
from service.units import GIB, MIB

SMALLEST_GPU: Final = 1 * GIB
LARGEST_GPU: Final = 4096 * GIB
"""Limits for a caller's own GPU: a byte count outside them is probably given in another unit."""


class InvalidGpu(ValueError):
    """A GPU given by the caller is not valid.

    Attributes:
        field: name of the invalid argument.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field


class Vendor(StrEnum):
    """The maker of the GPU."""

    NVIDIA = "nvidia"
    AMD = "amd"


class MemoryBasis(StrEnum):
    """The evidence for the memory that CUDA reports, the best first."""

    GIVEN = "given"
    """The caller gave it."""
    PRINTED = "printed"
    """CUDA's total was printed on native Linux for that card."""
    DRIVER = "driver"
    """The driver's total minus the usual gap of cards of its kind."""
    MARKETING = "marketing"
    """Only the nominal size is known."""


class EccState(StrEnum):
    """The state of error correction (ECC) to which the memory figures apply."""

    ON = "on"
    OFF = "off"
    NO_EFFECT = "no effect"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class TotalKind(StrEnum):
    """Which total a figure is: CUDA's or the driver's."""

    CUDA = "cuda"
    DRIVER = "driver"


@dataclass(frozen=True, slots=True)
class TotalVariant:
    """A total that is printed for cards of the same name under other conditions."""

    total: str
    """The total as printed, with its unit."""
    of: TotalKind
    when: str
    """The conditions."""


@dataclass(frozen=True, slots=True)
class GpuType:
    """A GPU type and the memory CUDA reports on it.

    ``memory_bytes`` is cudaMemGetInfo's total, which the engine multiplies by its memory utilization
    (vLLM 0.24.0, ``request_memory``); ``memory_low_bytes`` and ``memory_high_bytes`` bound it.
    """

    id: str
    name: str
    """The name as the driver prints it; engines look for words in it."""
    vendor: Vendor
    memory_bytes: int
    memory_low_bytes: int
    memory_high_bytes: int
    memory_basis: MemoryBasis
    source: str
    """Where the memory figure comes from, in a sentence."""
    compute_capability: ComputeCapability | None = None
    architecture: str | None = None
    """LLVM's target name (``gfx942``) if there is no compute capability."""
    unmodelled: str | None = None
    """Why this type cannot be planned; None where it can."""
    marketing_gb: int | None = None
    driver_total_mib: int | None = None
    variants: tuple[TotalVariant, ...] = ()
    ecc: EccState = EccState.UNKNOWN
    bandwidth_gb_s: float | None = None
    """Peak memory bandwidth in 10**9 bytes per second."""
    sm_count: int | None = None
    """Streaming multiprocessors; compute units for AMD."""
    nvlink_domain: NvlinkDomain | None = None
    """How NVLink joins GPUs of this type; ``None``: not known."""
    unified_memory: bool = False
    """The GPU uses the host's memory: the total and the free part depend on the operating system."""
    form_factor: str | None = None
    cautions: tuple[str, ...] = ()
    is_slice: bool = False
    """A MIG instance: a process sees one of them alone, so the engine runs on one."""

    def __hash__(self) -> int:
        # Types are keys of caches; these two fields are enough for a fast hash that differs for most types.
        return hash((self.id, self.memory_bytes))

    @property
    def modelled(self) -> bool:
        """Whether plans can be made for this type."""
        return self.unmodelled is None

    @property
    def nvlink(self) -> bool | None:
        """Whether GPUs of this type can be joined by NVLink; ``None``: not known."""
        return None if self.nvlink_domain is None else self.nvlink_domain.gpus > 1

    @property
    def nvlink_gpus(self) -> int | None:
        """How many GPUs NVLink joins at most; ``None``: not known."""
        return None if self.nvlink_domain is None else self.nvlink_domain.gpus

    @property
    def nvlink_bought_apart(self) -> bool | None:
        """Whether a machine has NVLink only where somebody bought it; ``None``: not known."""
        return None if self.nvlink_domain is None else self.nvlink_domain.bought_apart

    def with_nvlink_promised(self) -> "GpuType":
        """Return the type in a machine that has the NVLink that is bought apart, if there is one for it."""
        domain = self.nvlink_domain
        return self if domain is None else replace(self, nvlink_domain=domain.with_promise())

    @property
    def joined_gpus(self) -> int:
        """How many GPUs exchange over NVLink for certain; 1 where it is not known or not promised."""
        return 1 if self.nvlink_domain is None else self.nvlink_domain.joined

    @property
    def driver_total_bytes(self) -> int | None:
        """The driver's total in bytes; None where unknown."""
        return None if self.driver_total_mib is None else self.driver_total_mib * MIB


def inline_gpu(  # noqa: PLR0913 - the fields of the API's GPU object
    name: str,
    memory_bytes: int,
    compute_capability: ComputeCapability | str,
    *,
    bandwidth_gb_s: float | None = None,
    sm_count: int | None = None,
    unified_memory: bool = False,
) -> GpuType:
    """Return a caller's own NVIDIA GPU. ``memory_bytes`` is CUDA's total and is taken as exact.

    Raises:
        InvalidGpu: an argument is empty or out of range; `field` names it.
    """
    if not name.strip():
        raise InvalidGpu("name", "must not be empty")
    if not SMALLEST_GPU <= memory_bytes <= LARGEST_GPU:
        raise InvalidGpu(
            "memory_bytes",
            f"{memory_bytes} is not a GPU's memory in bytes ({SMALLEST_GPU} to {LARGEST_GPU})"
            f"{_with_unit(memory_bytes)}",
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


def _with_unit(number: int) -> str:
    """Return, in words, with which unit a number is a GPU's memory: GB as sold, MiB as drivers print."""
    if SMALLEST_GPU <= number * GIB <= LARGEST_GPU:
        return f"; with its unit: {number}GB, or {number}GiB"
    return f"; with its unit: {number}MiB" if SMALLEST_GPU <= number * MIB <= LARGEST_GPU else ""


def _capability(given: ComputeCapability | str) -> ComputeCapability:
    if isinstance(given, ComputeCapability):
        return given
    try:
        return ComputeCapability.parse(given)
    except ValueError as error:
        raise InvalidGpu("compute_capability", str(error)) from error
