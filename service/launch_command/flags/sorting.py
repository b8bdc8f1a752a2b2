"""Sorts the flags and variables of a start by what a plan does with them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, get_type_hints

from packaging.version import Version

from service.engines.arguments.arguments import releases_with, variables_of
from service.engines.arguments.effects import (
    Effect,
    FlagEffect,
    MemoryChange,
    Touched,
    effect_of,
)
from service.engines.arguments.successors import successor_of
from service.engines.flags import ServeFlags
from service.gpus.capability import ComputeCapability
from service.launch_command.flags.converted_values import human_int
from service.launch_command.launch import LaunchCommand, Value, WrittenFlag
from service.units import MIB

DEEPEST: Final = 3
"""Levels of keys of a JSON value that are sorted by themselves."""
_HINTS: Final[Mapping[str, Any]] = get_type_hints(ServeFlags)
_INTEGERS: Final = frozenset(name for name, hint in _HINTS.items() if hint in {int, int | None})
_OWN_VARIABLE: Final = re.compile(r"VLLM_[A-Z0-9_]{1,100}")
_MATTERS: Final = frozenset({Touched.MEMORY, Touched.CACHE, Touched.START})
"""What a verdict depends on."""


@dataclass(frozen=True, slots=True)
class SortedFlag:
    """A flag or a variable that a plan does not use."""

    name: str
    """With underscores, and a key of its value after a dot."""
    reason: str
    """What it changes, in one phrase."""
    touches: tuple[Touched, ...] = ()
    memory: MemoryChange | None = None
    at_most_mib: int | None = None
    """The most MiB by which it changes the memory of a rank; None where that is not known."""
    sure_on: tuple[int, ...] = ()
    """Major compute capabilities on which it cannot make a start fail; none where that depends on more."""

    @property
    def takes_at_most(self) -> int:
        """Bytes that a rank takes with it beyond the plan, where a limit is known; else 0."""
        saves = self.memory is MemoryChange.LESS
        return 0 if self.at_most_mib is None or saves else self.at_most_mib * MIB

    def may_prevent_start(self, capability: ComputeCapability | None) -> bool:
        """Whether a start that is planned without it may fail with it, however much room it has.

        ``capability``: of the GPU; None where that is not known.
        """
        harmless = set()
        if self.memory is MemoryChange.LESS or self.at_most_mib is not None:
            harmless.add(Touched.MEMORY)
        if capability is not None and capability.major in self.sure_on:
            harmless.add(Touched.START)
        return bool(_MATTERS & {*self.touches} - harmless)

    @property
    def may_allow_start(self) -> bool:
        """Whether a start that is refused without it may succeed with it."""
        return self.memory in {MemoryChange.LESS, MemoryChange.EITHER}


@dataclass(frozen=True, slots=True)
class SortedFlags:
    """The flags and variables of a start."""

    serve: Mapping[str, Value] = field(repr=False)
    """Values of those that are planned, by the fields of ``ServeFlags``."""
    used: tuple[str, ...]
    no_effect: tuple[SortedFlag, ...]
    not_modelled: tuple[SortedFlag, ...]


@dataclass(slots=True)
class _Sorted:
    release: Version
    variables: frozenset[str] = frozenset()
    """Names of the variables that are set."""
    serve: dict[str, Value] = field(default_factory=dict)
    used: dict[str, None] = field(default_factory=dict)
    no_effect: dict[str, SortedFlag] = field(default_factory=dict)
    not_modelled: dict[str, SortedFlag] = field(default_factory=dict)

    def put(self, name: str, effect: FlagEffect) -> None:
        """Keep a flag that is not planned."""
        kept = self.no_effect if effect.effect is Effect.NO_EFFECT else self.not_modelled
        kept[name] = SortedFlag(
            name, effect.reason, effect.touches, effect.memory, effect.at_most_mib, effect.sure_on
        )

    def use(self, name: str, used_as: str, value: Value) -> None:
        """Keep a flag that is planned."""
        self.used[name] = None
        known, _, key = used_as.partition(".")
        if isinstance(value, list) and known in _INTEGERS:
            # The engine captures a graph for each size; the largest of them bounds the others.
            value = max((each for each in value if isinstance(each, int)), default=0)
        if known == "environment":
            self.serve.setdefault(known, {})[name] = value
        elif key:
            self.serve.setdefault(known, {})[key] = value
        elif value is not None:
            self.serve[known] = _typed(known, value)


def _typed(name: str, value: Value) -> Value:
    """Return a text as the type that a plan has for a flag; a text that is none of that type stays text.

    The engine's parser keeps some numbers as text, and a variable's value is always text.
    """
    if not isinstance(value, str):
        return value
    hint = _HINTS.get(name)
    if hint in {int, int | None}:
        number = human_int(value)
        return value if number is None else number
    if hint in {bool, bool | None}:
        return {"1": True, "true": True, "0": False, "false": False}.get(value.lower(), value)
    return value


def sort_flags(launch: LaunchCommand, release: Version) -> SortedFlags:
    """Sort the flags and the variables of a start, as a release takes them."""
    found = _Sorted(release, frozenset(launch.environment))
    for name, value in launch.environment.items():
        _variable(found, name, value)
    for flag in launch.flags:
        _flag(found, flag)
    return SortedFlags(
        found.serve, tuple(found.used), tuple(found.no_effect.values()), tuple(found.not_modelled.values())
    )


def _flag(found: _Sorted, flag: WrittenFlag) -> None:
    if flag.missing:
        _without_value(found, flag)
        return
    whole = effect_of(flag.name)
    if isinstance(flag.value, dict) and flag.value and (whole is None or not _is_whole(flag.name, whole)):
        for key, value in _members(flag.value):
            _one(found, flag.name, key, value)
    else:
        _one(found, flag.name, None, flag.value)


def _is_whole(name: str, effect: FlagEffect) -> bool:
    """Whether an object is planned as it is, and not key by key."""
    return effect.effect is Effect.USED and name != "speculative_config"


def _members(value: Mapping[str, Any], depth: int = 1) -> Iterator[tuple[str, Any]]:
    for key, each in value.items():
        if isinstance(each, dict) and each and depth < DEEPEST:
            yield from ((f"{key}.{inner}", deep) for inner, deep in _members(each, depth + 1))
        else:
            yield str(key), each


def _one(found: _Sorted, name: str, key: str | None, value: Value) -> None:
    full = f"{name}.{key}" if key else name
    effect = effect_of(name, key, value, found.release)
    if effect is None:
        words = "nothing is known of what it changes"
        effect = FlagEffect(Effect.NOT_MODELLED, words, tuple(_MATTERS), MemoryChange.EITHER)
    if effect.effect is Effect.USED:
        found.use(full, effect.used_as, value)
    else:
        found.put(full, effect)


def _without_value(found: _Sorted, flag: WrittenFlag) -> None:
    """Sort a flag whose value the text does not give: one that matters is not planned."""
    effect = effect_of(flag.name)
    if effect is not None and effect.effect is Effect.NO_EFFECT:
        found.put(flag.name, effect)
        return
    words = f"its value depends on {_listed(flag.missing)}, which the text does not give"
    touched = effect.touches if effect is not None and effect.touches else (Touched.MEMORY, Touched.START)
    found.put(flag.name, FlagEffect(Effect.NOT_MODELLED, words, touched, MemoryChange.EITHER))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def _variable(found: _Sorted, name: str, value: str) -> None:
    effect = effect_of(name, None, value, found.release)
    known = bool(releases_with(name))
    if known and name not in variables_of(found.release):
        instead = successor_of(name)
        words = f"vLLM {found.release} does not read it" + (f"; {instead}" if instead else "")
        found.put(name, FlagEffect(Effect.NO_EFFECT, words))
    elif effect is not None and effect.needs and found.variables.isdisjoint(effect.needs):
        words = f"it is read only beside {' or '.join(effect.needs)}"
        found.put(name, FlagEffect(Effect.NO_EFFECT, words))
    elif effect is None:
        if _OWN_VARIABLE.fullmatch(name):
            found.put(name, FlagEffect(Effect.NO_EFFECT, "no release that is modelled reads it"))
    elif effect.effect is not Effect.USED:
        found.put(name, effect)
    else:
        found.use(name, effect.used_as, value)
