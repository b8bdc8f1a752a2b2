"""The command that starts what was planned."""

import json
import shlex
from dataclasses import fields
from typing import Any, Final

from service.engines.flags import ServeFlags
from service.engines.speculation import SpeculativeConfig

DEFAULTS: Final = ServeFlags()
ONLY_WHEN_CHOSEN: Final = {"tensor_parallel_size": 1, "kv_cache_dtype": "auto"}
"""Flags that a plan always settles, and the value that needs no mention."""


def serve_command(model: str, flags: ServeFlags) -> str:
    """Return the ``vllm serve`` line for these flags; none that equal their defaults."""
    words = ["vllm", "serve", model]
    for field in fields(flags):
        value = getattr(flags, field.name)
        if value == getattr(DEFAULTS, field.name) or value == ONLY_WHEN_CHOSEN.get(field.name):
            continue
        words += _flag(field.name, value)
    return shlex.join(words)


def _flag(name: str, value: Any) -> list[str]:  # noqa: ANN401 - whatever the field holds
    option = "--" + name.replace("_", "-")
    if value is True:
        return [option]
    if value is False:
        return ["--no-" + option.removeprefix("--")]
    if name == "kv_cache_memory_bytes":
        return ["--kv-cache-memory-bytes", str(value)]
    if isinstance(value, SpeculativeConfig):
        return [option, json.dumps(value.document())]
    if isinstance(value, tuple):
        return [option, *map(str, value)]
    return [option, str(value)]
