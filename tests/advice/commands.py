"""A published command as the service's own reader sorts it: what is planned, what cannot matter, what may."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from service.advisor.candidates.plan_types import GpuPlan
from service.advisor.dry_runs.command_doubts import room_beside_one_request
from service.engines.arguments.arguments import arguments_of
from service.engines.releases import resolve_release
from service.launch_command.command_reading import CommandReading
from service.launch_command.flags.sorting import sort_flags
from service.launch_command.launch import Invocation, LaunchForm, Word
from service.launch_command.launches import launch_of, start_release

_FAKE: Final = frozenset({"\\"})
"""Words that are left of a continued line."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command as a plan can be asked for it."""

    serve: Mapping[str, Any]
    """Flags under their own names, as the body of a plan takes them."""
    ignored: tuple[str, ...] = ()
    """Flags that cannot change memory."""
    not_modelled: tuple[str, ...] = ()
    """Flags that may change memory, in a way that is not modelled."""
    unknown: tuple[str, ...] = ()
    """Flags that the release does not have, and values that it refuses."""
    saving: tuple[str, ...] = ()
    """Those of the flags not modelled that can make it take less memory."""
    reading: CommandReading | None = None
    """The command as the service reads it."""
    faults: tuple[str, ...] = ()
    """Values that this release refuses, in the engine's words."""

    def doubts(self, plan: GpuPlan) -> tuple[str, ...]:
        """Return why the service calls a start of the command uncertain, which was planned without them."""
        room = room_beside_one_request(plan.candidates[0])
        return () if self.reading is None else self.reading.doubts(plan.gpu.compute_capability, room)

    @classmethod
    def of(cls, reading: CommandReading) -> "Command":
        """Return the parts that are counted."""
        flags = reading.flags
        return cls(
            flags.serve,
            tuple(flag.name for flag in flags.no_effect),
            tuple(flag.name for flag in flags.not_modelled),
            tuple(error.spelling for error in reading.unknown),
            tuple(flag.name for flag in flags.not_modelled if flag.may_allow_start),
            reading,
            tuple(reading.faults),
        )


def read_command(
    words: Iterable[str] | Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
    version: str | None = None,
) -> Command:
    """Return a command by the words behind the model's name, or by flags that a log names."""
    variables = {name: Word(value) for name, value in (environment or {}).items()}
    if isinstance(words, Mapping):
        start = Invocation(
            LaunchForm.SHELL, 1, settings=tuple(words.items()), model="", environment=variables
        )
    else:
        named = (
            Word("model"),
            *(Word(each) for word in words if word not in _FAKE for each in _halves(word)),
        )
        start = Invocation(LaunchForm.SHELL, 1, named, environment=variables)
    return Command.of(_reading_of(start, version))


def _reading_of(start: Invocation, version: str | None) -> CommandReading:
    """Return one start, given by its words and settings, as the parser of a release reads it.

    Raises:
        UnknownRelease: the version names no release that is modelled.
    """
    release = resolve_release(version).release
    read = launch_of(start, start_release(start), arguments_of(release))
    flags = sort_flags(read.launch, release)
    return CommandReading(
        read.launch, release, flags, read.unknown, read.faults, read.launch.notes, read.foreign
    )


def _halves(word: str) -> tuple[str, ...]:
    """Return the two words of which a list made one: ``--max-model-len auto``."""
    head, _, rest = word.partition(" ")
    return (head, rest.strip()) if head.startswith("--") and "=" not in head and rest else (word,)
