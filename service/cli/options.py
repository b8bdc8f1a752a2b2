"""Makes the options of a command from a schema, so that each flag is described in one place."""

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import Annotated, Any, Final, TypeAlias, Union, get_args, get_origin

import typer
from pydantic import BeforeValidator

from service.application.schemas.flags.flags import FlagsInput
from service.application.schemas.flags.serve import ServeInput

CONFIG: Final = typer.Option(
    "--config",
    help="A config.json, used in place of the model's own and without the Hub.",
    exists=True,
    dir_okay=False,
)
FORMAT: Final = typer.Option("--format", help="Left out: a table on a terminal, JSON elsewhere.")

ENGINES_DEFAULTS: Final = {
    "tensor_parallel_size": "Ranks (GPUs) that share every layer; left out: 1",
    "kv_cache_dtype": "Dtype of the cache; left out: auto",
}
"""Help where nothing is searched."""

JSON_OBJECTS: Final = frozenset({"speculative_config"})

SHORT: Final[Mapping[str, str]] = {
    "tensor_parallel_size": "-tp",
    "pipeline_parallel_size": "-pp",
    "data_parallel_size": "-dp",
    "decode_context_parallel_size": "-dcp",
    "enable_expert_parallel": "-ep",
    "quantization": "-q",
}
"""Short names that the engine has for its flags, and ``dryserve`` too."""

METAVARS: Final = {int: "N", float: "NUMBER", str: "VALUE"}
"""What stands for a value of a type; a name's choices are listed instead."""

Annotation: TypeAlias = Any
"""A type annotation; Python has no type for it."""


def with_options(
    command: Callable[..., None],
    taken: type[FlagsInput],
    forms: Annotation,
    *more: inspect.Parameter,
    without: Collection[str] = (),
    words: Mapping[str, str] = MappingProxyType({}),
) -> Callable[..., None]:
    """Give a command one option for each member of ``taken``, with its own options and ``more``.

    ``forms``: type of `--format`, the forms in which the command can write its answer. ``without``: members
    that get no option. ``words``: help of members for which the command means something else than the schema.
    """
    specified = inspect.signature(command).parameters.values()
    own = (parameter for parameter in specified if get_origin(parameter.annotation) is Annotated)
    options = [each for each in _options(taken, words) if each.name not in without]
    # Help lists options in this order: what is asked and how it is answered, then the engine's flags.
    flags = [each for each in options if each.name in ServeInput.model_fields]
    asked = [each for each in options if each.name not in ServeInput.model_fields]
    parameters = (*more, *asked, option("format", forms | None, FORMAT), *own, *flags)
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _options(taken: type[FlagsInput], other: Mapping[str, str]) -> Iterator[inspect.Parameter]:
    for name, field in taken.model_fields.items():
        kind, flag = _plain(field.annotation), name.replace("_", "-")
        words = (other.get(name, field.description) or "").replace("; null: ", "; left out: ")
        if field.is_required():
            yield option(
                name, kind, typer.Argument(help=words, metavar=name.upper()), inspect.Parameter.empty
            )
        elif bool in get_args(kind):
            names = (f"--{flag}/--no-{flag}", *_short(name))
            yield option(name, kind, typer.Option(*names, help=words))
        else:
            names = (f"--{flag}", *_short(name))
            yield option(name, kind, typer.Option(*names, help=words, metavar=_metavar(name, kind)))
    yield option("config", Path | None, CONFIG)


def _short(name: str) -> tuple[str, ...]:
    return (SHORT[name],) if name in SHORT else ()


def _metavar(name: str, kind: Annotation) -> str | None:
    """Return what stands for the value in the help, where the type's name would say too little."""
    if name in JSON_OBJECTS:
        return "JSON"
    kinds = (kind, *get_args(kind))
    if any(get_origin(each) is list for each in kinds):
        return name.removesuffix("s").rpartition("_")[2].upper()
    return next((METAVARS[each] for each in kinds if each in METAVARS), None)


def option(name: str, kind: Annotation, how: object, default: object = None) -> inspect.Parameter:
    """Return one parameter of a command; ``how``: Typer's description of it."""
    annotation = Annotated[kind, how]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _plain(kind: Annotation) -> Annotation:
    """Return a type without the limits that Pydantic checks."""
    origin: Annotation = get_origin(kind)
    arguments = get_args(kind)
    if origin is Annotated:
        if any(isinstance(each, BeforeValidator) for each in arguments[1:]):
            return str  # text such as `32k` becomes a number where the schema is checked
        return _plain(arguments[0])
    if origin in {Union, UnionType}:
        return Union[tuple(map(_plain, arguments))]  # noqa: UP007 - built, not written
    return list[_plain(arguments[0])] if origin is list else kind  # type: ignore[misc]
