"""`dryserve token`: create, list and revoke the tokens of operators, readers and workers."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, Final, TypeVar

import typer

from service.cli.database import with_database
from service.cli.exit_codes import ExitCode
from service.store.token import Scope
from service.store.tokens import TokenStore

cli: Final = typer.Typer(name="token", help="Tokens of operators, readers and workers.", no_args_is_help=True)
Answer = TypeVar("Answer")


@cli.command()
def create(
    name: Annotated[str, typer.Argument(help="Name of its owner; a worker's jobs show it.")],
    scope: Annotated[Scope, typer.Option(help="What it allows.")],
    days: Annotated[
        float | None,
        typer.Option(min=0, help="Days until it expires; left out: never."),
    ] = None,
) -> None:
    """Create a token and print it; it cannot be shown again."""
    typer.echo(_with_tokens(lambda tokens: tokens.create(name, scope, days=days)))


@cli.command("list")
def list_tokens() -> None:
    """List the tokens that are not revoked, with their last use and the end of their validity (UTC)."""
    for each in _with_tokens(lambda tokens: tokens.all()):
        token = each.token
        used, expires = _day(each.last_used_at, "never used"), _day(each.expires_at, "does not expire")
        typer.echo(f"{token.id}  {token.scope:8}  {used:16}  {expires:16}  {token.name}")


@cli.command()
def revoke(token_id: Annotated[str, typer.Argument(help="As `dryserve token list` shows it.")]) -> None:
    """Revoke a token: it is no longer accepted."""
    if not _with_tokens(lambda tokens: tokens.revoke(token_id)):
        typer.echo(f"no valid token {token_id}", err=True)
        raise typer.Exit(ExitCode.BAD_INPUT)


def _day(seconds: float | None, otherwise: str) -> str:
    return otherwise if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def _with_tokens(use: Callable[[TokenStore], Awaitable[Answer]]) -> Answer:
    return with_database(lambda database: use(TokenStore(database)))
