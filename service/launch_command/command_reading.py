"""What a plan takes from a start that somebody wrote down, and what that leaves in doubt."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from packaging.version import Version

from service.engines.arguments.arguments import UnknownArgument, arguments_of
from service.engines.arguments.effects import MemoryChange
from service.engines.releases import RELEASES, resolve_release
from service.gpus.capability import ComputeCapability
from service.launch_command.carried_arguments import CarriedArguments, carried_arguments
from service.launch_command.launch import Invocation, LaunchCommand
from service.launch_command.sorting import SortedFlag, SortedFlags, sort_flags

if TYPE_CHECKING:
    from service.launch_command.launches import ReadLaunch

MAX_DOUBTS: Final = 16
"""Flags that are named one by one as a reason for doubt."""
_RANKS: Final = ("tensor_parallel_size", "pipeline_parallel_size", "prefill_context_parallel_size")
_COPIES: Final = ("data_parallel_size", "data_parallel_size_local", "nnodes")
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
        yield from _too_few_gpus(self.launch)

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
    from service.launch_command.engine_nodes import joined_nodes  # noqa: PLC0415 - of texts with many starts
    from service.launch_command.reading import read_invocations  # noqa: PLC0415 - many readers of many forms

    readings = tuple(_reading(start, version) for start in read_invocations(text))
    return joined_nodes(readings) if len(readings) > 1 else readings


def _reading(start: Invocation, version: str | None) -> CommandReading:
    """Return one start as the release reads it that the caller or the text names, or the newest that can."""
    from service.launch_command.launches import read_start  # noqa: PLC0415 - as above

    read = read_start(start, version)
    notes = list(read.launch.notes)
    if version is None and read.launch.release.version is None and read.unknown:
        earlier = _release_with_all(read)
        if earlier is not None:
            names = ", ".join(error.spelling for error in read.unknown)
            read = read_start(start, str(earlier))
            notes.append(f"vLLM {earlier} is the newest release that has all of its flags ({names}).")
    flags = sort_flags(read.launch, read.read_as)
    notes += _idle_gpus(read.launch)
    return CommandReading(
        read.launch, read.read_as, flags, read.unknown, read.faults, tuple(notes), read.foreign
    )


def reading_of(start: Invocation, version: str | None) -> CommandReading:
    """Return one start, given by its words and settings, as the parser of a release reads it.

    Raises:
        UnknownRelease: the version names no release that is modelled.
    """
    from service.launch_command.launches import launch_of, start_release  # noqa: PLC0415 - as above

    release = resolve_release(version).release
    read = launch_of(start, start_release(start), arguments_of(release))
    flags = sort_flags(read.launch, release)
    notes = read.launch.notes
    return CommandReading(read.launch, release, flags, read.unknown, read.faults, notes, read.foreign)


def _release_with_all(read: "ReadLaunch") -> Version | None:
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


def _too_few_gpus(launch: LaunchCommand) -> Iterator[str]:
    """Say that the text gives the start fewer GPUs than it has ranks.

    Source: vLLM 0.28.0, v1/executor/multiproc_executor.py: each rank takes a GPU of its own.
    """
    gpus, ranks = _gpus_and_ranks(launch)
    if gpus is not None and ranks > gpus:
        yield f"The command starts {ranks} ranks, and the text gives it {gpus} GPUs."


def _idle_gpus(launch: LaunchCommand) -> Iterator[str]:
    """Say that the text gives the start more GPUs than it has ranks, and which."""
    gpus, ranks = _gpus_and_ranks(launch)
    if gpus is not None and ranks < gpus:
        devices = launch.placement.devices
        named = f" ({', '.join(devices)})" if devices else ""
        yield (
            f"The text gives the start {gpus} GPUs{named}, and it uses {ranks}: --tensor-parallel-size "
            f"{gpus} would use all."
        )


def _gpus_and_ranks(launch: LaunchCommand) -> tuple[int | None, int]:
    """Return the GPUs that the text gives a start, if it says so and ranks take no others, and its ranks."""
    gpus, backend = launch.placement.gpus_per_node, launch.flag("distributed_executor_backend")
    ranks = 1
    for name in _RANKS:
        ranks *= _number(launch, name)
    local = launch.flag("data_parallel_size_local")
    ranks *= _number(launch, "data_parallel_size_local" if local else "data_parallel_size")
    unknown = any(flag.missing for flag in launch.flags if flag.name in {*_RANKS, *_COPIES})
    if gpus is None or unknown or (backend is not None and backend.value == "ray"):
        return None, ranks
    # --data-parallel-size-local counts the ranks of one node.
    return gpus * (1 if local else nodes_of_launch(launch)), ranks


def nodes_of_launch(launch: LaunchCommand) -> int:
    """Return on how many nodes a text starts one engine, as far as it says so."""
    return launch.placement.nodes or _number(launch, "nnodes")


def _number(launch: LaunchCommand, name: str) -> int:
    flag = launch.flag(name)
    value: Any = None if flag is None else flag.value
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 1
