"""A published command, sorted into flags that are planned, flags that cannot matter and flags that may.

The spellings are those of vLLM's own parser: ``-tp 8``, ``--tensor-parallel-size=8``, underscores for
hyphens, ``--no-...`` for a switch that is off, JSON values, ``--name.key value`` for one key of a JSON value,
``32k`` and ``32K``.

Source: vLLM 0.28.0, utils/argparse_utils.py FlexibleArgumentParser and engine/arg_utils.py EngineArgs.
"""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

from service.engines.flags import ServeFlags
from service.engines.speculative_config import KEYS
from service.startup_log.arguments import SHORT

_TABLE: Final[Mapping[str, Any]] = tomllib.loads(Path(__file__).with_name("flags.toml").read_text("utf-8"))
IGNORED: Final[Mapping[str, str]] = _TABLE["ignored"]
"""Why a flag cannot change memory, by its name, or by the name and a key of its value."""
NOT_MODELLED: Final[Mapping[str, str]] = _TABLE["not_modelled"]
"""What a flag may change, by its name, or by the name and a key of its value."""
SAVING: Final = frozenset(_TABLE["saving"]["flags"])
"""Flags that are not modelled and can make a start take less memory, or give it other defaults."""
IGNORED_ENVIRONMENT: Final[Mapping[str, str]] = _TABLE["ignored_environment"]
NOT_MODELLED_ENVIRONMENT: Final[Mapping[str, str]] = _TABLE["not_modelled_environment"]
RENAMED: Final[Mapping[str, str]] = _TABLE["renamed"]
"""Other names of flags that ``ServeFlags`` has; a dot comes before a key of a value."""
_OPENED: Final = frozenset(
    name.partition(".")[0] for table in (IGNORED, NOT_MODELLED, RENAMED) for name in table if "." in name
)
"""Flags with a JSON value of which some keys are sorted by themselves."""
_SHORT: Final[Mapping[str, str]] = {**_TABLE["short"], **SHORT}
_KINDS: Final[Mapping[str, Any]] = get_type_hints(ServeFlags)
_HUMAN: Final = re.compile(r"(\d+(?:\.\d+)?)([kmgtKMGT])")
_POWERS: Final = {letter: power for power, letter in enumerate("kmgt", 1)}
_FAKE: Final = frozenset({"...", "\\"})
"""Words that stand for more than what is written."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command as a plan can be asked for it."""

    serve: Mapping[str, Any]
    """Flags under their own names, as the body of a plan takes them."""
    ignored: tuple[str, ...] = ()
    """Flags that cannot change memory."""
    not_modelled: tuple[str, ...] = ()
    """Flags that may change memory, and that nothing is known about."""
    unknown: tuple[str, ...] = ()
    """Flags that stand in neither list."""

    @property
    def saving(self) -> tuple[str, ...]:
        """Those of the flags not modelled that can make it take less memory."""
        return tuple(name for name in self.not_modelled if name in SAVING)


@dataclass(slots=True)
class _Sorted:
    serve: dict[str, Any] = field(default_factory=dict)
    ignored: dict[str, None] = field(default_factory=dict)
    not_modelled: dict[str, None] = field(default_factory=dict)
    unknown: dict[str, None] = field(default_factory=dict)

    def put(self, name: str, value: Any) -> None:  # noqa: ANN401 - whatever was written
        """Sort one flag, or one key of a flag's value."""
        known = RENAMED.get(name, name)
        head, dot, key = name.partition(".")
        if known in _KINDS:
            self._serve(known, _read(known, value))
        elif isinstance(value, dict) and value and name in _OPENED:
            for inner, each in value.items():
                self.put(f"{name}.{inner}", each)
        elif head == "speculative_config":
            self._speculate({key: _scalar(value)})
        elif dot and name not in IGNORED and name not in NOT_MODELLED:
            self._sort(head)
        else:
            self._sort(name)

    def _sort(self, name: str) -> None:
        if name in IGNORED:
            self.ignored[name] = None
        elif name in NOT_MODELLED:
            self.not_modelled[name] = None
        else:
            self.unknown[name] = None

    def _serve(self, name: str, value: Any) -> None:  # noqa: ANN401 - whatever was written
        if name == "speculative_config" and isinstance(value, dict):
            self._speculate(value)
        elif value is not None:
            self.serve[name] = value

    def _speculate(self, given: Mapping[str, Any]) -> None:
        for key, value in given.items():
            if key in KEYS:
                self.serve.setdefault("speculative_config", {})[key] = value
            else:
                self._sort(f"speculative_config.{key}")


def read_command(
    words: Iterable[str] | Mapping[str, Any], environment: Mapping[str, str] | None = None
) -> Command:
    """Return a command by the words behind the model's name, or by flags that a log names."""
    found = _Sorted()
    for name, value in environment.items() if environment else ():
        _put_variable(found, name, value)
    specified = words.items() if isinstance(words, Mapping) else _options(_plain(words))
    for name, value in specified:
        found.put(name, value)
    return Command(found.serve, tuple(found.ignored), tuple(found.not_modelled), tuple(found.unknown))


def _put_variable(found: _Sorted, name: str, value: str) -> None:
    if name in RENAMED:
        found.put(RENAMED[name], value)
    elif name in NOT_MODELLED_ENVIRONMENT:
        found.not_modelled[name] = None
    elif name in IGNORED_ENVIRONMENT:
        found.ignored[name] = None
    else:
        found.unknown[name] = None


def _plain(words: Iterable[str]) -> list[str]:
    """Return the words apart, without those that stand for what was left out."""
    return [part for word in words if word not in _FAKE for part in _halves(word)]


def _halves(word: str) -> tuple[str, ...]:
    """Return the two words of which a list made one: ``--max-model-len auto``."""
    head, _, rest = word.partition(" ")
    return (head, rest.strip()) if head.startswith("--") and "=" not in head and rest else (word,)


def _options(words: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield flags under their own names with their values; ``True`` or ``False`` for a switch."""
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if not word.startswith("-"):
            continue
        level = re.fullmatch(r"-O=?(\d)", word)
        option, joined, value = ("O", "=", level[1]) if level else word.lstrip("-").partition("=")
        head, dot, key = option.partition(".")
        name = _SHORT.get(head, head.replace("-", "_")) + dot + key
        if not joined:
            taken = _values(words[position:])
            position += len(taken)
            value = taken[0] if taken else ""
        if joined or value:
            yield name, _parsed(value)
        elif name.startswith("no_"):
            yield name.removeprefix("no_"), False
        else:
            yield name, True


def _values(words: list[str]) -> list[str]:
    taken = []
    for word in words:
        if word.startswith("-") and not re.fullmatch(r"-\d+(\.\d+)?", word):
            break
        taken.append(word)
    return taken


def _parsed(text: str) -> Any:  # noqa: ANN401 - whatever was written
    """Return what JSON says, or the word itself."""
    if text[:1] in {"{", "["}:
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


def _scalar(value: Any) -> Any:  # noqa: ANN401 - whatever was written
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _read(name: str, value: Any) -> Any:  # noqa: ANN401 - whatever was written
    """Return a flag's value as the body of a plan takes it; as it was written where it is none."""
    hint = _KINDS[name]
    if isinstance(hint, UnionType):
        hint = next(each for each in get_args(hint) if each is not type(None))
    if get_origin(hint) is tuple:
        return value if isinstance(value, list) else [str(value)]
    if name == "max_cudagraph_capture_size" and isinstance(value, list):
        return max(value, default=0)
    if hint is bool:
        return {"true": True, "false": False}.get(str(value).lower(), value)
    if hint in {int, float}:
        return _number(value, hint)
    return value


def _number(value: Any, kind: type) -> Any:  # noqa: ANN401 - whatever was written
    """Return a number; ``32k`` is 32,000 and ``32K`` 32,768.

    Source: vLLM 0.28.0, engine/arg_utils.py human_readable_int and human_readable_int_or_auto.
    """
    if value == "auto":
        return -1
    if not isinstance(value, str):
        return value
    human = _HUMAN.fullmatch(value)
    if human:
        base = 1024 if human[2].isupper() else 1000
        return int(float(human[1]) * base ** _POWERS[human[2].lower()])
    try:
        return kind(value)
    except ValueError:
        return value
