"""PlanBody: a request for a plan as a body."""

from functools import partial
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from service.application.schemas.base import Input, unchecked_default
from service.application.schemas.flags.flag_types import MAX_BYTES, Name, as_written
from service.application.schemas.flags.serve import ServeInput
from service.application.schemas.requests.gpu_choice import MAX_GPUS, GpuChoice
from service.application.schemas.requests.price import MAX_PRICES, PRICE_KIND, PriceInput, PriceKindName
from service.application.schemas.requests.renamed import as_in_body
from service.application.schemas.requests.workload import WorkloadInput
from service.application.text.plan_format import Format
from service.engine_plans.engine_plan import ENGINES
from service.engines.flag_values import read_count
from service.nearest_names import nearest, quoted

MAX_PATCHES: Final = 16
MAX_VERSIONS: Final = 8
MAX_COMMAND: Final = 1 << 16
"""Characters of a command in a body."""

ModelId = Annotated[str, Field(min_length=1, max_length=200)]
Revision = Annotated[str, Field(min_length=1, max_length=128)]
Part = Literal["memory", "cache", "candidates", "levers", "curve", "details"]
MAX_PARTS: Final = 8
ObjectiveName = Literal["accuracy", "tokens", "balanced", "cost"]
NVLINK_BRIDGE: Final = (
    "Whether NVLink that is bought apart is there, such as a bridge between each two RTX 3090 or A100 PCIe; "
    "left out: it is not counted on"
)
FreeMemory = Annotated[
    Annotated[int, Field(ge=0, le=MAX_BYTES), as_written(read_count)] | None,
    Field(
        description="Bytes free on every GPU when the engine starts, such as `42G` for 42 GiB; left out: all "
        "but what a CUDA context takes"
    ),
]


def engine_name(name: Any) -> Any:  # noqa: ANN401 - whatever was sent
    """Refuse a name that no engine has, with the most similar ones."""
    if isinstance(name, str) and name not in ENGINES:
        near = nearest(name.lower(), ENGINES, cutoff=0.4)
        words = f"; nearest: {', '.join(near)}" if near else f": one of {', '.join(ENGINES)}"
        raise PydanticCustomError(
            "unknown_engine", "{name} is no engine{words}", {"name": quoted(name), "words": words}
        )
    return name


class EngineInput(Input):
    """An engine release, with unreleased patches on top."""

    name: Annotated[Literal["vllm"], BeforeValidator(engine_name)] = Field(
        default="vllm",
        description="Name of the engine: `vllm`; with `llama.cpp`, `sglang` or `tensorrt-llm` a body is "
        "that engine's",
    )
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


class PlanBody(Input):
    """One dry run. `model`, `config` or `command` is needed."""

    command: Annotated[str, Field(min_length=1, max_length=MAX_COMMAND)] | None = Field(
        default=None,
        description="A start of the engine as people keep it: `vllm serve ...` or `docker run ...` as a "
        "shell takes it, a script, a Compose file, a Kubernetes manifest, Helm values, a Ray Serve "
        "configuration, a file for `--config` or a systemd unit. It is planned as it is written, with the "
        "engine's defaults for flags left out. Fields given beside it win over what it says; left out: no "
        "command",
    )

    model: ModelId | None = Field(
        default=None, description="Id on the Hub; with a `config` only a name, which may be left out"
    )
    revision: Revision | None = Field(
        default=None, description="Branch, tag or commit of the model; left out: its main branch"
    )
    config: dict[str, Any] | None = Field(
        default=None,
        description="A config.json, or a params.json in Mistral's format, used in place of the model's own "
        "and without the Hub; left out: the model's own",
    )
    hf_quant_config: dict[str, Any] | None = Field(
        default=None,
        description="ModelOpt's hf_quant_config.json, read beside `config` if that has no "
        "`quantization_config`; left out: none",
    )
    draft_config: dict[str, Any] | None = Field(
        default=None,
        description="The config.json of the draft model that `serve.speculative_config.model` names; left "
        "out: the draft model's own",
    )
    engine: EngineInput = Field(
        default_factory=partial(unchecked_default, EngineInput), description="The release to plan"
    )
    gpus: Annotated[list[GpuChoice], Field(min_length=1, max_length=MAX_GPUS)] | None = Field(
        default=None,
        description="GPU types by id, product name or the driver's name (`RTX 4090`), with `:8` behind it "
        "where there are 8 of it; or objects with the id and the count; or GPUs of your own; left out: every "
        "type that is modelled",
    )
    free_memory_bytes: FreeMemory = None
    nvlink_bridge: bool = Field(default=False, description=NVLINK_BRIDGE)
    serve: ServeInput = Field(
        default_factory=partial(unchecked_default, ServeInput), description="Flags of `vllm serve`"
    )
    workload: WorkloadInput | None = Field(
        default=None, description="The requests to serve; left out: candidates are ranked without them"
    )
    objective: ObjectiveName = Field(
        default="balanced",
        description="What is best: `accuracy` takes no lossy cache while a lossless one starts, `tokens` "
        "takes the most capacity, `balanced` takes the least lossy cache that serves the workload, `cost` "
        "takes the cheapest output tokens of what serves the workload within its limits",
    )
    prices: Annotated[list[PriceInput], Field(max_length=MAX_PRICES)] = Field(
        default_factory=list,
        description="What an hour of a GPU costs; they come before the prices of the service, a dated "
        "snapshot",
    )
    price_kind: PriceKindName = Field(
        default=PRICE_KIND, description="Which prices to reckon with: those of different kinds do not compare"
    )
    include: Annotated[list[Part], Field(max_length=MAX_PARTS)] = Field(
        default_factory=list,
        description="Parts of the answer that are left out otherwise. `memory`: interval, basis and source "
        "of every memory term. `cache`: groups, log lines, notes, waste, quality, and the blocks of a "
        "request. `candidates`: every candidate. `details`: all of these, and all about the GPU type. "
        "`levers`: what single changes to the recommended candidate give, each planned, some thirty starts "
        "for each GPU type. `curve`: how many requests of which length run at once",
    )
    format: Format | None = Field(
        default=None,
        description="How to write the answer; `format` in the query says the same and wins. Left out: as the "
        "Accept header says",
    )
    search: bool = Field(
        default=True,
        description="Whether to try several cache dtypes and tensor parallel sizes where they are left out; "
        "false: one start on each GPU type, with the engine's defaults for what is left out",
    )

    @model_validator(mode="before")
    @classmethod
    def _as_in_a_body(cls, given: Any) -> Any:  # noqa: ANN401 - whatever was sent
        return as_in_body(given)
