"""`dryserve measurements`: copy measurements from one database to another."""

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from service.application.errors import InvalidRequest
from service.application.probes.measurements_ndjson import read_lines, written_lines
from service.cli.database import with_database
from service.cli.exit_codes import ExitCode
from service.store.measurements import MeasurementStore

cli: Final = typer.Typer(name="measurements", help="Measurements as JSON lines.", no_args_is_help=True)


@cli.command("export")
def export_lines() -> None:
    """Print every measurement, one a line."""
    found = with_database(lambda database: MeasurementStore(database).by_digest())
    sys.stdout.write(written_lines(found.values()))


@cli.command("import")
def import_lines(
    file: Annotated[
        Path, typer.Argument(help="A file that `dryserve measurements export` wrote.", exists=True)
    ],
) -> None:
    """Store the measurements of a file, except those that are stored already."""
    try:
        measurements = read_lines(file.read_bytes())
    except InvalidRequest as error:
        typer.echo(f"{file}: {error}", err=True)
        raise typer.Exit(ExitCode.BAD_INPUT) from None
    new = with_database(lambda database: MeasurementStore(database).add(measurements))
    typer.echo(f"{new} of {len(measurements)} measurements were new")
