"""Answers about GPU types."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from service.application.schemas.base import Output
from service.gpus.capability import ComputeCapability
from service.gpus.gpu_type import (
    EccState,
    MemoryBasis,
    TotalKind,
    Vendor,
)


def _capability_text(given: object) -> object:
    return str(given) if isinstance(given, ComputeCapability) else given


class TotalVariantAnswer(Output):
    """A total that cards of the same name print in other circumstances."""

    total: str = Field(description="The total as printed, with its unit")
    of: TotalKind = Field(description="Whether CUDA or the driver prints it")
    when: str = Field(description="In which circumstances it is printed")


class PlannedGpuAnswer(Output):
    """A GPU type that was planned; GET /v1/gpus/{gpu_id} says more."""

    id: str = Field(description="Id of the GPU type; the given name for a GPU of the caller's own")
    name: str = Field(description="Name as the driver prints it")
    memory_bytes: int = Field(description="Total memory in bytes, as CUDA reports it (`cudaMemGetInfo`)")
    compute_capability: Annotated[str | None, BeforeValidator(_capability_text)] = Field(
        description="CUDA compute capability, such as `8.6`; null for GPUs that have none"
    )


class GpuAnswer(Output):
    """A GPU type and the memory CUDA reports on it."""

    id: str = Field(description="Id of the GPU type; the given name for a GPU of the caller's own")
    name: str = Field(description="Name as the driver prints it")
    vendor: Vendor = Field(description="Who makes the GPU")
    memory_bytes: int = Field(description="Total memory in bytes, as CUDA reports it (`cudaMemGetInfo`)")
    memory_low_bytes: int = Field(description="The least that the total may be, in bytes")
    memory_high_bytes: int = Field(description="The most that the total may be, in bytes")
    memory_basis: MemoryBasis = Field(description="Where the total is known from")
    source: str = Field(description="Where the total is known from, in a sentence")
    compute_capability: Annotated[str | None, BeforeValidator(_capability_text)] = Field(
        description="CUDA compute capability, such as `8.6`; null for GPUs that have none"
    )
    architecture: str | None = Field(
        description="LLVM's name of the target, such as `gfx942`, for GPUs without a compute capability; "
        "null otherwise"
    )
    modelled: bool = Field(description="Whether plans can be made for this type")
    unmodelled: str | None = Field(description="Why no plans can be made for this type; null where they can")
    marketing_gb: int | None = Field(description="Nominal size in GB; null where it is not known")
    driver_total_bytes: int | None = Field(
        description="Total memory in bytes, as the driver reports it (`nvidia-smi`); null where it is not "
        "known"
    )
    variants: list[TotalVariantAnswer] = Field(
        description="Totals that cards of the same name print in other circumstances"
    )
    ecc: EccState = Field(description="The error correction state that the memory figures are for")
    bandwidth_gb_s: float | None = Field(
        description="Peak memory bandwidth in 10^9 bytes per second; null where it is not known"
    )
    sm_count: int | None = Field(
        description="Streaming multiprocessors, or compute units of AMD GPUs; null where their number is "
        "not known"
    )
    nvlink: bool | None = Field(
        description="Whether GPUs of this type can be joined by NVLink; null where that is not known"
    )
    nvlink_gpus: int | None = Field(
        description="How many GPUs NVLink joins, all with all: 2 by a bridge, 8 on a board, 1 without; "
        "null where that is not known"
    )
    nvlink_bought_apart: bool | None = Field(
        description="Whether cards work without what joins them, as without a bridge: it is counted on only "
        "where the request says `nvlink_bridge`; null where that is not known"
    )
    unified_memory: bool = Field(
        description="Whether the GPU uses the host's memory, so that total and free memory depend on the "
        "operating system"
    )
    form_factor: str | None = Field(
        description="Form of the card, such as SXM or PCIe; null where it is not known"
    )
    cautions: list[str] = Field(description="What to check before trusting a plan for this type")


class GpuList(Output):
    """The catalog of GPU types."""

    gpus: list[GpuAnswer] = Field(description="The GPU types")
    next: str | None = Field(description="Value of `after` for the next page; null on the last page")
