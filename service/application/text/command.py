"""Writes what became of a command's flags as text."""

from collections.abc import Iterable, Iterator
from typing import Final

from service.application.text.layout import folded
from service.launch_command.command_reading import CommandReading

MOST_NAMES: Final = 12
"""Names of a list that are written; the others are counted."""


def command_lines(command: CommandReading, width: int) -> Iterator[str]:
    """Yield what was read of a command, and its flags in three lists."""
    launch, flags = command.launch, command.flags
    yield from _wrapped(
        f"Command: {launch.form.replace('_', ' ')}, line {launch.line}; {launch.release.basis}", width
    )
    for title, names in (
        ("Flags used", flags.used),
        ("Without effect on this plan", (flag.name for flag in flags.no_effect)),
        ("Not modelled", (flag.name for flag in flags.not_modelled)),
    ):
        yield from _wrapped(f"{title}: {_listed(names)}", width)
    for flag in flags.no_effect:
        if flag.name.isupper() and flag.reason:
            yield from _wrapped(f"Note: {flag.name} has no effect: {flag.reason}", width)
    for note in command.notes:
        yield from _wrapped(f"Note: {note}", width)


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return (", ".join(names[:MOST_NAMES]) + more) or "none"


def _wrapped(text: str, width: int) -> list[str]:
    return [*folded(text, width, deeper="  ")]
