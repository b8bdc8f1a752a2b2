"""A group of commands that imports the module of a command only when the command is run or helped.

The modules of all commands together take more than a second to import. The list of commands needs only their
names and the first sentence of each help, so both are written here; a test compares them with the commands.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """Where a command is, and what the list of commands says of it."""

    module: str
    """Module that defines it."""
    app: str
    """Name of the Typer application in this module that holds the command, or is the group of commands."""
    words: str
    """First paragraph of its help."""


class LazyCommands(Mapping[str, Any]):
    """Commands by name. Reading one imports its module; names alone import nothing."""

    def __init__(self, entries: Mapping[str, CommandEntry]) -> None:
        self._entries = entries
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - Typer has no public type for a command
        if name not in self._loaded:
            self._loaded[name] = _loaded(name, self._entries[name])
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


class LazyGroup(TyperGroup):
    """The commands of `COMMANDS`."""

    def __init__(self, **attributes: Any) -> None:  # noqa: ANN401 - what Typer passes to a group
        super().__init__(**attributes)
        self.commands: Mapping[str, Any] = LazyCommands(COMMANDS)  # type: ignore[assignment]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401 - types of Typer's own
        """Return a command; None if there is none of this name."""
        del ctx
        return self.commands[cmd_name] if cmd_name in self.commands else None  # noqa: SIM401 - reads no other

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - as above
        """Return the names of the commands in the order of the help."""
        del ctx
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - types of Typer's own
        """Write the list of commands, without importing them."""
        listed = TyperGroup(
            commands={name: TyperCommand(name, help=entry.words) for name, entry in COMMANDS.items()}
        )
        listed.format_commands(ctx, formatter)


def _loaded(name: str, entry: CommandEntry) -> Any:  # noqa: ANN401 - as above
    # Imported here: the list of commands needs no class.
    from service.generated_methods import stored_methods  # noqa: PLC0415

    with stored_methods():
        app: typer.Typer = getattr(import_module(entry.module), entry.app)
    holder = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    holder.add_typer(app)
    command = get_group(holder).commands[name]
    for each in (command, *getattr(command, "commands", {}).values()):
        for parameter in getattr(each, "params", ()):
            _read_only_what_is_given(parameter)
    return command


def _read_only_what_is_given(parameter: Any) -> None:  # noqa: ANN401 - as above
    """Let an option that is left out be read without the validator of its values.

    Typer makes a validator of Pydantic for each of a plan's hundred options, also for those that are absent.
    """
    read = parameter.process_value

    def process_value(ctx: Any, value: Any) -> Any:  # noqa: ANN401 - as above
        if value is not None or parameter.required or parameter.callback is not None:
            with own_words():
                return read(ctx, value)
        return () if parameter.multiple or parameter.nargs == -1 else None

    parameter.process_value = process_value


@contextmanager
def own_words() -> Iterator[None]:
    """Say what is wrong with an option's value as for a field of a request, in place of Pydantic's words."""
    try:
        yield
    except typer.BadParameter as error:
        # Imported here: the words know every schema.
        from service.application.problems.field_words import field_words  # noqa: PLC0415

        find = getattr(error.__cause__, "errors", None)
        if find is not None:
            error.message = field_words(find()[0])
        raise


COMMANDS: Final[Mapping[str, CommandEntry]] = {
    "openapi": CommandEntry("service.cli.openapi", "openapi_app", "Print the OpenAPI document as YAML."),
    "serve": CommandEntry("service.cli.serve", "serve_app", "Run the HTTP service."),
    "plan": CommandEntry(
        "service.cli.plan",
        "plan_app",
        "Find the best way to serve MODEL on each GPU type. Cache dtypes and GPU counts left out are "
        "searched.",
    ),
    "check": CommandEntry(
        "service.cli.check",
        "check_app",
        "Dry-run exactly the command given: `vllm serve MODEL` with these flags and the engine's defaults.",
    ),
    "colocate": CommandEntry(
        "service.cli.colocate",
        "colocate_app",
        "Plan the engines in FILE on the same GPUs, each with the memory that those before it left free.",
    ),
    "probe": CommandEntry(
        "service.cli.probe",
        "probe_app",
        "Measure on a GPU what a plan for MODEL computes; a worker on a node with that GPU runs it.",
    ),
    "explain": CommandEntry(
        "service.cli.explain",
        "explain_app",
        "Explain the startup log in FILE: what happened, why, what to do, and what differs from the plan.",
    ),
    "worker": CommandEntry(
        "service.cli.worker",
        "worker_app",
        "Take jobs from a service, run them on this node's GPUs, send the results. Opens no port.",
    ),
    "manifest": CommandEntry(
        "service.cli.manifest",
        "manifest_app",
        "Print a manifest or command that starts a worker elsewhere; nothing is sent anywhere.",
    ),
    "probes": CommandEntry("service.cli.probes", "cli", "Look at probes, or cancel them."),
    "gpus": CommandEntry("service.cli.catalogs", "gpus", "GPU types that can be planned."),
    "engines": CommandEntry("service.cli.catalogs", "engines", "Releases that can be planned."),
    "models": CommandEntry(
        "service.cli.models", "cli", "List models, or store them for use without the Hub."
    ),
    "token": CommandEntry("service.cli.tokens", "cli", "Tokens of operators, readers and workers."),
    "measurements": CommandEntry("service.cli.measurements", "cli", "Measurements as JSON lines."),
    "database": CommandEntry("service.cli.database", "cli", "Tables of probes and measurements."),
}
"""The commands in the order of the help."""
