"""Requests for a plan: as a body, and as flat parameters."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag

from service.application.schemas.base import Input
from service.application.schemas.serve import (
    MAX_BYTES,
    MAX_TOKENS,
    FlagsInput,
    Name,
    ServeInput,
)

MAX_GPUS: Final = 256
MAX_PATCHES: Final = 16
MAX_VERSIONS: Final = 8
MAX_JSON: Final = 4096
"""Characters of a parameter that holds a JSON object."""

ModelId = Annotated[str, Field(min_length=1, max_length=200)]
Revision = Annotated[str, Field(min_length=1, max_length=128)]
GpuId = Annotated[str, Field(min_length=1, max_length=100)]


class GpuInput(Input):
    """A GPU of the caller's own."""

    name: Annotated[str, Field(min_length=1, max_length=100, description="Name as the driver prints it")]
    memory_bytes: Annotated[
        int, Field(ge=1, le=1 << 50, description="Total memory in bytes, as CUDA reports it")
    ]
    compute_capability: Annotated[
        str,
        Field(
            pattern=r"^[1-9][0-9]{0,2}\.[0-9]$",
            description="CUDA compute capability, such as `8.6`",
            max_length=5,
        ),
    ]
    bandwidth_gb_s: Annotated[float, Field(gt=0, le=1e6)] | None = Field(
        default=None, description="Peak memory bandwidth in 10^9 bytes per second; left out: not known"
    )
    sm_count: Annotated[int, Field(ge=1, le=1 << 16)] | None = Field(
        default=None, description="Streaming multiprocessors; left out: not known"
    )
    unified_memory: bool = Field(default=False, description="Whether the GPU uses the host's memory")


ID_TAG: Final = "<id>"
OBJECT_TAG: Final = "<object>"
"""Tags of the two forms a GPU may take; the brackets keep them apart from names a caller can write."""


def _form(value: object) -> str:
    return ID_TAG if isinstance(value, str) else OBJECT_TAG


GpuChoice = Annotated[
    Annotated[GpuId, Tag(ID_TAG)] | Annotated[GpuInput, Tag(OBJECT_TAG)], Discriminator(_form)
]


class EngineInput(Input):
    """An engine release, with unreleased patches on top."""

    name: Literal["vllm"] = Field(default="vllm", description="Name of the engine")
    version: Name | None = Field(
        default=None, description="Release to plan, such as `0.19.0`; left out: the newest that is modelled"
    )
    versions: Annotated[list[Name], Field(max_length=MAX_VERSIONS)] = Field(
        default_factory=list,
        description="Releases to compare, in order; `upgrades` says what each step changes. Without "
        "`version`, the last one is planned",
    )
    patches: Annotated[list[Name], Field(max_length=MAX_PATCHES)] = Field(
        default_factory=list, description="Pull requests to lay over the release, such as `vllm#40391`"
    )


class WorkloadInput(Input):
    """The requests that the engine is to serve."""

    prompt_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS)] = Field(description="Tokens of a prompt")
    output_tokens: Annotated[int, Field(ge=0, le=MAX_TOKENS)] = Field(
        default=0, description="Tokens of an answer"
    )
    concurrent_requests: Annotated[int, Field(ge=1, le=1 << 20)] = Field(
        default=1, description="Requests at the same time"
    )


Part = Literal["details", "levers"]
MAX_PARTS: Final = 8
ObjectiveName = Literal["accuracy", "tokens", "balanced"]


FreeMemory = Annotated[
    Annotated[int, Field(ge=0, le=MAX_BYTES)] | None,
    Field(
        description="Bytes free on every GPU when the engine starts; left out: all but what a CUDA context "
        "takes"
    ),
]


class PlanBody(Input):
    """One dry run. `model` or `config` is needed."""

    model: ModelId | None = Field(
        default=None, description="Id on the Hub; beside a `config` only a name, and may be left out there"
    )
    revision: Revision | None = Field(
        default=None, description="Branch, tag or commit of the model; left out: its main branch"
    )
    config: dict[str, Any] | None = Field(
        default=None,
        description="A config.json, or a params.json in Mistral's format, used in place of the model's own "
        "and without the Hub; left out: the model's own",
    )
    draft_config: dict[str, Any] | None = Field(
        default=None,
        description="The config.json of the draft model that `serve.speculative_config.model` names; left "
        "out: the draft model's own",
    )
    engine: EngineInput = Field(default_factory=EngineInput, description="The release to plan")
    gpus: Annotated[list[GpuChoice], Field(min_length=1, max_length=MAX_GPUS)] | None = Field(
        default=None,
        description="Ids of GPU types, or GPUs of your own; left out: every type that is modelled",
    )
    free_memory_bytes: FreeMemory = None
    serve: ServeInput = Field(default_factory=ServeInput, description="Flags of `vllm serve`")
    workload: WorkloadInput | None = Field(
        default=None, description="The requests to serve; left out: candidates are ranked without them"
    )
    objective: ObjectiveName = Field(
        default="balanced",
        description="What is best: `accuracy` takes no lossy cache while a lossless one starts, `tokens` "
        "takes the most capacity, `balanced` takes the least lossy cache that serves the workload",
    )
    include: Annotated[list[Part], Field(max_length=MAX_PARTS)] = Field(
        default_factory=list,
        description="`levers`: what single changes to the recommended candidate give, each planned, some "
        "thirty starts for each GPU type. `details`: every candidate in full, for any number of GPU types",
    )


class PlanParameters(FlagsInput):
    """One dry run as flat parameters, for a query string or a command line; left out as in the body."""

    model_config = ConfigDict(strict=False)

    speculative_config: Annotated[str, Field(max_length=MAX_JSON)] | None = Field(
        default=None,
        description="Speculative decoding: a JSON object, as the engine takes it; left out: none",
    )
    model: ModelId = Field(description="Id on the Hub")
    revision: Revision | None = Field(
        default=None, description="Branch, tag or commit of the model; left out: its main branch"
    )
    gpu: Annotated[list[GpuId], Field(max_length=MAX_GPUS)] | None = Field(
        default=None, description="Id of a GPU type, repeatable; left out: every type that is modelled"
    )
    free_memory_bytes: FreeMemory = None
    engine_version: Name | None = Field(
        default=None, description="Release to plan, such as 0.19.0; left out: the newest that is modelled"
    )
    compare: Annotated[list[Name], Field(max_length=MAX_VERSIONS)] | None = Field(
        default=None, description="Release to compare, repeatable, in order; left out: none"
    )
    patch: Annotated[list[Name], Field(max_length=MAX_PATCHES)] | None = Field(
        default=None,
        description="Pull request to lay over the release, repeatable, as in `vllm#40391`; left out: none",
    )
    prompt_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS)] | None = Field(
        default=None, description="Workload: tokens of a prompt; left out: no workload"
    )
    output_tokens: Annotated[int, Field(ge=0, le=MAX_TOKENS)] | None = Field(
        default=None, description="Workload: tokens of an answer; left out: 0"
    )
    concurrent_requests: Annotated[int, Field(ge=1, le=1 << 20)] | None = Field(
        default=None, description="Workload: requests at the same time; left out: 1"
    )
    objective: ObjectiveName | None = Field(
        default=None, description="What is best: accuracy, tokens or balanced; left out: balanced"
    )
    include: Annotated[list[Name], Field(max_length=MAX_PARTS)] | None = Field(
        default=None, description="`levers` or `details`, repeatable; left out: neither"
    )

    def document(self) -> dict[str, Any]:
        """Return the same request as the body of a POST."""
        document: dict[str, Any] = {}
        for name, value in self.model_dump(exclude_none=True, include=set(PLACES)).items():
            *sections, key = PLACES[name]
            target = document
            for section in sections:
                target = target.setdefault(section, {})
            target[key] = _parsed(value) if name == "speculative_config" else value
        return document


def _parsed(text: str) -> object:
    """Parse a JSON text; return what is not JSON as it is, for the schema of the body to refuse."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "model": ("model",),
    "revision": ("revision",),
    "gpu": ("gpus",),
    "free_memory_bytes": ("free_memory_bytes",),
    "engine_version": ("engine", "version"),
    "compare": ("engine", "versions"),
    "patch": ("engine", "patches"),
    "prompt_tokens": ("workload", "prompt_tokens"),
    "output_tokens": ("workload", "output_tokens"),
    "concurrent_requests": ("workload", "concurrent_requests"),
    "objective": ("objective",),
    "include": ("include",),
    **{flag: ("serve", flag) for flag in ServeInput.model_fields},
}
"""Place of each flat parameter in the body."""


CommandFormat = Literal["command", "docker", "kubernetes"]
TextFormat = Literal["table", CommandFormat]
Format = Literal["json", TextFormat]
"""What a plan can be written as: JSON, a table, or a command for a shell, Docker or Kubernetes."""


class PlanQuery(PlanParameters):
    """The query string of a plan."""

    format: Format | None = Field(
        default=None, description="How to write the plan; left out: as the Accept header says"
    )
