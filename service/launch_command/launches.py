"""Reads a text as one start of the engine."""

from dataclasses import dataclass, replace
from typing import Final

from packaging.version import Version

from service.engines.arguments.arguments import ArgumentTable, UnknownArgument, arguments_of
from service.engines.releases import RELEASES, UnknownRelease, resolve_release
from service.launch_command.flags.options import ReadOptions, is_secret, placeholders, read_options
from service.launch_command.flags.refused_values import refused_values, unread_tool_parser
from service.launch_command.invocations import read_invocations
from service.launch_command.launch import (
    Invocation,
    LaunchCommand,
    LaunchRelease,
    Word,
)
from service.launch_command.releases import release_of
from service.redaction import HIDDEN, hide_secrets

MAX_VARIABLES: Final = 256
LONGEST_VALUE: Final = 400
"""Characters of a variable's value that are stored."""
_MODEL: Final = "model"


@dataclass(frozen=True, slots=True)
class ReadLaunch:
    """A start as it was read by the parser of one release."""

    launch: LaunchCommand
    read_as: Version
    """The release whose parser was taken."""
    unknown: tuple[UnknownArgument, ...]
    """Options that this release does not have."""
    faults: tuple[str, ...]
    """What else the release's parser refuses, in words."""
    foreign: tuple[str, ...] = ()
    """Options that no release has, and that a program around the engine takes."""
    others: tuple[tuple[int, str | None], ...] = ()
    """Line and model of further starts in the text, which are not read."""


def read_launch(command: str, version: str | None = None) -> ReadLaunch:
    """Return the first start of a text.

    Args:
        command: the text.
        version: the release that the caller names; it wins over what the text says. Without any, the newest
            release is taken.

    Raises:
        UnreadableCommand: there is no start in it, or it cannot be read.
    """
    first, *rest = read_invocations(command)
    read = read_start(first, version)
    table = arguments_of(read.read_as)
    others = tuple(
        (each.line, _model(each, read_options(each.words, each.settings, table))[0]) for each in rest
    )
    return replace(read, others=others)


def read_start(start: Invocation, version: str | None = None) -> ReadLaunch:
    """Return one start; ``version`` as for ``read_launch``."""
    release = start_release(start)
    return launch_of(start, release, arguments_of(_table_release(version or release.version)))


def start_release(start: Invocation) -> LaunchRelease:
    """Return the release of a start's image; where that names none, the one that the lines around it say."""
    named = release_of(start.image)
    return named if named.version is not None or start.said is None else start.said


def _table_release(version: str | None) -> Version:
    """Return the modelled release whose arguments are read; the newest where the version is not modelled."""
    try:
        return resolve_release(version).release
    except UnknownRelease:
        return RELEASES[-1]


def launch_of(start: Invocation, release: LaunchRelease, table: ArgumentTable) -> ReadLaunch:
    """Return one start with its words read as the flags of a release."""
    options = read_options(start.words, start.settings, table)
    model, missing, rest = _model(start, options)
    flags = tuple(flag for flag in options.flags.values() if flag.name != _MODEL)
    faults = [*options.faults, *refused_values(options.flags, table)]
    if rest:
        faults.append(f"{len(rest)} words belong to no option, so the engine's parser refuses them")
    launch = LaunchCommand(
        form=start.form,
        line=start.line,
        model=model,
        release=release,
        flags=flags,
        environment=_environment(start),
        placement=start.placement,
        unresolved=tuple(dict.fromkeys((*missing, *options.loose))),
        notes=(*start.notes, *unread_tool_parser(options.flags, table.release)),
    )
    return ReadLaunch(launch, table.release, tuple(options.unknown), tuple(faults), tuple(options.foreign))


def _model(start: Invocation, options: ReadOptions) -> tuple[str | None, tuple[str, ...], list[Word]]:
    """Return the model, the variables that hide it, and the words that are left over.

    Source: vLLM 0.28.0, entrypoints/cli/serve.py ServeSubcommand.cmd: the word without an option wins.
    """
    if options.positional:
        first, *rest = options.positional
        missing = first.missing or placeholders(first.text)
        return (None if missing else hide_secrets(first.text)), missing, rest
    flag = options.flags.get(_MODEL)
    if flag is None or (start.model is not None and str(flag.value).startswith("/")):
        # A platform that names the model puts its files into a folder of the container.
        return start.model, (), []
    return (None if flag.missing else str(flag.value)), flag.missing, []


def _environment(start: Invocation) -> dict[str, str]:
    names = list(start.environment)[:MAX_VARIABLES]
    return {name: _variable(name, start.environment[name]) for name in names}


def _variable(name: str, word: Word) -> str:
    if is_secret(name):
        return HIDDEN
    return hide_secrets(word.text)[:LONGEST_VALUE]
