"""Makes the options of a command from a schema, so that each flag is described in one place."""

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Final, TypeAlias, Union, get_args, get_origin

import typer

from service.application.schemas.serve import FlagsInput

CONFIG: Final = typer.Option(
    "--config",
    help="A config.json, used in place of the model's own and without the Hub.",
    exists=True,
    dir_okay=False,
)
FORMAT: Final = typer.Option("--format", help="Left out: a table on a terminal, JSON elsewhere.")

Annotation: TypeAlias = Any
"""A type annotation; Python has no type for it."""


def with_options(
    command: Callable[..., None], taken: type[FlagsInput], forms: Annotation, *more: inspect.Parameter
) -> Callable[..., None]:
    """Give a command one option for each member of ``taken``, beside its own options and ``more``.

    ``forms``: type of `--format`, the forms in which the command can write its answer.
    """
    specified = inspect.signature(command).parameters.values()
    own = (parameter for parameter in specified if get_origin(parameter.annotation) is Annotated)
    parameters = (*more, *_options(taken), option("format", forms | None, FORMAT), *own)
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _options(taken: type[FlagsInput]) -> Iterator[inspect.Parameter]:
    for name, field in taken.model_fields.items():
        kind, words, flag = _plain(field.annotation), field.description, name.replace("_", "-")
        if field.is_required():
            yield option(name, kind, typer.Argument(help=words), inspect.Parameter.empty)
        elif bool in get_args(kind):
            yield option(name, kind, typer.Option(f"--{flag}/--no-{flag}", help=words))
        else:
            yield option(name, kind, typer.Option(f"--{flag}", help=words))
    yield option("config", Path | None, CONFIG)


def option(name: str, kind: Annotation, how: object, default: object = None) -> inspect.Parameter:
    """Return one parameter of a command; ``how``: Typer's description of it."""
    annotation = Annotated[kind, how]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _plain(kind: Annotation) -> Annotation:
    """Return a type without the limits that Pydantic checks."""
    origin: Annotation = get_origin(kind)
    arguments = get_args(kind)
    if origin is Annotated:
        return _plain(arguments[0])
    if origin in {Union, UnionType}:
        return Union[tuple(map(_plain, arguments))]  # noqa: UP007 - built, not written
    return list[_plain(arguments[0])] if origin is list else kind  # type: ignore[misc]
