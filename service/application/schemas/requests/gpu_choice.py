"""GPU types of a request: of the catalog, counted, or the caller's own."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final

from pydantic import BeforeValidator, Discriminator, Field, Tag

from service.application.schemas.base import Input
from service.application.schemas.flags.flag_types import as_written
from service.gpus.gpu_count import MOST
from service.gpus.gpu_type import InvalidGpu
from service.gpus.own_gpu import FORM, KEYS, is_own_gpu, read_memory, read_own_gpu
from service.nearest_names import quoted

MAX_GPUS: Final = 256

GpuId = Annotated[str, Field(min_length=1, max_length=100)]
GpuCount = Annotated[
    Annotated[int, Field(ge=1, le=MOST)] | None,
    Field(
        description="GPUs of this type that there are: candidates take no more, and as many replicas as fit; "
        "left out: not specified, so that the fewest GPUs are best"
    ),
]


class CountedGpu(Input):
    """A GPU type of the catalog, and how many of it there are."""

    id: GpuId = Field(description="Id of a GPU type")
    count: GpuCount = None


CAPABILITY: Final = r"^[1-9][0-9]{0,2}\.[0-9]$"
CapabilityText = Annotated[str, Field(pattern=CAPABILITY, max_length=5)]
MemoryBytes = Annotated[int, Field(ge=1, le=1 << 50)]
MemoryText = Annotated[str, Field(pattern=r"^[0-9]{1,9}(\.[0-9]{1,6})? ?([KMGTkmgt]i?B)$")]
CapabilityNumber = Annotated[float, Field(ge=1, lt=1000)]


def _capability(given: Any) -> Any:  # noqa: ANN401 - any value of a request
    """Return a number as the text that stands for it: 8.9 is ``8.9``, and 9 is ``9.0``."""
    if isinstance(given, int | float) and not isinstance(given, bool) and 1 <= given < 1000:  # noqa: PLR2004
        given = str(float(given))
    if isinstance(given, str) and not re.fullmatch(CAPABILITY, given, re.ASCII):
        raise ValueError(f"must be a compute capability such as 8.9 (got {quoted(given)})")
    return given


class GpuInput(Input):
    """A GPU of the caller's own."""

    also_called: ClassVar[Mapping[str, str]] = KEYS

    name: Annotated[str, Field(min_length=1, max_length=100, description="Name as the driver prints it")]
    memory_bytes: Annotated[
        MemoryBytes, as_written(read_memory, json_schema_input_type=MemoryBytes | MemoryText)
    ] = Field(description="Total memory as CUDA reports it: a number of bytes, or text such as `48GiB`")
    compute_capability: Annotated[
        CapabilityText, BeforeValidator(_capability, json_schema_input_type=CapabilityText | CapabilityNumber)
    ] = Field(description="CUDA compute capability such as `8.6`: text, or a number of this value")
    bandwidth_gb_s: Annotated[float, Field(gt=0, le=1e6)] | None = Field(
        default=None, description="Peak memory bandwidth in 10^9 bytes per second; left out: not known"
    )
    sm_count: Annotated[int, Field(ge=1, le=1 << 16)] | None = Field(
        default=None, description="Streaming multiprocessors; left out: not known"
    )
    unified_memory: bool = Field(default=False, description="Whether the GPU uses the host's memory")
    count: GpuCount = None


ID_TAG: Final = "<id>"
COUNTED_TAG: Final = "<counted>"
OWN_TAG: Final = "<own>"
OBJECT_TAG: Final = "<object>"
"""Tags of the forms a GPU may take; the brackets keep them apart from names a caller can write."""


def _form(value: object) -> str:
    if isinstance(value, str):
        return OWN_TAG if is_own_gpu(value) else ID_TAG
    is_counted = isinstance(value, CountedGpu) or (isinstance(value, dict) and "id" in value)
    return COUNTED_TAG if is_counted else OBJECT_TAG


def _own_gpu(text: Any) -> Any:  # noqa: ANN401 - text, or what it was read into
    try:
        return read_own_gpu(text) if isinstance(text, str) else text
    except InvalidGpu as error:
        raise ValueError(str(error).removeprefix("gpu: ")) from error


OwnGpuText = Annotated[
    str, Field(pattern="=", max_length=300, description=f"A GPU of your own, such as `{FORM}`")
]
GpuChoice = Annotated[
    Annotated[GpuId, Field(pattern="^[^=]+$"), Tag(ID_TAG)]
    | Annotated[GpuInput, BeforeValidator(_own_gpu, json_schema_input_type=OwnGpuText), Tag(OWN_TAG)]
    | Annotated[CountedGpu, Tag(COUNTED_TAG)]
    | Annotated[GpuInput, Tag(OBJECT_TAG)],
    Discriminator(_form),
]
