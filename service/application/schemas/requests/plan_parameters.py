"""PlanParameters: a request for a plan as flat parameters, and the place of each in the body."""

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field, model_validator

from service.application.schemas.flags.flag_types import Name
from service.application.schemas.flags.flags import FlagsInput
from service.application.schemas.flags.serve import OBJECTS, ServeInput
from service.application.schemas.requests.gpu_choice import MAX_GPUS
from service.application.schemas.requests.plan_body import (
    MAX_PARTS,
    MAX_PATCHES,
    MAX_VERSIONS,
    NVLINK_BRIDGE,
    FreeMemory,
    ModelId,
    ObjectiveName,
    Revision,
)
from service.application.schemas.requests.price import MAX_PRICES, PriceKindName
from service.application.schemas.requests.renamed import LISTED, RENAMED, as_in_query, names
from service.application.schemas.requests.workload import Milliseconds, PromptTokens, TokenCount

MAX_COMMAND_IN_QUERY: Final = 1 << 13
"""Characters of a command in a query string."""
MAX_JSON: Final = 4096
"""Characters of a parameter that holds a JSON object."""

GpuTexts = Annotated[str, Field(min_length=1, max_length=1000)]
"""Names of GPU types, separated by commas, or the text of a GPU of the caller's own."""
PriceText = Annotated[str, Field(min_length=3, max_length=120)]


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
    nvlink_bridge: bool | None = Field(default=None, description=NVLINK_BRIDGE)
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
    prompt_tokens: PromptTokens | None = Field(
        default=None,
        description="Workload: tokens of a prompt; left out: all of `max_model_len` that the answer leaves, "
        "or no workload",
    )
    output_tokens: TokenCount | None = Field(
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
    shared_prefix_tokens: TokenCount | None = Field(
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

    @model_validator(mode="before")
    @classmethod
    def _as_in_a_query(cls, given: Any) -> Any:  # noqa: ANN401 - whatever was sent
        return as_in_query(given)

    def document(self) -> dict[str, Any]:
        """Return the same request as the body of a POST.

        Raises:
            InputFault: the text of a GPU of the caller's own cannot be read.
        """
        document: dict[str, Any] = {}
        for name, value in self:
            if value is None or name not in PLACES:
                continue
            *sections, key = PLACES[name]
            target = document
            for section in sections:
                target = target.setdefault(section, {})
            target[key] = _READERS[name](value) if name in _READERS else value
        return _with_whole_prompts(document)


def _with_whole_prompts(document: dict[str, Any]) -> dict[str, Any]:
    """Return a body whose workload has prompts as long as the context allows, where it names no other."""
    workload, length = document.get("workload"), document.get("serve", {}).get("max_model_len")
    if workload is None or "prompt_tokens" in workload or length is None:
        return document
    prompt = length - workload.get("output_tokens", 0)
    return document if prompt < 1 else {**document, "workload": {**workload, "prompt_tokens": prompt}}


JSON_PARAMETERS: Final = frozenset({"speculative_config", "environment", *OBJECTS})
"""Parameters that hold a JSON object."""


def _parsed(text: str) -> object:
    """Parse a JSON text; return what is not JSON as it is, for the schema of the body to refuse."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def modality_limits(text: str) -> object:
    """Return the limits by modality of a text: JSON, or ``image=2,video=0`` as older releases took it."""
    pairs = [pair.partition("=") for pair in text.split(",")]
    if not all(sign and number.strip().isdecimal() for _, sign, number in pairs):
        return _parsed(text)
    return {name.strip(): _parsed(number.strip()) for name, _, number in pairs}


_READERS: Final[Mapping[str, Callable[[Any], object]]] = {
    **dict.fromkeys(JSON_PARAMETERS, _parsed),
    "limit_mm_per_prompt": modality_limits,
    **LISTED,
    "include": names,
}
"""How the text of a flat parameter becomes a value of the body, where the two differ."""


PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "model": ("model",),
    "command": ("command",),
    "revision": ("revision",),
    **RENAMED,
    "free_memory_bytes": ("free_memory_bytes",),
    "nvlink_bridge": ("nvlink_bridge",),
    "prompt_tokens": ("workload", "prompt_tokens"),
    "output_tokens": ("workload", "output_tokens"),
    "concurrent_requests": ("workload", "concurrent_requests"),
    "request_rate": ("workload", "request_rate"),
    "max_tpot_ms": ("workload", "max_tpot_ms"),
    "max_ttft_ms": ("workload", "max_ttft_ms"),
    "shared_prefix_tokens": ("workload", "shared_prefix_tokens"),
    "price_kind": ("price_kind",),
    "objective": ("objective",),
    "include": ("include",),
    "search": ("search",),
    **{flag: ("serve", flag) for flag in ServeInput.model_fields},
}
"""Place of each flat parameter in the body."""
