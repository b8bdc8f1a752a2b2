"""`dryserve measurements`: copy measurements from one database to another."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from service.application.errors import InvalidRequest
from service.application.measurements_ndjson import read_lines, written_lines
from service.bootstrap import build_database
from service.calibration.measurement import Measurement
from service.cli.exit_codes import ExitCode
from service.settings import Settings
from service.store.measurements import MeasurementStore

cli: Final = typer.Typer(name="measurements", help="Measurements as JSON lines.", no_args_is_help=True)


@cli.command("export")
def export_lines() -> None:
    """Print every measurement, one a line."""
    sys.stdout.write(asyncio.run(_exported()))


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
    new = asyncio.run(_stored(measurements))
    typer.echo(f"{new} of {len(measurements)} measurements were new")


async def _exported() -> str:
    database = build_database(Settings())
    found = await MeasurementStore(database).by_digest()
    await database.close()
    return written_lines(found.values())


async def _stored(measurements: tuple[Measurement, ...]) -> int:
    database = build_database(Settings())
    new = await MeasurementStore(database).add(measurements)
    await database.close()
    return new
