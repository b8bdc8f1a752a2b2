"""Flat parameters of a plan for any engine: a query string, or options of the command line."""

import json
import shlex
from typing import Annotated, Any, Final

from pydantic import Field

from service.application.errors import InvalidRequest
from service.application.schemas.flags.flag_types import Name
from service.application.schemas.requests.plan_parameters import MAX_COMMAND_IN_QUERY, PlanParameters

MAX_ENGINES: Final = 8
CacheBytes = Annotated[
    Annotated[int, Field(ge=1, le=1 << 45)] | None,
    Field(
        description="Bytes of each GPU that the cache may take, weights and buffers aside; left out: what is "
        "left of the GPU"
    ),
]
OTHERS: Final = ("model", "revision", "gpus", "workload")
"""Members of the body that a request for another engine shares with one for vLLM."""


class EngineParameters(PlanParameters):
    """One dry run as flat parameters, of vLLM or of another engine; left out as in the body."""

    engine: Name | None = Field(
        default=None, description="Engine: vllm, llama.cpp, sglang or tensorrt-llm; left out: vllm"
    )
    engine_flags: Annotated[str, Field(max_length=MAX_COMMAND_IN_QUERY)] | None = Field(
        default=None,
        description="Flags of another engine as a shell takes them, such as `-c 32768 -np 4`, or a JSON "
        "object; left out: none",
    )
    compare_engines: Annotated[list[Name], Field(max_length=MAX_ENGINES)] | None = Field(
        default=None,
        description="Engine to compare, repeatable or separated by commas, in order; left out: none",
    )
    cache_bytes: CacheBytes = None

    def document(self) -> dict[str, Any]:
        """Return the same request as the body of a POST.

        Raises:
            InputFault: the text of a GPU of the caller's own cannot be read.
            InvalidRequest: parameters do not go together, or flags cannot be read.
        """
        document = super().document()
        if self.compare_engines is not None:
            names = [
                name.strip() for each in self.compare_engines for name in each.split(",") if name.strip()
            ]
            document["engines"] = names
        elif self.engine is not None and self.engine != "vllm":
            engine = {**document.get("engine", {}), "name": self.engine}
            document = {key: document[key] for key in OTHERS if key in document}
            document |= {"engine": engine, "serve": read_flags(self.engine_flags or "")}
        elif self.engine_flags is not None:
            raise InvalidRequest(
                [
                    (
                        "/serve",
                        "goes with --engine llama.cpp, sglang or tensorrt-llm (`engine` in a query string)",
                    )
                ]
            )
        if self.cache_bytes is not None:
            if "engines" not in document and self.engine in {None, "vllm"}:
                raise InvalidRequest([("/cache_bytes", "is `kv_cache_memory_bytes` for vLLM alone")])
            document["cache_bytes"] = self.cache_bytes
        return document


def read_flags(text: str) -> dict[str, Any]:
    """Return flags by their names: words as a shell takes them, or a JSON object.

    Raises:
        InvalidRequest: they cannot be read.
    """
    if text.lstrip().startswith("{"):
        try:
            found: dict[str, Any] = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidRequest([("/serve", "is not a JSON object")]) from error
        return found
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InvalidRequest([("/serve", f"cannot be read: {error}")]) from error
    flags: dict[str, Any] = {}
    name = None
    for word in words:
        if word.startswith("-") and not _is_number(word):
            name, _, value = word.partition("=")
            flags[name] = value or True
        elif name is None:
            raise InvalidRequest([("/serve", "has a value before any flag")])
        else:
            flags[name], name = word, None
    return flags


def _is_number(word: str) -> bool:
    return word[1:].replace(".", "", 1).isdigit()
