"""Requests for other engines: one alone, or several side by side."""

from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, TypeAdapter, model_validator

from service.application.schemas.base import Input
from service.application.schemas.flags.engine_serve import (
    LlamaServeInput,
    SglangServeInput,
    TensorrtServeInput,
)
from service.application.schemas.flags.flag_types import Name
from service.application.schemas.requests.engine_parameters import MAX_ENGINES, CacheBytes
from service.application.schemas.requests.gpu_choice import MAX_GPUS, GpuChoice
from service.application.schemas.requests.plan_body import (
    FreeMemory,
    ModelId,
    PlanBody,
    Revision,
    engine_name,
)
from service.application.schemas.requests.renamed import as_in_body
from service.application.schemas.requests.workload import WorkloadInput
from service.application.text.plan_format import Format
from service.engine_plans.engine_plan import ENGINES, LLAMA_CPP, SGLANG, TENSORRT_LLM, VLLM


class LlamaChoice(Input):
    """A build of llama.cpp."""

    name: Literal["llama.cpp"] = Field(description="Name of the engine")
    version: Name | None = Field(
        default=None, description="Build, such as `b10107`; left out: the newest read"
    )


class SglangChoice(Input):
    """A release of SGLang."""

    name: Literal["sglang"] = Field(description="Name of the engine")
    version: Name | None = Field(
        default=None, description="Release, such as `0.5.23`; left out: the newest read"
    )


class TensorrtChoice(Input):
    """A release of TensorRT-LLM."""

    name: Literal["tensorrt-llm"] = Field(description="Name of the engine")
    version: Name | None = Field(
        default=None, description="Release, such as `1.3.0`; left out: the newest read"
    )


class EngineBody(Input):
    """What a request for another engine shares with one for vLLM."""

    model: ModelId | None = Field(
        default=None, description="Id on the Hub; with a `config` only a name, which may be left out"
    )
    revision: Revision | None = Field(
        default=None, description="Branch, tag or commit of the model; left out: its main branch"
    )
    config: dict[str, Any] | None = Field(
        default=None, description="A config.json, used in place of the model's own; left out: the model's own"
    )
    gpus: Annotated[list[GpuChoice], Field(min_length=1, max_length=MAX_GPUS)] | None = Field(
        default=None, description="GPU types, as in a request for vLLM; left out: every type that is modelled"
    )
    cache_bytes: CacheBytes = None
    workload: WorkloadInput | None = Field(
        default=None, description="The requests to serve, whose length is counted; left out: none are counted"
    )
    format: Format | None = Field(
        default=None, description="How to write the answer; left out: as the Accept header says"
    )

    @model_validator(mode="before")
    @classmethod
    def _as_in_a_body(cls, given: Any) -> Any:  # noqa: ANN401 - whatever was sent
        return as_in_body(given)


class LlamaBody(EngineBody):
    """One dry run of llama.cpp."""

    engine: LlamaChoice = Field(description="llama.cpp and its build")
    serve: LlamaServeInput = Field(default_factory=LlamaServeInput, description="Flags of `llama-server`")


class SglangBody(EngineBody):
    """One dry run of SGLang."""

    engine: SglangChoice = Field(description="SGLang and its release")
    serve: SglangServeInput = Field(
        default_factory=SglangServeInput, description="Arguments of `sglang.launch_server`"
    )


class TensorrtBody(EngineBody):
    """One dry run of TensorRT-LLM."""

    engine: TensorrtChoice = Field(description="TensorRT-LLM and its release")
    serve: TensorrtServeInput = Field(
        default_factory=TensorrtServeInput, description="Arguments of `trtllm-serve` and `kv_cache_config`"
    )


class VllmEntry(Input):
    """vLLM, with the release and flags of the request."""

    name: Literal["vllm"] = Field(description="Name of the engine")


class LlamaEntry(LlamaChoice):
    """llama.cpp with its flags."""

    serve: LlamaServeInput = Field(default_factory=LlamaServeInput, description="Flags of `llama-server`")


class SglangEntry(SglangChoice):
    """SGLang with its arguments."""

    serve: SglangServeInput = Field(
        default_factory=SglangServeInput, description="Arguments of `sglang.launch_server`"
    )


class TensorrtEntry(TensorrtChoice):
    """TensorRT-LLM with its arguments."""

    serve: TensorrtServeInput = Field(
        default_factory=TensorrtServeInput, description="Arguments of `trtllm-serve` and `kv_cache_config`"
    )


TAGS: Final = {name: f"<{name}>" for name in ENGINES}
COMPARED: Final = "<engines>"


def _entry_tag(value: object) -> str | None:
    name = value.get("name") if isinstance(value, dict) else getattr(value, "name", None)
    return TAGS.get(str(name))


EngineName = Literal["vllm", "llama.cpp", "sglang", "tensorrt-llm"]


def _named(value: Any) -> Any:  # noqa: ANN401 - whatever was sent
    """Return an engine's name as an object with it; refuse a name that no engine has."""
    document = {"name": value} if isinstance(value, str) else value
    if isinstance(document, dict):
        engine_name(document.get("name"))
    return document


EngineEntry = Annotated[
    Annotated[VllmEntry, Tag("<vllm>")]
    | Annotated[LlamaEntry, Tag("<llama.cpp>")]
    | Annotated[SglangEntry, Tag("<sglang>")]
    | Annotated[TensorrtEntry, Tag("<tensorrt-llm>")],
    Discriminator(_entry_tag),
]


class ComparisonBody(EngineBody):
    """One question to several engines. `engine` and `serve` are those of vLLM."""

    engines: Annotated[
        list[
            Annotated[EngineEntry, BeforeValidator(_named, json_schema_input_type=EngineName | EngineEntry)]
        ],
        Field(min_length=1, max_length=MAX_ENGINES),
    ] = Field(
        description="Engines to compare, in order: names, or objects with a name, a version and `serve`"
    )
    free_memory_bytes: FreeMemory = None
    engine: dict[str, Any] = Field(default_factory=dict, description="vLLM's release, as in a request for it")
    serve: dict[str, Any] = Field(default_factory=dict, description="vLLM's flags, as in a request for it")


def body_tag(value: object) -> str:
    """Return the tag of the body that a document is: by `engines`, or by the engine's name."""
    if not isinstance(value, dict):
        kinds: dict[type, str] = {LlamaBody: LLAMA_CPP, SglangBody: SGLANG, TensorrtBody: TENSORRT_LLM}
        return COMPARED if isinstance(value, ComparisonBody) else TAGS[kinds.get(type(value), VLLM)]
    if "engines" in value:
        return COMPARED
    engine = value.get("engine")
    name = engine.get("name") if isinstance(engine, dict) else None
    return TAGS.get(str(name), TAGS[VLLM])


AnyBody = Annotated[
    Annotated[PlanBody, Tag("<vllm>")]
    | Annotated[LlamaBody, Tag("<llama.cpp>")]
    | Annotated[SglangBody, Tag("<sglang>")]
    | Annotated[TensorrtBody, Tag("<tensorrt-llm>")]
    | Annotated[ComparisonBody, Tag("<engines>")],
    Discriminator(body_tag),
]
"""Every body that a plan is asked with."""
ANY_BODY: Final[TypeAdapter[PlanBody | EngineBody]] = TypeAdapter(AnyBody)
