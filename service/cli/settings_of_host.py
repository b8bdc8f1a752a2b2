"""The settings of this host for a command, and the help on them."""

from collections.abc import Mapping
from textwrap import fill
from typing import Any, Final

import typer

from service.cli.exit_codes import ExitCode
from service.settings import InvalidSettings, Settings, read_settings, settings_table, unknown_variables

WIDTH: Final = 100
"""Columns of the table in a help text."""


def host_settings(given: Mapping[str, Any] | None = None) -> Settings:
    """Return the settings of this process's environment; a bad one ends the command with one line for each.

    ``given``: settings by name that a command's options set, in place of those of the environment.

    Raises:
        typer.Exit: a variable has a value that is no such setting.
    """
    try:
        return read_settings(given or {})
    except InvalidSettings as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(ExitCode.BAD_INPUT) from None


def warn_of_unknown_variables() -> None:
    """Write a line to standard error for each variable of ours that is no setting."""
    for sentence in unknown_variables():
        typer.echo(f"Warning: {sentence}", err=True)


def settings_help() -> str:
    """Return all settings as text for the help of a command, which is not wrapped again."""
    entries = []
    for setting in settings_table():
        default = f" [default: {setting.default}]" if setting.default else ""
        words = fill(f"{setting.meaning}{default}", WIDTH, initial_indent="    ", subsequent_indent="    ")
        entries.append(f"  {setting.name}\n{words}")
    listed = "\n".join(entries)
    return f"\b\nSettings are environment variables:\n{listed}"
