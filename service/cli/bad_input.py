"""Ends a command with a message and an exit code where its input is at fault, or the engine refuses it."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

import typer
from pydantic import ValidationError

from service.application.errors import InputFault, InvalidRequest, RefusedCommand, UnknownFlagValue
from service.application.schemas.requests.plan_parameters import PLACES
from service.architecture.config import parse_config
from service.cli.exit_codes import ExitCode
from service.hub.errors import HubError, ModelNotFound
from service.nearest_names import is_slip

if TYPE_CHECKING:
    from service.application.schemas.answers.problem import Problem

ARGUMENTS: Final = frozenset({"model", "command"})
"""Values that are words of the command line and no options."""
WITHOUT_PARAMETER: Final = {"config": "--config", "serve": "--engine-flags"}
"""Options by members of a body that no flat parameter names as a whole."""
COMMAND: Final = "/command"
"""Field of which faults are whole sentences; those of others go on after the option's name."""
NEEDED_BY: Final = {
    "/workload/prompt_tokens": ": --concurrent-requests and --output-tokens need it, "
    "or --max-model-len for prompts of that length"
}
"""By field: why a command needs it where nobody named it."""


@contextmanager
def exits_on_bad_input() -> Iterator[None]:
    """Print what is wrong with the input, and exit.

    Raises:
        typer.Exit: the input is at fault, a file cannot be read, or the Hub or the database cannot be used.
    """
    try:
        yield
    except ValidationError as error:
        from service.application.problems.invalid_request import invalid_request  # noqa: PLC0415 - most commands fail not

        raise _exit(invalid_request(error.errors(include_url=False))) from None
    except OSError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(ExitCode.BAD_INPUT) from None
    except typer.Exit:
        raise
    except _handled_errors() as error:
        raise _exit(error) from None


def _handled_errors() -> tuple[type[Exception], ...]:
    from service.application.problems.problem_of import HANDLED_ERRORS  # noqa: PLC0415 - most commands fail not

    return HANDLED_ERRORS


def _exit(error: Exception) -> typer.Exit:
    from service.application.problems.problem_of import problem_of  # noqa: PLC0415 - as above

    problem = problem_of(error)
    for line in _lines(error, problem):
        typer.echo(line, err=True)
    return typer.Exit(_code(error))


def _code(error: Exception) -> ExitCode:
    """Return the exit code of an error: asking again may help only where the Hub could not be asked.

    A whole command that the engine's parser refuses is a start that fails, as any other refusal is.
    """
    if isinstance(error, RefusedCommand) or (isinstance(error, InputFault) and _is_refused(error)):
        return ExitCode.FAILED
    if not isinstance(error, HubError) or not error.is_outage:
        return ExitCode.BAD_INPUT
    is_mistyped = any(is_slip(error.model_id, name) for name in error.nearest)
    return ExitCode.BAD_INPUT if is_mistyped else ExitCode.HUB_FAILED


def _is_refused(fault: InputFault) -> bool:
    """Whether all that is at fault are values of a command that no release takes."""
    from service.backends.backend_rules import UnknownBackend  # noqa: PLC0415 - as above

    return all(
        each.pointer == COMMAND and isinstance(each.cause, UnknownFlagValue | UnknownBackend)
        for each in (fault, *fault.others)
    )


def _lines(error: Exception, problem: "Problem") -> Iterator[str]:
    """Yield what is wrong, each value by the name of its option, with the nearest names below it."""
    if isinstance(error, InvalidRequest) and problem.errors:
        for each in problem.errors:
            colon = ":" if each.pointer == COMMAND else ""
            yield f"{_value_name(each.pointer)}{colon} {each.detail}{NEEDED_BY.get(each.pointer, '')}"
            yield from _nearest(each.nearest or (), each.detail)
    elif isinstance(error, InputFault) and error.others:
        for each in problem.errors or ():
            yield f"{option_name(each.pointer)}: {each.detail}"
            yield from _nearest(each.nearest or (), each.detail)
    else:
        title = option_name(error.pointer) if isinstance(error, InputFault) else problem.title
        said, remedies = problem.detail, ""
        if isinstance(error, ModelNotFound) and problem.nearest:
            # A mistyped name is commoner than a model that is to be stored.
            said, _, remedies = said.partition(". ")
        yield f"{title}: {said}"
        yield from _nearest(problem.nearest or (), said)
        word = error.model_id if isinstance(error, ModelNotFound) else ""
        if word and "/" not in word and any(word.lower() in each.lower() for each in problem.nearest or ()):
            yield f"All with this word: dryserve models list {quote(word)}"
        if remedies:
            yield remedies


def _nearest(names: Sequence[str], said: str) -> Iterator[str]:
    """Yield a line with names that are spelt alike, where the text above does not hold them."""
    unnamed = [name for name in names if not _is_named(name, said)]
    if unnamed:
        yield f"Nearest: {', '.join(unnamed)}"


def _is_named(name: str, text: str) -> bool:
    """Whether a text holds a name as a whole, and not as the beginning of a longer one."""
    return re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w/-]|\.\w)", text) is not None


def option_name(pointer: str) -> str:
    """Return the option of the command line for a JSON pointer of the body: ``--gpu`` for ``/gpus/0``."""
    place = tuple(pointer.removeprefix("/").split("/"))
    place = PLACES.get(place[0], place) if len(place) == 1 else place
    for name, option in PLACES.items():
        if place[: len(option)] == option:
            inside = ".".join(place[len(option) :]) if option[0] == "serve" else ""
            words = name.upper() if name in ARGUMENTS else f"--{name.replace('_', '-')}"
            return f"{words}.{inside}" if inside else words
    return WITHOUT_PARAMETER.get(place[0]) or pointer or "the command"


def _value_name(pointer: str) -> str:
    """Return the option, and of a GPU of one's own the part at fault."""
    _, _, part = pointer.removeprefix("/gpus/").partition("/")
    own = part if pointer.startswith("/gpus/") else ""
    return " ".join(filter(None, (option_name(pointer), own)))


def with_config(document: dict[str, Any], config: Path | None) -> dict[str, Any]:
    """Return the body of a request, with the config.json of a file where one is given.

    Raises:
        OSError: the file cannot be read.
        InvalidConfig: it holds no JSON object.
    """
    if config is None:
        return document
    return {**document, "config": dict(parse_config(config.read_bytes()).fields)}
