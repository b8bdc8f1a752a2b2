"""Puts the commands of `dryserve` together."""

import gc
import os
from typing import Annotated, Final

import typer

from service import __version__
from service.cli.lazy_group import LazyGroup
from service.generated_methods import stored_methods

cli: Final = typer.Typer(
    name="dryserve",
    cls=LazyGroup,
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
    # Imported here, so that the help and the version need neither.
    from service.cli.settings_of_host import warn_of_unknown_variables  # noqa: PLC0415
    from service.logs import configure_library_logs  # noqa: PLC0415

    # Logs go to standard error; `serve` and `worker` set their own level.
    configure_library_logs("error")
    warn_of_unknown_variables()
    _collect_garbage_again()


def main() -> None:
    """Run the command line.

    No garbage is collected during the imports: they leave none, and each search of what they made takes time.
    Nor is it when the process ends.
    """
    gc.disable()
    # Pydantic would read the metadata of all installed packages to find plugins of its own.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        with stored_methods():
            cli()
    finally:
        gc.freeze()


def _collect_garbage_again() -> None:
    """Collect garbage from now on, but not among what was imported, which stays until the end."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
