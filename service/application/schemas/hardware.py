"""GPU types as they are answered."""

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

    total: str
    of: TotalKind
    when: str


class BriefGpuAnswer(Output):
    """A GPU type, in short."""

    id: str
    name: str
    memory_bytes: int = Field(description="cudaMemGetInfo's total")
    compute_capability: Annotated[str | None, BeforeValidator(_capability_text)]


class GpuAnswer(Output):
    """A GPU type and the memory CUDA reports on it."""

    id: str
    name: str
    vendor: Vendor
    memory_bytes: int = Field(description="cudaMemGetInfo's total")
    memory_low_bytes: int
    memory_high_bytes: int
    memory_basis: MemoryBasis
    source: str
    compute_capability: Annotated[str | None, BeforeValidator(_capability_text)]
    architecture: str | None
    modelled: bool
    unmodelled: str | None = Field(description="Why nothing is planned on this type")
    marketing_gb: int | None
    driver_total_bytes: int | None
    variants: list[TotalVariantAnswer]
    ecc: EccState
    bandwidth_gb_s: float | None
    sm_count: int | None
    nvlink: bool | None
    unified_memory: bool
    form_factor: str | None
    cautions: list[str]


class GpuList(Output):
    """The catalog."""

    gpus: list[GpuAnswer]
