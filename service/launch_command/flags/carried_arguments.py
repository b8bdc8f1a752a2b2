"""What a command holds beside the flags of its plan, to be written into the commands that the plan prints."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from service.launch_command.flags.options import is_secret
from service.launch_command.flags.sorting import SortedFlags
from service.launch_command.launch import LaunchCommand, Value
from service.redaction import HIDDEN


@dataclass(frozen=True, slots=True)
class CarriedArguments:
    """Arguments and variables that a plan does not use, and that its commands repeat."""

    words: tuple[str, ...] = ()
    """Words behind the flags of the plan."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables of the process, with their values."""
    left_out: tuple[str, ...] = ()
    """Names whose values are secret: they are not repeated."""
    not_given: tuple[tuple[str, str], ...] = ()
    """Names whose values hold variables that the text does not give, and these variables."""


NOTHING_CARRIED = CarriedArguments()


def carried_arguments(launch: LaunchCommand, flags: SortedFlags) -> CarriedArguments:
    """Return what a plan of this command does not use, in the order in which it was written."""
    unused = [flag.name for flag in (*flags.no_effect, *flags.not_modelled)]
    words: list[str] = []
    left_out: list[str] = []
    not_given: dict[str, str] = {}
    for flag in launch.flags:
        for name in (each for each in unused if each.partition(".")[0] == flag.name):
            value = _member(flag.value, name.partition(".")[2])
            option = f"--{flag.name.replace('_', '-')}"
            if flag.missing and not is_secret(flag.name):
                not_given[option] = ", ".join(map(_as_variable, flag.missing))
            elif flag.missing or _is_hidden(value):
                left_out.append(option)
            else:
                words += _words(name, value)
    named = {name: value for name, value in launch.environment.items() if name in unused}
    shown = tuple((name, value) for name, value in named.items() if not _is_hidden(value))
    left_out += [name for name, value in named.items() if _is_hidden(value)]
    return CarriedArguments(tuple(words), shown, tuple(dict.fromkeys(left_out)), tuple(not_given.items()))


def _as_variable(name: str) -> str:
    return f"${name}" if name.isidentifier() else name


def _member(value: Value, path: str) -> Value:
    """Return the member of an object that a path of keys with dots names; the whole value for no path."""
    while path and isinstance(value, dict):
        key, path = next(_keys(value, path), (path, ""))
        value = value.get(key)
    return value


def _keys(value: dict[str, Value], path: str) -> Iterator[tuple[str, str]]:
    """Yield the keys of an object with which a path begins, each with the rest of the path."""
    for key in value:
        if path == key or path.startswith(f"{key}."):
            yield key, path[len(key) + 1 :]


def _is_hidden(value: Value) -> bool:
    return HIDDEN in json.dumps(value, default=str)


def _words(name: str, value: Value) -> list[str]:
    head, dot, path = name.partition(".")
    option = f"--{head.replace('_', '-')}{dot}{path}"
    if value is None:
        return []
    if isinstance(value, bool) and not path:
        return [option if value else f"--no-{option.removeprefix('--')}"]
    if isinstance(value, list) and not path:
        return [option, *map(str, value)]
    return [option, value if isinstance(value, str) else json.dumps(value)]
