"""`dryserve database`: the tables of the database of probes and measurements."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import typer

from service.cli.exit_codes import ExitCode
from service.cli.settings_of_host import host_settings
from service.probe_services import build_database
from service.store.database import Database
from service.store.database_url import shown_address
from service.store.errors import InvalidDatabase, StoreUnavailable
from service.store.schema import Fitness, Schema

cli: Final = typer.Typer(name="database", help="Tables of probes and measurements.", no_args_is_help=True)
Answer = TypeVar("Answer")


@cli.command()
def check() -> None:
    """Say whether the tables suit this version; change nothing.

    Exits with 0 if they do, with 3 if they do not, and with 2 if the database cannot be used.
    """
    schema = with_database(lambda database: _named(database, database.inspected()))
    if schema.fitness in {Fitness.OLDER, Fitness.TOO_NEW}:
        raise typer.Exit(ExitCode.FAILED)


@cli.command()
def upgrade() -> None:
    """Upgrade the tables to the revision that this version needs; newer ones stay as they are.

    Exits with 0 if they suit this version then, with 3 if they are too new for it, and with 2 if the
    database cannot be used.
    """
    schema = with_database(lambda database: _named(database, database.upgraded()))
    if schema.fitness is Fitness.TOO_NEW:
        raise typer.Exit(ExitCode.FAILED)


async def _named(database: Database, found: Awaitable[Schema]) -> Schema:
    """Return the tables of a database; print which one it is and what they are."""
    schema = await found
    typer.echo(f"{shown_address(database.url)}: {schema.summary}")
    return schema


def with_database(use: Callable[[Database], Awaitable[Answer]]) -> Answer:
    """Return the result of a use of the database that the settings name; close it in the end.

    Raises:
        typer.Exit: the database cannot be used; standard error says why in one line.
    """

    async def used() -> Answer:
        database = build_database(host_settings())
        try:
            return await use(database)
        finally:
            await database.close()

    try:
        return asyncio.run(used())
    except InvalidDatabase as error:
        typer.echo(f"DRYSERVE_DATABASE_URL is not valid: {error}", err=True)
    except StoreUnavailable as error:
        typer.echo(f"The database cannot be used: {error.reason or error}", err=True)
    raise typer.Exit(ExitCode.BAD_INPUT)
