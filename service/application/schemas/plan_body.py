"""Requests for a plan: as a body, and as flat parameters."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from service.application.errors import InputFault, InvalidRequest
from service.application.schemas.base import Input
from service.application.schemas.flag_types import MAX_BYTES, MAX_TOKENS, Name, as_written
from service.application.schemas.flags import FlagsInput
from service.application.schemas.serve import OBJECTS, ServeInput
from service.engine_plans.engine_plan import ENGINES
from service.engines.flag_values import read_count
from service.gpus.gpu_count import MOST
from service.gpus.gpu_type import InvalidGpu
from service.gpus.own_gpu import FORM, KEYS, is_own_gpu, read_memory, read_own_gpu
from service.nearest_names import nearest, quoted
from service.speed.prices import HIGHEST

MAX_GPUS: Final = 256
MAX_PATCHES: Final = 16
MAX_VERSIONS: Final = 8
MAX_COMMAND: Final = 1 << 16
"""Characters of a command in a body."""
MAX_COMMAND_IN_QUERY: Final = 1 << 13
"""Characters of a command in a query string."""
MAX_JSON: Final = 4096
"""Characters of a parameter that holds a JSON object."""

ModelId = Annotated[str, Field(min_length=1, max_length=200)]
Revision = Annotated[str, Field(min_length=1, max_length=128)]
GpuId = Annotated[str, Field(min_length=1, max_length=100)]
GpuTexts = Annotated[str, Field(min_length=1, max_length=1000)]
"""Names of GPU types, separated by commas, or the text of a GPU of the caller's own."""
PriceText = Annotated[str, Field(min_length=3, max_length=120)]


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


Milliseconds = Annotated[float, Field(gt=0, le=1e9)]
PriceKindName = Literal["on_demand", "spot", "reserved", "total_cost_of_ownership"]
PRICE_KIND: Final = "on_demand"
MAX_PRICES: Final = 256
MAX_MEASURED: Final = 64


class MeasuredInput(Input):
    """The time of a token, measured on the start that is planned."""

    concurrent_requests: Annotated[int, Field(ge=1, le=1 << 20)] = Field(
        description="Requests at the same time"
    )
    tpot_ms: Milliseconds = Field(description="Median value of the time between two tokens, in milliseconds")


class WorkloadInput(Input):
    """The requests that the engine is to serve."""

    prompt_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS)] = Field(description="Tokens of a prompt")
    output_tokens: Annotated[int, Field(ge=0, le=MAX_TOKENS)] = Field(
        default=0, description="Tokens of an answer"
    )
    concurrent_requests: Annotated[int, Field(ge=1, le=1 << 20)] = Field(
        default=1, description="Requests at the same time"
    )
    request_rate: Annotated[float, Field(gt=0, le=1e6)] | None = Field(
        default=None,
        description="Requests that arrive per second: as many run as then overlap. Left out: a new one "
        "arrives when another ends",
    )
    max_tpot_ms: Milliseconds | None = Field(
        default=None, description="Most milliseconds between two tokens of an answer; left out: no limit"
    )
    max_ttft_ms: Milliseconds | None = Field(
        default=None, description="Most milliseconds to the first token; left out: no limit"
    )
    shared_prefix_tokens: Annotated[int, Field(ge=0, le=MAX_TOKENS)] = Field(
        default=0,
        description="Tokens at the start of all prompts that are alike: they are found in the cache and not "
        "computed again",
    )
    measured: Annotated[list[MeasuredInput], Field(max_length=MAX_MEASURED)] = Field(
        default_factory=list,
        description="What `vllm bench serve` measured of this very start with such prompts and answers: two "
        "concurrencies move the speed at others between them. With `search` false alone",
    )


class PriceInput(Input):
    """What an hour of a GPU costs the caller."""

    gpu: GpuId = Field(description="GPU type by id or name")
    usd_per_gpu_hour: Annotated[float, Field(gt=0, le=HIGHEST)] = Field(
        description="US dollars for an hour of each of the GPUs"
    )
    kind: PriceKindName | None = Field(
        default=None, description="On what terms; left out: those of `price_kind`"
    )
    provider: Annotated[str, Field(min_length=1, max_length=100)] = Field(
        default="given", description="Who asks it"
    )
    as_of: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$", max_length=10)] | None = Field(
        default=None, description="Day on which it held, as YYYY-MM-DD; left out: not known"
    )


Part = Literal["memory", "cache", "candidates", "levers", "curve", "details"]
MAX_PARTS: Final = 8
ObjectiveName = Literal["accuracy", "tokens", "balanced", "cost"]
CommandFormat = Literal["command", "docker", "kubernetes"]
TextFormat = Literal["table", CommandFormat]
Format = Literal["json", TextFormat]
"""What a plan can be written as: JSON, a table, or a command for a shell, Docker or Kubernetes."""


FreeMemory = Annotated[
    Annotated[int, Field(ge=0, le=MAX_BYTES), as_written(read_count)] | None,
    Field(
        description="Bytes free on every GPU when the engine starts, such as `42G` for 42 GiB; left out: all "
        "but what a CUDA context takes"
    ),
]


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
    engine: EngineInput = Field(default_factory=EngineInput, description="The release to plan")
    gpus: Annotated[list[GpuChoice], Field(min_length=1, max_length=MAX_GPUS)] | None = Field(
        default=None,
        description="GPU types by id, product name or the driver's name (`RTX 4090`), with `:8` behind it "
        "where there are 8 of it; or objects with the id and the count; or GPUs of your own; left out: every "
        "type that is modelled",
    )
    free_memory_bytes: FreeMemory = None
    serve: ServeInput = Field(default_factory=ServeInput, description="Flags of `vllm serve`")
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


class PlanParameters(FlagsInput):
    """One dry run as flat parameters, for a query string or a command line; left out as in the body."""

    model_config = ConfigDict(strict=False)

    limit_mm_per_prompt: Annotated[str, Field(max_length=MAX_JSON)] | None = Field(
        default=None, description="The same object as in a body, as JSON; null: 999 of each modality"
    )
    mm_processor_kwargs: Annotated[str, Field(max_length=MAX_JSON)] | None = Field(
        default=None, description="The same object as in a body, as JSON; null: the processor's defaults"
    )
    eplb_config: Annotated[str, Field(max_length=MAX_JSON)] | None = Field(
        default=None, description="The same object as in a body, as JSON; null: the defaults"
    )
    speculative_config: Annotated[str, Field(max_length=MAX_JSON)] | None = Field(
        default=None,
        description="Speculative decoding: a JSON object, as the engine takes it; left out: none",
    )
    hf_overrides: Annotated[str, Field(max_length=MAX_JSON)] | None = Field(
        default=None, description="Keys that replace those of the config: a JSON object; left out: none"
    )
    rope_scaling: Annotated[str, Field(max_length=MAX_JSON)] | None = Field(
        default=None,
        description="Replaces the config's `rope_scaling`, up to 0.11.0: a JSON object; left out: none",
    )
    environment: Annotated[str, Field(max_length=MAX_JSON)] | None = Field(
        default=None,
        description="Environment variables of the engine: a JSON object of texts; left out: none",
    )
    model: ModelId | None = Field(
        default=None,
        description="Id on the Hub, on the command line also a folder with a config.json; may be left out "
        "where a command names the model",
    )
    command: Annotated[str, Field(min_length=1, max_length=MAX_COMMAND_IN_QUERY)] | None = Field(
        default=None,
        description="A start of the engine, such as `vllm serve ...`, planned as it is written; left out: "
        "none",
    )
    revision: Revision | None = Field(
        default=None, description="Branch, tag or commit of the model; left out: its main branch"
    )
    gpu: Annotated[list[GpuTexts], Field(max_length=MAX_GPUS)] | None = Field(
        default=None,
        description="GPU type by id, product name or the driver's name, such as RTX 4090, with `:8` behind "
        "it where there are 8 of it; several are separated by commas or repeated. A GPU of your own: "
        "name=my-card,memory=40GiB,cc=8.0. Left out: "
        "every type that is modelled",
    )
    free_memory_bytes: FreeMemory = None
    engine_version: Name | None = Field(
        default=None, description="Release to plan, such as 0.19.0; left out: the newest that is modelled"
    )
    compare: Annotated[list[Name], Field(max_length=MAX_VERSIONS)] | None = Field(
        default=None,
        description="Release to compare, in order; several are separated by commas or repeated; left "
        "out: none",
    )
    patch: Annotated[list[Name], Field(max_length=MAX_PATCHES)] | None = Field(
        default=None,
        description="Pull request to lay over the release, as in `vllm#40391`; several are separated by "
        "commas or repeated; left out: none",
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
        default=None, description="What is best: accuracy, tokens, balanced or cost; left out: balanced"
    )
    request_rate: Annotated[float, Field(gt=0, le=1e6)] | None = Field(
        default=None,
        description="Workload: requests that arrive per second; left out: the next comes when one ends",
    )
    max_tpot_ms: Milliseconds | None = Field(
        default=None, description="Workload: most milliseconds between two tokens; left out: no limit"
    )
    max_ttft_ms: Milliseconds | None = Field(
        default=None, description="Workload: most milliseconds to the first token; left out: no limit"
    )
    shared_prefix_tokens: Annotated[int, Field(ge=0, le=MAX_TOKENS)] | None = Field(
        default=None, description="Workload: tokens at the start of all prompts that are alike; left out: 0"
    )
    price: Annotated[list[PriceText], Field(max_length=MAX_PRICES)] | None = Field(
        default=None,
        description="US dollars for an hour of one GPU of a type, repeatable, as in `l4-24gb=0.7`; left out: "
        "the prices of the service",
    )
    price_kind: PriceKindName | None = Field(
        default=None, description="Which prices to reckon with; left out: on_demand"
    )
    include: Annotated[list[Name], Field(max_length=MAX_PARTS)] | None = Field(
        default=None,
        description="Part of the JSON that is left out otherwise: `memory`, `cache`, `candidates`, `details` "
        "(all of these), `levers` or `curve`; several are separated by commas or repeated; left out: none",
    )

    search: bool | None = Field(
        default=None,
        description="Whether to try several cache dtypes and tensor parallel sizes where they are left out; "
        "left out: true",
    )

    def document(self) -> dict[str, Any]:
        """Return the same request as the body of a POST.

        Raises:
            InputFault: the text of a GPU of the caller's own cannot be read.
        """
        document: dict[str, Any] = {}
        for name, value in self.model_dump(exclude_none=True, include=set(PLACES)).items():
            *sections, key = PLACES[name]
            target = document
            for section in sections:
                target = target.setdefault(section, {})
            target[key] = _READERS[name](value) if name in _READERS else value
        return document


JSON_PARAMETERS: Final = frozenset({"speculative_config", "environment", *OBJECTS})
"""Parameters that hold a JSON object."""


def _parsed(text: str) -> object:
    """Parse a JSON text; return what is not JSON as it is, for the schema of the body to refuse."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def gpu_choices(texts: Iterable[str]) -> list[str | dict[str, Any]]:
    """Return the GPUs that texts name, as the list of the body: a name, or an object for a GPU of one's own.

    Raises:
        InputFault: the text of a GPU of the caller's own cannot be read.
    """
    choices: list[str | dict[str, Any]] = []
    for text in texts:
        if not is_own_gpu(text):
            choices += [name.strip() for name in text.split(",") if name.strip()] or [text]
            continue
        try:
            choices.append(read_own_gpu(text))
        except InvalidGpu as error:
            raise InputFault(f"/gpus/{len(choices)}", error) from error
    return choices


def modality_limits(text: str) -> object:
    """Return the limits by modality of a text: JSON, or ``image=2,video=0`` as older releases took it."""
    pairs = [pair.partition("=") for pair in text.split(",")]
    if not all(sign and number.strip().isdecimal() for _, sign, number in pairs):
        return _parsed(text)
    return {name.strip(): _parsed(number.strip()) for name, _, number in pairs}


def names(texts: Iterable[str]) -> list[str]:
    """Return the names in texts, each of which may hold several with commas between them."""
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def price_choices(texts: Iterable[str]) -> list[dict[str, Any]]:
    """Return the prices that texts state, such as ``l4-24gb=0.7``, as the list of the body.

    Raises:
        InvalidRequest: a text is no GPU type with a number behind ``=``.
    """
    choices: list[dict[str, Any]] = []
    for index, text in enumerate(texts):
        gpu, _, price = text.rpartition("=")
        try:
            choices.append({"gpu": gpu.strip(), "usd_per_gpu_hour": float(price)})
        except ValueError as error:
            words = "is not a GPU type and a number, such as l4-24gb=0.7"
            raise InvalidRequest([(f"/prices/{index}", words)]) from error
    return choices


_READERS: Final[Mapping[str, Callable[[Any], object]]] = {
    **dict.fromkeys(JSON_PARAMETERS, _parsed),
    "limit_mm_per_prompt": modality_limits,
    "gpu": gpu_choices,
    "price": price_choices,
    **dict.fromkeys(("compare", "patch", "include"), names),
}
"""How the text of a flat parameter becomes a value of the body, where the two differ."""


PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "model": ("model",),
    "command": ("command",),
    "revision": ("revision",),
    "gpu": ("gpus",),
    "free_memory_bytes": ("free_memory_bytes",),
    "engine_version": ("engine", "version"),
    "compare": ("engine", "versions"),
    "patch": ("engine", "patches"),
    "prompt_tokens": ("workload", "prompt_tokens"),
    "output_tokens": ("workload", "output_tokens"),
    "concurrent_requests": ("workload", "concurrent_requests"),
    "request_rate": ("workload", "request_rate"),
    "max_tpot_ms": ("workload", "max_tpot_ms"),
    "max_ttft_ms": ("workload", "max_ttft_ms"),
    "shared_prefix_tokens": ("workload", "shared_prefix_tokens"),
    "price": ("prices",),
    "price_kind": ("price_kind",),
    "objective": ("objective",),
    "include": ("include",),
    "search": ("search",),
    **{flag: ("serve", flag) for flag in ServeInput.model_fields},
}
"""Place of each flat parameter in the body."""
