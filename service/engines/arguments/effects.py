"""What an argument or a variable can change in a plan: it is used, it has no effect, or it may have one."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cache
from typing import Any, Final

from packaging.version import Version

from service.bundled_toml import read_toml
from service.engines.arguments.arguments import ArgumentKind, arguments_of
from service.engines.flags import ServeFlags
from service.engines.releases import RELEASES
from service.engines.speculative_config import KEYS

FIRST: Final = Version("0")


class Effect(StrEnum):
    """What a plan does with an argument."""

    USED = "used"
    NO_EFFECT = "no_effect"
    """Nothing that a plan says can change."""
    NOT_MODELLED = "not_modelled"
    """What the plan says may change, and the plan does not say how."""


class Touched(StrEnum):
    """What an argument can change."""

    MEMORY = "memory"
    """Bytes that a rank takes beside the cache."""
    CACHE = "cache"
    """Bytes of a token in the cache, blocks, or which of them are kept."""
    START = "start"
    """Whether the engine starts."""
    SPEED = "speed"
    TEXT = "text"
    """What is generated."""
    HOST = "host"
    """Memory or work of the CPU."""


class MemoryChange(StrEnum):
    """Whether a rank can take more or less of the GPU's memory with an argument than without it."""

    MORE = "more"
    LESS = "less"
    EITHER = "either"


@dataclass(frozen=True, slots=True)
class FlagEffect:
    """What an argument, a key of its JSON value or an environment variable does to a plan."""

    effect: Effect
    reason: str
    """What it changes, in one phrase; empty for an argument that is used."""
    touches: tuple[Touched, ...] = ()
    memory: MemoryChange | None = None
    """None where it cannot change the memory that a rank takes, or where it is used."""
    at_most_mib: int | None = None
    """The most MiB by which it can change that memory; None where that is not known."""
    sure_on: tuple[int, ...] = ()
    """Major compute capabilities on which it cannot make a start fail; none where that depends on more."""
    needs: tuple[str, ...] = ()
    """Variables without all of which it has no effect; empty: it stands alone."""
    since: Version = FIRST
    """The first release that this holds for."""
    until: Version | None = None
    """The first release that it no longer holds for; None: it holds for the newest."""
    used_as: str = ""
    """For an effect that is used: the field of ``ServeFlags``, and after a dot a key of its value."""

    def holds_for(self, release: Version) -> bool:
        """Whether a release does this with it."""
        return self.since <= release and (self.until is None or release < self.until)

    def overlaps(self, other: "FlagEffect") -> bool:
        """Whether two effects hold for one release."""
        starts = max(self.since, other.since)
        return self.holds_for(starts) and other.holds_for(starts)


USED: Final = frozenset(field.name for field in fields(ServeFlags))
AT_DEFAULT: Final = "it has the release's own default"


@cache
def _tables() -> tuple[Mapping[str, str], Mapping[str, tuple[FlagEffect, ...]]]:
    """Return the other names of what is used, and the effects of everything else by name.

    Raises:
        ValueError: a name is listed in two groups that hold for the same release.
    """
    data = read_toml("service.engines.arguments", "effects.toml")
    found: dict[str, tuple[FlagEffect, ...]] = {}
    for group in data["group"]:
        effect = FlagEffect(
            effect=Effect(group["effect"]),
            reason=group["reason"],
            touches=tuple(map(Touched, group.get("touches", ()))),
            memory=MemoryChange(group["memory"]) if "memory" in group else None,
            at_most_mib=group.get("at_most_mib"),
            sure_on=tuple(group.get("sure_on", ())),
            needs=tuple(group.get("needs", ())),
            since=Version(group["since"]) if "since" in group else FIRST,
            until=Version(group["until"]) if "until" in group else None,
        )
        for name in group["names"]:
            if any(effect.overlaps(other) for other in found.get(name, ())):
                raise ValueError(f"{name} has two effects")
            found[name] = (*found.get(name, ()), effect)
    return data["same_as"], found


def effects_by_name() -> Mapping[str, tuple[FlagEffect, ...]]:
    """Return the effects of arguments and variables that no plan uses, by name: one for each release."""
    return _tables()[1]


def same_as() -> Mapping[str, str]:
    """Return the fields of ``ServeFlags`` that other names stand for, by those names."""
    return _tables()[0]


def effect_of(
    name: str, key: str | None = None, value: object = None, release: Version | None = None
) -> FlagEffect | None:
    """Return what an argument or a variable does to a plan; None if nothing is known of the name.

    Args:
        name: an argument with underscores, or an environment variable.
        key: a key of the argument's JSON value, with dots between nested keys.
        value: what was given, as its type or as text; None where it does not matter.
        release: the newest without one. With a value, an argument at the release's own default has no effect.
    """
    full = f"{name}.{key}" if key else name
    if (used := _used(name, key, value)) is not None:
        return FlagEffect(Effect.USED, "", used_as=used)
    _, effects = _tables()
    lookups = (*_of_value(full, value), *_lookups(full))
    at = release or RELEASES[-1]
    dated = (effect for each in lookups for effect in effects.get(each, ()) if effect.holds_for(at))
    found = next(dated, None)
    if found is not None and value is not None and release is not None and not key:
        return FlagEffect(Effect.NO_EFFECT, AT_DEFAULT) if _is_default(name, value, release) else found
    return found


def _used(name: str, key: str | None, value: object) -> str | None:
    """Return the field of ``ServeFlags``, with a key, that a name stands for; or a name with its value."""
    full = f"{name}.{key}" if key else name
    others, _ = _tables()
    for each in _of_value(full, value):
        if each in others:
            return others[each]
    if full in others:
        return others[full]
    if name == "speculative_config" and key:
        return full if key in KEYS else None
    return name if name in USED and not key else None


def _of_value(full: str, value: object) -> tuple[str, ...]:
    """Return a name with its value, as the table writes an effect that one value alone has."""
    return (f"{full}={str(value).lower()}",) if isinstance(value, str | int | bool) else ()


def _lookups(full: str) -> tuple[str, ...]:
    """Return a name with its keys, then with fewer of them."""
    parts = full.split(".")
    return tuple(".".join(parts[:count]) for count in range(len(parts), 0, -1))


def _is_default(name: str, value: Any, release: Version) -> bool:  # noqa: ANN401 - whatever was given
    table = arguments_of(release)
    if name not in table or (default := table[name].default) is None:
        return False
    expected = json.loads(default)
    if value == expected and type(value) is type(expected):
        return True
    return table[name].kind is ArgumentKind.STR and str(value) == str(expected)
