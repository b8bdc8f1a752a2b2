"""Parameters whose name in a body is another than in a query string: both names are taken in both places."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pydantic_core import PydanticCustomError

from service.application.errors import InputFault, InvalidRequest
from service.gpus.gpu_type import InvalidGpu
from service.gpus.own_gpu import is_own_gpu, read_own_gpu

RENAMED: Final[Mapping[str, tuple[str, ...]]] = {
    "gpu": ("gpus",),
    "engine_version": ("engine", "version"),
    "compare": ("engine", "versions"),
    "patch": ("engine", "patches"),
    "price": ("prices",),
}
"""Place in the body of each of them."""
TWICE: Final = "given_twice"


def as_in_query(given: Any) -> Any:  # noqa: ANN401 - whatever was sent
    """Return parameters with the names of a query string, where they have those of a body.

    Raises:
        PydanticCustomError: one is given by both names.
    """
    if not isinstance(given, Mapping):
        return given
    meant = {place[-1]: name for name, place in RENAMED.items() if place[-1] in given}
    if not meant:
        return given
    renamed = {name: value for name, value in given.items() if name not in meant}
    for called, name in meant.items():
        if name in renamed:
            raise _twice(name, called)
        value = given[called]
        renamed[name] = [value] if name in LISTED and isinstance(value, str) else value
    return renamed


def as_in_body(given: Any) -> Any:  # noqa: ANN401 - whatever was sent
    """Return a body with the names of a body, where it has those of a query string.

    Raises:
        PydanticCustomError: one is given by both names, or what holds it is no object.
    """
    if not isinstance(given, Mapping) or RENAMED.keys().isdisjoint(given):
        return given
    body = {name: value for name, value in given.items() if name not in RENAMED}
    for name in RENAMED.keys() & given.keys():
        *sections, called = RENAMED[name]
        target = body
        for section in sections:
            inner = target.get(section, {})
            if not isinstance(inner, Mapping):
                raise _twice(name, section)
            target[section] = target = dict(inner)
        if called in target:
            raise _twice(name, ".".join(RENAMED[name]))
        target[called] = _read(name, given[name])
    return body


def _read(name: str, value: object) -> object:
    """Return a value as a body has it, where it is written as in a query string.

    What cannot be read stays as it is, for the schema of the body to refuse.
    """
    texts = [value] if name in LISTED and isinstance(value, str | Mapping) else value
    if name not in LISTED or not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        return texts
    try:
        return LISTED[name](texts)
    except (InputFault, InvalidRequest):
        return texts


def _twice(name: str, called: str) -> PydanticCustomError:
    words = "`{name}` and `{called}` are the same: give one of them"
    return PydanticCustomError(TWICE, words, {"name": name, "called": called})


def gpu_choices(texts: Iterable[str]) -> list[str | dict[str, Any]]:
    """Return the GPUs that texts name, as the list of the body: a name, or an object for a GPU of one's own.

    Raises:
        InputFault: the text of a GPU of the caller's own cannot be read.
    """
    choices: list[str | dict[str, Any]] = []
    for text in texts:
        if not is_own_gpu(text):
            choices += [name.strip() for name in text.split(",") if name.strip()] or [text]
            continue
        try:
            choices.append(read_own_gpu(text))
        except InvalidGpu as error:
            raise InputFault(f"/gpus/{len(choices)}", error) from error
    return choices


def names(texts: Iterable[str]) -> list[str]:
    """Return the names in texts, each of which may hold several with commas between them."""
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def price_choices(texts: Iterable[str]) -> list[dict[str, Any]]:
    """Return the prices that texts state, such as ``l4-24gb=0.7``, as the list of the body.

    Raises:
        InvalidRequest: a text is no GPU type with a number behind ``=``.
    """
    choices: list[dict[str, Any]] = []
    for index, text in enumerate(texts):
        gpu, _, price = text.rpartition("=")
        try:
            choices.append({"gpu": gpu.strip(), "usd_per_gpu_hour": float(price)})
        except ValueError as error:
            words = "is not a GPU type and a number, such as l4-24gb=0.7"
            raise InvalidRequest([(f"/prices/{index}", words)]) from error
    return choices


LISTED: Final[Mapping[str, Callable[[Any], object]]] = {
    "gpu": gpu_choices,
    "price": price_choices,
    "compare": names,
    "patch": names,
}
"""How the texts of a parameter that may be repeated become a list of the body."""
