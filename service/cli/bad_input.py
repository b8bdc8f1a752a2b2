"""Ends a command with a message and exit code 2 where its input is at fault."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from pydantic import ValidationError

from service.application.plan_requests import invalid_request
from service.application.problems.problem_of import HANDLED_ERRORS, problem_of
from service.architecture.config import parse_config
from service.cli.exit_codes import ExitCode


@contextmanager
def exits_on_bad_input() -> Iterator[None]:
    """Print what is wrong with the input, and exit.

    Raises:
        typer.Exit: the input is at fault, a file cannot be read, or the Hub or the database cannot be used.
    """
    try:
        yield
    except ValidationError as error:
        raise _exit(invalid_request(error.errors(include_url=False))) from None
    except OSError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(ExitCode.BAD_INPUT) from None
    except HANDLED_ERRORS as error:
        raise _exit(error) from None


def _exit(error: Exception) -> typer.Exit:
    problem = problem_of(error)
    typer.echo(f"{problem.title}: {problem.detail}", err=True)
    if problem.nearest:
        typer.echo(f"Nearest: {', '.join(problem.nearest)}", err=True)
    return typer.Exit(ExitCode.BAD_INPUT)


def with_config(document: dict[str, Any], config: Path | None) -> dict[str, Any]:
    """Return the body of a request, with the config.json of a file where one is given.

    Raises:
        OSError: the file cannot be read.
        InvalidConfig: it holds no JSON object.
    """
    if config is None:
        return document
    return {**document, "config": dict(parse_config(config.read_bytes()).fields)}
