"""Puts the commands of `dryserve` together."""

import inspect
from typing import Annotated, Final

import typer

from service import __version__
from service.application.schemas.explanation import ExplainParameters
from service.application.schemas.plan_body import Format, PlanParameters
from service.cli import measurements, models, tokens
from service.cli.explain import LOG, ExplanationFormat, explain
from service.cli.manifest import manifest
from service.cli.openapi import openapi
from service.cli.options import option, with_options
from service.cli.plan import plan
from service.cli.probe import probe
from service.cli.serve import serve
from service.cli.worker import worker
from service.logs import configure_logs

cli: Final = typer.Typer(
    name="dryserve",
    help="Dry-run `vllm serve`: what the engine would do on each GPU type, without a GPU.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@cli.callback(invoke_without_command=True)
def version(*, show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Dry-run `vllm serve`: what the engine would do on each GPU type, without a GPU."""
    if show:
        typer.echo(__version__)
        raise typer.Exit
    # Logs go to standard error; `serve` and `worker` set their own level.
    configure_logs("error")


cli.command()(openapi)
cli.command()(serve)
cli.command()(with_options(plan, PlanParameters, Format))
cli.command()(with_options(probe, PlanParameters, Format))
cli.command()(
    with_options(
        explain,
        ExplainParameters,
        ExplanationFormat,
        option("file", typer.FileBinaryRead, LOG, inspect.Parameter.empty),
    )
)
cli.add_typer(models.cli)
cli.command()(worker)
cli.command()(manifest)
cli.add_typer(tokens.cli)
cli.add_typer(measurements.cli)


def main() -> None:
    """Run the command line."""
    cli()
