"""The memory of one rank in an answer, term by term."""

from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from service.application.schemas.base import SURVEYED_TERM, Output, optional
from service.application.schemas.members import In, Numbered
from service.memory.budget_types import Basis, Level


class EvidenceAnswer(Output):
    """The measurements behind a term."""

    level: Level = Field(description="How near the measured starts are to the planned one")
    count: int = Field(description="Number of measurements, at most one for each token and day")
    logs: int = Field(
        description="How many of these measurements are stored startup logs, which count less than probes"
    )
    newest: str = Field(description="Day (UTC) of the latest measurement, as in `2026-05-01`")
    age_days: int = Field(description="Age of the latest measurement in days")


class EstimateAnswer(Output):
    """Bytes of one memory term, with their 10th and 90th percentile."""

    bytes: int = Field(description="The middle of the interval, in bytes")
    low: Annotated[int | SkipJsonSchema[None], In("memory")] = optional(
        "The 10th percentile, in bytes; equal to `bytes` where the value is exact. Left out unless "
        "`include` has `memory`"
    )
    high: Annotated[int | SkipJsonSchema[None], In("memory")] = optional(
        "The 90th percentile, in bytes; equal to `bytes` where the value is exact. Left out unless "
        "`include` has `memory`"
    )
    basis: Annotated[Basis | SkipJsonSchema[None], In("memory")] = optional(
        "Where the value comes from. Left out unless `include` has `memory`"
    )
    source: Annotated[str | SkipJsonSchema[None], In("memory"), Numbered()] = optional(
        "Id of a text in `sources`: what the value was computed, calibrated or assumed from. Left out "
        "unless `include` has `memory`"
    )
    evidence: Annotated[EvidenceAnswer | SkipJsonSchema[None], In("memory")] = optional(
        "The measurements behind the value. Left out where nothing was measured, and unless `include` has "
        "`memory`"
    )


class WeightsAnswer(EstimateAnswer):
    """Weights of the fullest rank."""

    parameter_bytes: Annotated[int | SkipJsonSchema[None], In("memory")] = optional(
        "Bytes that the rank allocates for weights before kernels repack them after loading. Left out "
        "unless `include` has `memory`"
    )


class AvailableAnswer(Output):
    """Bytes that are left for the KV cache. They decide whether the engine starts."""

    bytes: int = Field(description="The middle of the interval, in bytes")
    low: int = Field(description="The 10th percentile, in bytes; equal to `bytes` where the value is exact")
    high: int = Field(description="The 90th percentile, in bytes; equal to `bytes` where the value is exact")
    basis: Annotated[Basis | SkipJsonSchema[None], In("memory")] = optional(
        "Where the value comes from. Left out unless `include` has `memory`"
    )
    source: Annotated[str | SkipJsonSchema[None], In("memory"), Numbered()] = optional(
        "Id of a text in `sources`: what the value was computed, calibrated or assumed from. Left out "
        "unless `include` has `memory`"
    )
    evidence: Annotated[EvidenceAnswer | SkipJsonSchema[None], In("memory")] = optional(
        "The measurements behind the value. Left out where nothing was measured, and unless `include` has "
        "`memory`"
    )


class HostMemoryAnswer(Output):
    """Memory of the host that the flags ask for, of all ranks on all nodes together."""

    weights: EstimateAnswer = Field(
        description="Bytes of weights that the GPUs do not hold (`cpu_offload_gb`, groups)"
    )
    blocks: EstimateAnswer = Field(
        description="Bytes for cached blocks that the GPUs no longer hold (`kv_offloading_size`)"
    )
    adapters: EstimateAnswer = Field(
        description="Bytes of LoRA adapters that processes store (`max_cpu_loras`), at most"
    )
    media_cache: EstimateAnswer = Field(
        description="Bytes of processed images, videos and sound that processes cache "
        "(`mm_processor_cache_gb`), at most"
    )
    sleeping_weights: EstimateAnswer = Field(
        description="Bytes of weights while the engine sleeps at level 1 (`enable_sleep_mode`), at most"
    )
    total: EstimateAnswer = Field(description="Sum of these terms, in bytes")


class MemoryAnswer(Output):
    """The memory of one rank, term by term."""

    read_first: ClassVar = (
        "total",
        "requested",
        "activation",
        "non_torch",
        "cuda_graphs",
        "captured_graphs",
        "weights",
    )

    total: Annotated[EstimateAnswer | SkipJsonSchema[None], In("terms")] = optional(
        f"Total memory of the GPU, as CUDA reports it: `gpu.memory_bytes`. {SURVEYED_TERM}"
    )
    requested: Annotated[EstimateAnswer | SkipJsonSchema[None], In("terms")] = optional(
        f"The share of the total that `gpu_memory_utilization` grants to the engine. {SURVEYED_TERM}"
    )
    weights: WeightsAnswer = Field(description="Weights of the rank that holds the most of them")
    activation: Annotated[EstimateAnswer | SkipJsonSchema[None], In("terms")] = optional(
        f"Peak of activations in the profile run, in which the engine runs its largest step. {SURVEYED_TERM}"
    )
    non_torch: Annotated[EstimateAnswer | SkipJsonSchema[None], In("terms")] = optional(
        f"Memory that PyTorch does not allocate: CUDA context, NCCL, libraries. {SURVEYED_TERM}"
    )
    cuda_graphs: Annotated[EstimateAnswer | SkipJsonSchema[None], In("terms")] = optional(
        "Set aside for CUDA graphs before the cache is sized; 0 in releases that set nothing aside. "
        f"{SURVEYED_TERM}"
    )
    captured_graphs: Annotated[EstimateAnswer | SkipJsonSchema[None], In("terms")] = optional(
        f"What CUDA graphs take once they are captured, after the cache was allocated. {SURVEYED_TERM}"
    )
    available_kv: AvailableAnswer = Field(
        description="What is left for the KV cache; negative where the other terms exceed the request"
    )
    adapters: Annotated[EstimateAnswer | SkipJsonSchema[None], In("memory")] = optional(
        "Room for LoRA adapters, in bytes, which `weights` contains; 0 without `enable_lora`. Left out "
        "unless `include` has `memory`"
    )
    host: Annotated[HostMemoryAnswer | SkipJsonSchema[None], In("memory")] = optional(
        "Memory of the host that the flags ask for, which is no part of the GPU's budget. `swap_space` is "
        "not among it: no release that can be planned allocates it. Left out unless `include` has `memory`"
    )
