"""The command that starts what was planned."""

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final

from packaging.version import Version

from service.engines.engine_rules import EngineRules
from service.engines.flags import KEYS_OF, ServeFlags
from service.engines.json_object import JsonObject
from service.engines.releases import FLAG_DEFAULTS
from service.engines.rules.capacity import CapacityRules
from service.engines.speculative_config import SpeculativeConfig
from service.launch_command.flags.carried_arguments import NOTHING_CARRIED, CarriedArguments

DEFAULTS: Final = ServeFlags()
ENVIRONMENT: Final = "environment"
"""The field that stands before the command."""
_NAMES: Final = tuple(each.name for each in fields(ServeFlags) if each.name != ENVIRONMENT)
_values: Final = attrgetter(*_NAMES)
_UNTOUCHED: Final = _values(DEFAULTS)


def serve_command(
    model: str,
    flags: ServeFlags,
    rules: EngineRules,
    revision: str | None = None,
    carried: CarriedArguments = NOTHING_CARRIED,
) -> str:
    """Return the ``vllm serve`` line for these flags, quoted for a shell, without flags at their defaults.

    ``revision`` is the branch, tag or commit of the request; ``None`` for the model's default. ``carried``:
    what the caller's own command holds beside the flags.
    """
    before = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables_of(flags, carried))
    return f"{before} {shlex.join(serve_words(model, flags, rules, revision, carried))}".lstrip()


def variables_of(flags: ServeFlags, carried: CarriedArguments) -> tuple[tuple[str, str], ...]:
    """Return the variables of the process that serves, with their values."""
    return (*flags.environment, *carried.environment)


def serve_words(
    model: str,
    flags: ServeFlags,
    rules: EngineRules,
    revision: str | None = None,
    carried: CarriedArguments = NOTHING_CARRIED,
) -> list[str]:
    """Return the words of the ``vllm serve`` line, without variables; arguments as of ``serve_command``."""
    words = ["vllm", "serve", _positional(model)]
    if revision is not None:
        words += _option("--revision", revision)
    for name, value in _specified(flags, rules.capacity, rules.release):
        words += _flag(name, value)
    return [*words, *carried.words]


def _specified(flags: ServeFlags, rules: CapacityRules, release: Version) -> Iterator[tuple[str, Any]]:
    """Yield the flags whose values are not the release's defaults."""
    for name, value, untouched in zip(_NAMES, _values(flags), _UNTOUCHED, strict=True):
        if value != untouched and value not in _defaults(name, rules, release):
            yield name, value


def _defaults(name: str, rules: CapacityRules, release: Version) -> tuple[Any, ...]:
    if name == "gpu_memory_utilization":
        return (rules.gpu_memory_utilization / 100,)
    return FLAG_DEFAULTS[name].at(release) if name in FLAG_DEFAULTS else ()


def _positional(word: str) -> str:
    """Return a word that no parser takes for an option. For a directory, ``./`` changes nothing."""
    return f"./{word}" if word.startswith("-") else word


def _flag(name: str, value: Any) -> list[str]:  # noqa: ANN401 - whatever the field holds
    option = "--" + name.replace("_", "-")
    if name in KEYS_OF:
        return _members("--" + KEYS_OF[name].replace("_", "-"), {name: value})
    if isinstance(value, bool):
        return [option if value else "--no-" + option.removeprefix("--")]
    if isinstance(value, SpeculativeConfig):
        return _members(option, value.document())
    if isinstance(value, JsonObject):
        return [option, value.text]
    if isinstance(value, tuple):
        return [option, *map(str, value)]
    return _option(option, str(value)) if isinstance(value, str) else [option, str(value)]


def _members(option: str, document: Mapping[str, Any]) -> list[str]:
    """Return an object as one option per key, so that a shell needs no quotes.

    Source: vLLM 0.10.2 to 0.33.0, FlexibleArgumentParser: a value that is JSON is read as such.
    """
    words: list[str] = []
    for key, value in document.items():
        words += _option(f"{option}.{key}", value if isinstance(value, str) else json.dumps(value))
    return words


def _option(option: str, value: str) -> list[str]:
    """Return an option and its value, joined by ``=`` if the value looks like an option."""
    return [f"{option}={value}"] if value.startswith("-") else [option, value]
