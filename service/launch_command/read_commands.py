"""Reads the starts that a text gives, each as the release reads it that the caller or the text names."""

from collections.abc import Sequence
from dataclasses import replace

from packaging.version import Version

from service.engines.arguments.arguments import UnknownArgument, arguments_of
from service.engines.releases import RELEASES
from service.launch_command.command_reading import CommandReading
from service.launch_command.engine_nodes import joined_nodes
from service.launch_command.flags.sorting import sort_flags
from service.launch_command.invocations import read_invocations
from service.launch_command.launch import Invocation
from service.launch_command.launched_ranks import idle_gpus
from service.launch_command.launches import ReadLaunch, read_start


def read_command(command: str, version: str | None = None) -> CommandReading:
    """Return the first start that a text gives.

    Where neither the caller nor the text says the release, the newest that has every flag is taken.

    Raises:
        UnreadableCommand: there is no start in it, or it cannot be read.
    """
    first, *others = read_commands(command, version)
    if not others:
        return first
    lines = ", ".join(f"line {each.launch.line}" for each in others)
    note = (
        f"The text starts the engine {len(others) + 1} times; also at {lines}. The first is planned; POST "
        "/colocate (dryserve colocate) plans all of them on one GPU, in their order."
    )
    found = tuple((each.launch.line, each.launch.model) for each in others)
    return replace(first, notes=(*first.notes, note), others=found)


def read_commands(text: str, version: str | None = None) -> tuple[CommandReading, ...]:
    """Return every start that a text gives, in its order; each as ``read_command`` reads a single one.

    The commands of one engine's nodes are one start.

    Raises:
        UnreadableCommand: there is no start in it, or it cannot be read.
    """
    readings = tuple(_reading(start, version) for start in read_invocations(text))
    return joined_nodes(readings) if len(readings) > 1 else readings


def _reading(start: Invocation, version: str | None) -> CommandReading:
    """Return one start as the release reads it that the caller or the text names, or the newest that can."""
    read = read_start(start, version)
    notes = list(read.launch.notes)
    if version is None and read.launch.release.version is None and read.unknown:
        earlier = _release_with_all(read)
        if earlier is not None:
            names = ", ".join(error.spelling for error in read.unknown)
            read = read_start(start, str(earlier))
            notes.append(f"vLLM {earlier} is the newest release that has all of its flags ({names}).")
    flags = sort_flags(read.launch, read.read_as)
    notes += idle_gpus(read.launch)
    return CommandReading(
        read.launch, read.read_as, flags, read.unknown, read.faults, tuple(notes), read.foreign
    )


def _release_with_all(read: ReadLaunch) -> Version | None:
    """Return the newest release that has every flag of a start; ``None`` if no release has them all."""
    spellings = (*(error.spelling for error in read.unknown), *(flag.spelling for flag in read.launch.flags))
    return next((release for release in reversed(RELEASES) if _has_all(release, spellings)), None)


def _has_all(release: Version, spellings: Sequence[str]) -> bool:
    table = arguments_of(release)
    try:
        for spelling in spellings:
            table.find(spelling)
    except UnknownArgument:
        return False
    return True
