"""What a plan takes from a start that somebody wrote down, and what that leaves in doubt."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from packaging.version import Version

from service.engines.arguments.arguments import UnknownArgument
from service.engines.arguments.effects import MemoryChange
from service.gpus.capability import ComputeCapability
from service.launch_command.flags.carried_arguments import CarriedArguments, carried_arguments
from service.launch_command.flags.sorting import SortedFlag, SortedFlags
from service.launch_command.launch import LaunchCommand
from service.launch_command.launched_ranks import too_few_gpus

MAX_DOUBTS: Final = 16
"""Flags that are named one by one as a reason for doubt."""
_MEMORY_WORDS: Final = {
    MemoryChange.MORE: "With it a rank can take more memory than planned.",
    MemoryChange.LESS: "With it a rank can take less memory than planned.",
    MemoryChange.EITHER: "With it a rank can take more or less memory than planned.",
}


@dataclass(frozen=True, slots=True)
class CommandReading:
    """One start, as a plan takes it."""

    launch: LaunchCommand
    release: Version
    """The release whose parser read it."""
    flags: SortedFlags
    unknown: tuple[UnknownArgument, ...] = ()
    """Options that the release does not have; no plan is made with any."""
    faults: tuple[str, ...] = ()
    """What else the release's parser refuses; no plan is made with any."""
    notes: tuple[str, ...] = ()
    """What a reader should know about how the text was read."""
    foreign: tuple[str, ...] = ()
    """Options that no release has, and that a program around the engine takes."""
    commands: int = 1
    """Commands of the text that start this engine: one for each node."""
    others: tuple[tuple[int, str | None], ...] = ()
    """Line and model of further starts in the text, which are not planned."""

    @property
    def nodes(self) -> int:
        """Nodes on which the text starts the engine, as far as it says."""
        return max(self.commands, self.launch.placement.nodes or 1)

    @property
    def carried(self) -> CarriedArguments:
        """What the commands of the plan repeat, though the plan does not use it."""
        return carried_arguments(self.launch, self.flags)

    def doubts(self, capability: ComputeCapability | None = None, room: int | None = 0) -> tuple[str, ...]:
        """Return why the planned start may fail, or be another one.

        Args:
            capability: of the GPU; None where that is not known.
            room: bytes that a rank has beyond what one request of the maximum length needs; None where that
                is not known, because its memory is not.
        """
        return tuple(self._doubts(capability, room))

    @property
    def takes_at_most(self) -> int:
        """Bytes that flags of the command take of a rank beyond the plan, where a limit is known."""
        return sum(flag.takes_at_most for flag in self.flags.not_modelled)

    def _doubts(self, capability: ComputeCapability | None, room: int | None) -> Iterator[str]:
        full = room is not None and self.takes_at_most > room
        blocking = [
            flag
            for flag in self.flags.not_modelled
            if flag.may_prevent_start(capability) or (full and flag.takes_at_most)
        ]
        yield from map(doubt_about, blocking[:MAX_DOUBTS])
        if len(blocking) > MAX_DOUBTS:
            yield f"{len(blocking) - MAX_DOUBTS} more flags of the command are not modelled."
        for name in self.launch.unresolved:
            yield f"The text does not give the value of {name}, which can hold further flags."
        for spelling in self.foreign:
            yield f"vLLM itself has no {spelling}: without a program around it that does, the start fails."
        yield from too_few_gpus(self.launch)

    def changes(self, capability: ComputeCapability | None = None, room: int | None = 0) -> tuple[str, ...]:
        """Return what can make the start take more or less memory than planned, and cannot make it fail."""
        full = room is not None and self.takes_at_most > room
        flags = (flag for flag in self.flags.not_modelled if flag.memory is not None)
        harmless = (flag for flag in flags if not flag.may_prevent_start(capability))
        return tuple(doubt_about(flag) for flag in harmless if not (full and flag.takes_at_most))

    def rescues(self, *, weights_fit: bool) -> tuple[str, ...]:
        """Return what of the command can make a start succeed that is refused without it.

        ``weights_fit``: whether the weights alone have room. Where they do not, another layout of them is not
        enough: only what is known to take memory away can help.
        """
        flags = (flag for flag in self.flags.not_modelled if flag.may_allow_start)
        return tuple(doubt_about(each) for each in flags if weights_fit or each.memory is MemoryChange.LESS)


def doubt_about(flag: SortedFlag) -> str:
    """Say what a flag that is not modelled can change."""
    written = flag.name if flag.name.isupper() else f"--{flag.name.replace('_', '-')}"
    if "." in flag.name:
        head, _, key = flag.name.partition(".")
        written = f"--{head.replace('_', '-')}.{key}"
    more = f" {_MEMORY_WORDS[flag.memory]}" if flag.memory is not None else ""
    if flag.at_most_mib is not None:
        more += f" The difference is at most {flag.at_most_mib:,} MiB."
    return f"{written} is not modelled: {flag.reason}.{more}"
