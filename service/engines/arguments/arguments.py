"""The arguments of `vllm serve` in each release: names, types, defaults, spellings.

``arguments.toml`` and ``variables.toml`` are written by ``python -m tests.oracle.arguments`` from the source
of every release. They are read when they are first needed.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property
from typing import Any, Final

from packaging.version import Version

from service.bundled_toml import read_toml
from service.engines.arguments.successors import successor_of
from service.engines.releases import RELEASES
from service.nearest_names import nearest

NONE: Final = "none"
"""Kind of a state in which the release has no such argument."""


class ArgumentKind(StrEnum):
    """How the release's parser reads the value of an argument."""

    SWITCH = "switch"
    """No value; there is no ``--no-`` form."""
    BOOL = "bool"
    """No value; the form with ``--no-`` turns it off."""
    INT = "int"
    HUMAN_INT = "human_int"
    """A whole number, or one with a letter: 1k is 1,000 and 1K is 1,024; 25.6k is possible."""
    HUMAN_INT_OR_AUTO = "human_int_or_auto"
    """The same, or ``auto``, which is -1."""
    FLOAT = "float"
    STR = "str"
    OPTIONAL_STR = "optional_str"
    """A word, or no value at all."""
    LIST = "list"
    """One or more values, up to the next argument."""
    APPEND = "append"
    """One value; the argument may be given several times."""
    JSON = "json"
    """A JSON value, or its keys one by one: ``--name.key value``."""
    JSON_OR_STR = "json_or_str"
    """A JSON object or its keys, or else a word."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a release."""

    name: str
    """With underscores and without hyphens in front, as ``ServeFlags`` writes it."""
    kind: ArgumentKind
    default: str | None = None
    """JSON text of the value that the parser takes for an argument left out; None where the release computes
    it."""
    also: tuple[str, ...] = ()
    """Other spellings, with their hyphens, such as ``-tp``."""
    choices: tuple[str, ...] = ()
    """The only values; empty where there are others."""
    items: ArgumentKind | None = None
    """Type of the items of a list."""
    nullable: bool = False
    """Whether the word ``None`` stands for no value."""
    folded: bool = False
    """Whether a value is put in lower case, with underscores for hyphens, before it is looked up."""
    deprecated: bool = False
    """Whether the release announces that it will be removed."""
    keys: tuple[str, ...] = ()
    """Keys of a JSON value of which the release knows all; empty where it takes any."""

    @property
    def spelling(self) -> str:
        """The spelling in the release's help, such as ``--max-model-len``."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def takes_value(self) -> bool:
        """Whether a value must follow it."""
        return self.kind not in {ArgumentKind.SWITCH, ArgumentKind.BOOL, ArgumentKind.OPTIONAL_STR}


@dataclass(frozen=True, slots=True)
class FoundArgument:
    """What a spelling on a command line stands for."""

    argument: Argument
    negated: bool = False
    """Whether it is the form with ``--no-``."""
    key: str = ""
    """Key of a JSON value after a dot, with dots between nested keys; empty for the whole value."""


class UnknownArgument(ValueError):
    """A release has no such argument.

    Attributes:
        spelling: what was given, without a value.
        nearest: spellings of similar arguments of the release.
        since: the first release that has it; None if no modelled release has it.
        until: the first release without it again; None if the newest one has it.
    """

    def __init__(self, spelling: str, release: Version, similar: tuple[str, ...]) -> None:
        self.spelling = spelling
        instead = successor_of(spelling)
        self.nearest = () if instead else similar
        having = releases_with(spelling)
        later = [other for other in RELEASES if having and other > having[-1]]
        self.since = having[0] if having else None
        self.until = later[0] if later else None
        words = f"vLLM {release} has no argument {spelling}"
        if having and self.since is not None and release < self.since:
            words += f": it came with {self.since}"
        elif self.until is not None:
            words += f": {self.until} removed it{'; ' if instead else ''}{instead}"
        elif instead:
            words += f": {instead}"
        elif similar:
            words += f"; similar ones: {', '.join(similar)}"
        super().__init__(words)


MOST_SIMILAR: Final = 256
"""Unknown words of one release whose similar spellings are stored."""


class ArgumentTable:
    """The arguments of one release."""

    def __init__(self, release: Version, arguments: Iterable[Argument]) -> None:
        self.release = release
        self._by_name: Final = {argument.name: argument for argument in arguments}
        self._similar_to: Final[dict[str, tuple[str, ...]]] = {}

    @property
    def names(self) -> frozenset[str]:
        """The names of all arguments, with underscores."""
        return frozenset(self._by_name)

    def __getitem__(self, name: str) -> Argument:
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    @cached_property
    def _spellings(self) -> Mapping[str, FoundArgument]:
        found: dict[str, FoundArgument] = {}
        for argument in self._by_name.values():
            for spelling in (argument.spelling, *argument.also):
                found[spelling] = FoundArgument(argument)
                if argument.kind is ArgumentKind.BOOL and spelling.startswith("--"):
                    found[f"--no-{spelling.removeprefix('--')}"] = FoundArgument(argument, negated=True)
        return found

    def find(self, spelling: str) -> FoundArgument:
        """Return the argument that a word of a command line names; the word ends before ``=``.

        As in the engine, underscores may stand for hyphens, ``--name.key`` names one key of a JSON value (a
        ``+`` behind it adds to a list), and the beginning of a long name will do if no other begins so.

        Raises:
            UnknownArgument: no argument, or more than one, is spelled so.

        Source: vLLM 0.33.0, utils/argparse_utils.py FlexibleArgumentParser.parse_args and argparse itself.
        """
        head, _, key = spelling.partition(".")
        word = head.replace("_", "-") if head.startswith("--") else head
        exact = self._spellings.get(word)
        if exact is None and word.startswith("--") and len(word) > len("--"):
            beginnings = {
                (found.argument.name, found.negated): found
                for known, found in self._spellings.items()
                if known.startswith(word)
            }
            exact = next(iter(beginnings.values())) if len(beginnings) == 1 else None
        if exact is None:
            raise UnknownArgument(head, self.release, self._similar(word))
        return FoundArgument(exact.argument, exact.negated, key.removesuffix("+"))

    def _similar(self, word: str) -> tuple[str, ...]:
        """Return similar spellings. A text may repeat one unknown word thousands of times."""
        if word not in self._similar_to:
            if len(self._similar_to) == MOST_SIMILAR:
                self._similar_to.clear()
            self._similar_to[word] = nearest(word, self._spellings, cutoff=0.7)
        return self._similar_to[word]


def _read(name: str) -> Mapping[str, Any]:
    return read_toml("service.engines.arguments", name)


@cache
def _arguments() -> Mapping[str, Any]:
    return _read("arguments.toml")


@cache
def _variables() -> Mapping[str, Mapping[str, tuple[Version, ...]]]:
    return {
        name: {edge: tuple(map(Version, dates)) for edge, dates in entry.items()}
        for name, entry in _read("variables.toml").items()
    }


def _state(changes: Mapping[str, Any], release: Version) -> Mapping[str, Any] | None:
    """Return the state in force in a release; None before the first and where there is no such argument."""
    found = None
    for since, state in changes.items():
        if Version(since) <= release:
            found = state
    return None if found is None or found["kind"] == NONE else found


def members_at(changes: Mapping[str, Any], release: Version) -> tuple[str, ...]:
    """Return the members of a list in a release, from what each release adds and removes."""
    members: tuple[str, ...] = ()
    for since, change in changes.items():
        if Version(since) <= release:
            gone = change.get("remove", ())
            members = (*(each for each in members if each not in gone), *change.get("add", ()))
    return members


def _argument(name: str, state: Mapping[str, Any], release: Version) -> Argument:
    data = _arguments()
    return Argument(
        name=name,
        kind=ArgumentKind(state["kind"]),
        default=state.get("default"),
        also=tuple(state.get("also", ())),
        choices=members_at(data["choices"].get(name, {}), release),
        items=ArgumentKind(state["items"]) if "items" in state else None,
        nullable=state.get("nullable", False),
        folded=state.get("folded", False),
        deprecated=state.get("deprecated", False),
        keys=members_at(data["keys"].get(name, {}), release),
    )


@cache
def arguments_of(release: Version) -> ArgumentTable:
    """Return the arguments that `vllm serve` of a modelled release takes."""
    states = ((name, _state(changes, release)) for name, changes in _arguments()["arguments"].items())
    return ArgumentTable(release, (_argument(name, state, release) for name, state in states if state))


@cache
def releases_with(spelling: str) -> tuple[Version, ...]:
    """Return the modelled releases that have an argument or a variable, oldest first.

    Args:
        spelling: a name such as ``max_model_len``, a spelling such as ``--max-model-len`` or ``-tp``, or the
            name of an environment variable.
    """
    if spelling in _variables():
        return tuple(release for release in RELEASES if spelling in variables_of(release))
    name = spelling.lstrip("-").replace("-", "_")
    changes = _arguments()["arguments"].get(name) or _arguments()["arguments"].get(name.removeprefix("no_"))
    if changes is not None:
        return tuple(release for release in RELEASES if _state(changes, release))
    return tuple(
        release
        for release in RELEASES
        if any(
            spelling in argument.also for argument in map(arguments_of(release).__getitem__, _names(release))
        )
    )


def _names(release: Version) -> Iterable[str]:
    return sorted(arguments_of(release).names)


@cache
def variables_of(release: Version) -> frozenset[str]:
    """Return the environment variables that a modelled release reads (its ``envs.py``)."""
    return frozenset(name for name, entry in _variables().items() if _has(entry, release))


def _has(entry: Mapping[str, tuple[Version, ...]], release: Version) -> bool:
    """Whether the last of a variable's changes up to a release brought it."""
    edges = {**dict.fromkeys(entry["since"], True), **dict.fromkeys(entry.get("until", ()), False)}
    passed = [edge for edge in edges if edge <= release]
    return bool(passed) and edges[max(passed)]


def default_of(argument: Argument) -> Any:  # noqa: ANN401 - of the argument's own type
    """Return the value that the parser takes for an argument left out.

    Raises:
        LookupError: the release computes it.
    """
    if argument.default is None:
        raise LookupError(f"the default of {argument.spelling} is computed")
    return json.loads(argument.default)
