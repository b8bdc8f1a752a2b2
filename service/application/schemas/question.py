"""What a caller asks, as a body and as a flat list of parameters."""

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

    name: Annotated[str, Field(min_length=1, max_length=100, description="As the driver prints it")]
    memory_bytes: Annotated[int, Field(ge=1, le=1 << 50, description="What CUDA reports as the total")]
    compute_capability: Annotated[
        str, Field(pattern=r"^[1-9][0-9]{0,2}\.[0-9]$", description="As in `8.6`", max_length=5)
    ]
    bandwidth_gb_s: Annotated[float, Field(gt=0, le=1e6)] | None = None
    sm_count: Annotated[int, Field(ge=1, le=1 << 16)] | None = None
    unified_memory: bool = False


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

    name: Literal["vllm"] = "vllm"
    version: Name | None = Field(default=None, description="Left out: the newest release that is modelled")
    versions: Annotated[list[Name], Field(max_length=MAX_VERSIONS)] = Field(
        default_factory=list,
        description="Releases to compare, in order; `upgrades` tells what each step changes. "
        "Without `version`, the last one is planned",
    )
    patches: Annotated[list[Name], Field(max_length=MAX_PATCHES)] = Field(default_factory=list)


class WorkloadInput(Input):
    """What the service is for."""

    prompt_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS)]
    output_tokens: Annotated[int, Field(ge=0, le=MAX_TOKENS)] = 0
    concurrent_requests: Annotated[int, Field(ge=1, le=1 << 20)] = 1


Part = Literal["details", "levers"]
MAX_PARTS: Final = 8
ObjectiveName = Literal["accuracy", "tokens", "balanced"]


FreeMemory = Annotated[
    Annotated[int, Field(ge=0, le=MAX_BYTES)] | None,
    Field(description="Bytes free on every GPU when the engine starts; left out: all but a CUDA context"),
]


class PlanBody(Input):
    """One dry run. `model` or `config` is needed."""

    model: ModelId | None = Field(default=None, description="Hub id; with `config`, only a name")
    revision: Revision | None = Field(default=None, description="Branch, tag or commit")
    config: dict[str, Any] | None = Field(
        default=None,
        description="A config.json, or a params.json in Mistral's format, planned without any Hub; "
        "wins over the model's own",
    )
    draft_config: dict[str, Any] | None = Field(
        default=None,
        description="A config.json of the draft that `serve.speculative_config.model` names; "
        "wins over its own",
    )
    engine: EngineInput = Field(default_factory=EngineInput)
    gpus: Annotated[list[GpuChoice], Field(min_length=1, max_length=MAX_GPUS)] | None = Field(
        default=None,
        description="Ids of GPU types or GPUs of your own; left out: every type that is modelled",
    )
    free_memory_bytes: FreeMemory = None
    serve: ServeInput = Field(default_factory=ServeInput)
    workload: WorkloadInput | None = None
    objective: ObjectiveName = "balanced"
    include: Annotated[list[Part], Field(max_length=MAX_PARTS)] = Field(
        default_factory=list,
        description="`levers`: what single changes to the recommended candidate give, each planned: some "
        "thirty starts for each GPU type. `details`: every candidate in full, however many GPU types",
    )


class PlanParameters(FlagsInput):
    """One dry run as flat parameters, for a query string or a command line."""

    model_config = ConfigDict(strict=False)

    speculative_config: Annotated[str, Field(max_length=MAX_JSON)] | None = Field(
        default=None, description="How tokens are guessed ahead: a JSON object, as the engine takes it"
    )
    model: ModelId = Field(description="Hub id")
    revision: Revision | None = Field(default=None, description="Branch, tag or commit")
    gpu: Annotated[list[GpuId], Field(max_length=MAX_GPUS)] | None = Field(
        default=None, description="Id of a GPU type, repeatable; left out: every type that is modelled"
    )
    free_memory_bytes: FreeMemory = None
    engine_version: Name | None = Field(default=None, description="Left out: the newest that is modelled")
    compare: Annotated[list[Name], Field(max_length=MAX_VERSIONS)] | None = Field(
        default=None, description="Release to compare, repeatable, in order"
    )
    patch: Annotated[list[Name], Field(max_length=MAX_PATCHES)] | None = Field(
        default=None, description="Unreleased pull request on top, repeatable, as in `vllm#40391`"
    )
    prompt_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS)] | None = Field(
        default=None, description="Workload: tokens of a prompt"
    )
    output_tokens: Annotated[int, Field(ge=0, le=MAX_TOKENS)] | None = Field(
        default=None, description="Workload: tokens of an answer"
    )
    concurrent_requests: Annotated[int, Field(ge=1, le=1 << 20)] | None = Field(
        default=None, description="Workload: requests at once"
    )
    objective: ObjectiveName | None = Field(default=None, description="What the best candidate is best at")
    include: Annotated[list[Name], Field(max_length=MAX_PARTS)] | None = Field(
        default=None, description="`levers` or `details`, repeatable"
    )

    def document(self) -> dict[str, Any]:
        """Return the same question as the body of a POST."""
        document: dict[str, Any] = {}
        for name, value in self.model_dump(exclude_none=True, include=set(PLACES)).items():
            *sections, key = PLACES[name]
            target = document
            for section in sections:
                target = target.setdefault(section, {})
            target[key] = _parsed(value) if name == "speculative_config" else value
        return document


def _parsed(text: str) -> object:
    """Return what a JSON text says; what is no JSON stays a text, which is then refused where it stands."""
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
"""Where each flat parameter stands in the body."""


Format = Literal["json", "table", "command", "docker", "kubernetes"]
"""What a plan can be written as: for programs, for eyes, for a shell, and for containers."""


class PlanQuery(PlanParameters):
    """The query string of a plan."""

    format: Format | None = Field(default=None, description="Left out: as the Accept header says")
