"""Errors of requests that the core does not raise."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final, TypeVar

from service.gpus.gpu_type import GpuType
from service.launch_command.command_reading import CommandReading
from service.nearest_names import FEW, MOST_NEAREST, few_of, nearest, quoted

MOST_ERRORS: Final = 10
"""Values at fault that are listed; the rest is counted."""


PARAMETERS_LISTED: Final = "/openapi.yaml lists all of each route"
T = TypeVar("T")


def where_listed(flag: str) -> str:
    """Say what lists all values of a flag."""
    return f"`dryserve engines values {flag}` and GET /v1/engines list all"


def escaped(key: object) -> str:
    """Return a key as one step of a JSON pointer (RFC 6901, section 3)."""
    return str(key).replace("~", "~0").replace("/", "~1")


def _and_more(count: int, specified: int) -> str:
    return f" and {count - specified:,} more" if count > specified else ""


@dataclass(frozen=True, slots=True)
class FieldFault:
    """What is wrong with one value of a request."""

    pointer: str
    """JSON pointer of the value in the body."""
    detail: str
    nearest: tuple[str, ...] = ()
    """Known names that are spelt like the value."""


class InputFault(Exception):
    """A value inside a request is at fault.

    Attributes:
        pointer: JSON pointer of the value in the body.
        cause: the error that the value causes.
        others: further values at fault.
    """

    def __init__(self, pointer: str, cause: Exception, others: Iterable["InputFault"] = ()) -> None:
        super().__init__(str(cause))
        self.pointer = pointer
        self.cause = cause
        self.others = tuple(others)

    @property
    def errors(self) -> tuple[FieldFault, ...]:
        """What is wrong with this value and the others."""
        return tuple(
            FieldFault(
                fault.pointer,
                getattr(fault.cause, "detail", str(fault.cause)),
                tuple(getattr(fault.cause, "nearest", ()))[:MOST_NEAREST],
            )
            for fault in (self, *self.others)
        )

    def moved(self, place: Callable[[str], str]) -> "InputFault":
        """Return the same fault of a request in which every value stands at another place."""
        return InputFault(place(self.pointer), self.cause, (each.moved(place) for each in self.others))


@contextmanager
def faults_together() -> Iterator[Callable[[Callable[[], T]], T | None]]:
    """Yield what runs a part of the reading of a request; one error at the end names the faults of all parts.

    A part that finds a value at fault returns nothing.

    Raises:
        InputFault: values are at fault.
    """
    found: list[InputFault] = []

    def read(part: Callable[[], T]) -> T | None:
        try:
            return part()
        except InputFault as fault:
            found.extend((InputFault(fault.pointer, fault.cause), *fault.others))
        return None

    yield read
    if found:
        raise InputFault(found[0].pointer, found[0].cause, found[1:]) from found[0].cause


class InvalidRequest(ValueError):
    """Values are missing, of the wrong type or out of range.

    Attributes:
        errors: what is wrong with each value, at most ``MOST_ERRORS``.

    Args:
        errors: all JSON pointers with what is wrong there, or the first.
        count: how many there are, where ``errors`` does not hold all.
    """

    def __init__(self, errors: Iterable[tuple[str, str]], *, count: int | None = None) -> None:
        found = tuple(FieldFault(*each) for each in errors)
        self.errors = found[:MOST_ERRORS]
        specified = "; ".join(f"{each.pointer or 'the body'} {each.detail}" for each in self.errors)
        super().__init__(specified + _and_more(len(found) if count is None else count, len(self.errors)))


class UnknownFlag(ValueError):
    """A flag is not modelled.

    Attributes:
        errors: what is wrong with each value.
        nearest: flags that are spelt alike.

    Only the first ``MOST_ERRORS`` names are listed and compared with the known names: comparing takes time.

    Args:
        names: the first names that are not known.
        known: the names that are known.
        section: JSON pointer of the object that holds them.
        count: how many there are, where ``names`` does not hold all.
        advice: for each name, what the caller may have meant; empty where that is not known.
        others: JSON pointers with what else is wrong in the request.
        more: how many further values are at fault.
    """

    def __init__(  # noqa: PLR0913 - one for each part of the message
        self,
        names: Iterable[str],
        known: Iterable[str],
        *,
        section: str = "/serve",
        count: int | None = None,
        advice: Iterable[str] = (),
        others: Iterable[tuple[str, str]] = (),
        more: int = 0,
    ) -> None:
        names, known = tuple(names), tuple(known)
        count, names = len(names) if count is None else count, names[:MOST_ERRORS]
        alike = {name: nearest(name, known) for name in names}
        self.nearest = _first_of(alike.values())
        shown = ", ".join(map(quoted, names)) + _and_more(count, len(names))
        hints = dict(zip(names, advice, strict=False))
        words = [f"{shown} {'is' if count == 1 else 'are'} not modelled"]
        words += [f"{quoted(name)}: {hint}" for name, hint in hints.items() if hint]
        others = tuple(others)
        words += [f"{pointer or 'the body'} {detail}" for pointer, detail in others]
        super().__init__("; ".join(words) + _and_more(more, 0))
        flags = (
            FieldFault(
                f"{section}/{escaped(name)}",
                "; ".join(filter(None, ("no such flag is modelled", hints.get(name)))),
                near,
            )
            for name, near in alike.items()
        )
        self.errors = (*flags, *(FieldFault(*each) for each in others))[:MOST_ERRORS]


class RefusedCommand(ValueError):
    """The parser of the release refuses a command: it has no such flag, or a value has the wrong type.

    Attributes:
        errors: what is wrong with each value, at most ``MOST_ERRORS``.
        nearest: flags of the release that are spelt alike.
    """

    def __init__(self, reading: CommandReading) -> None:
        unknown, faults = reading.unknown[:MOST_ERRORS], reading.faults[:MOST_ERRORS]
        self.nearest = _first_of(error.nearest for error in unknown)
        words = [*map(str, unknown), *faults]
        count = len(reading.unknown) + len(reading.faults)
        found = (
            *(FieldFault("/command", str(each), each.nearest) for each in unknown),
            *(FieldFault("/command", each) for each in faults),
        )
        self.errors = found[:MOST_ERRORS]
        super().__init__("; ".join(words[:MOST_ERRORS]) + _and_more(count, min(len(words), MOST_ERRORS)))


class LocalModel(ValueError):
    """A command serves a folder or a GGUF file that is not here.

    Attributes:
        nearest: the model at hand whose name the folder has.
    """

    def __init__(self, path: str, same: str | None = None) -> None:
        self.nearest = (same,) if same is not None else ()
        if path.lower().endswith(".gguf"):
            super().__init__(
                f"the command serves {quoted(path)}, a GGUF file that is not here; where it is, `dryserve "
                "plan FILE.gguf --config FILE` plans it for releases of vLLM that load it, and --engine "
                "llama.cpp for llama.cpp; elsewhere name the model that it was made from in `model` (before "
                "`--` on the command line)"
            )
            return
        such = f", such as {same}," if same else ""
        super().__init__(
            f"the command serves {quoted(path)}, a folder that is not here; name its model on the Hub{such} "
            "in `model` (before `--` on the command line), or send its config.json in `config` "
            "(`--config FILE`)"
        )


class UnknownFlagValue(ValueError):
    """No release takes such a value for a flag that takes only certain words.

    Attributes:
        nearest: the values that are spelt alike, or else all of a few.
    """

    refused: ClassVar[str] = "no release takes {given} for {flag}"

    def __init__(self, flag: str, given: str, known: tuple[str, ...]) -> None:
        alike = nearest(given, known)
        self.nearest = alike or (known if len(known) <= FEW else ())
        choices = few_of(alike, known, where_listed(flag))
        super().__init__(f"{self.refused.format(given=quoted(given), flag=flag)}; {choices}")


class UnknownCacheDtype(UnknownFlagValue):
    """No release has such a cache dtype."""

    refused = "no release has the {flag} {given}"


class UnknownSpeculativeMethod(UnknownFlagValue):
    """No release has such a method of speculative decoding."""

    refused = "no release has the speculative method {given}"


class GpuNotModelled(ValueError):
    """The GPU type is known, but no plans can be made for it."""

    def __init__(self, gpu: GpuType) -> None:
        super().__init__(f"{gpu.id} is not modelled yet: {gpu.unmodelled}")


class NothingToRun(Exception):
    """A plan is asked for as commands, and has none.

    Args:
        comments: lines that begin with ``#`` and say why.
    """

    def __init__(self, comments: str) -> None:
        lines = [line.removeprefix("# ") for line in comments.splitlines()]
        super().__init__("; ".join(lines[:MOST_ERRORS]) + _and_more(len(lines), min(len(lines), MOST_ERRORS)))


class NotProbeable(ValueError):
    """A probe cannot measure this."""


class UnknownParameter(ValueError):
    """A query parameter is not one of the route's.

    Attributes:
        errors: what is wrong with each value.
        nearest: parameters that are spelt alike.
    """

    def __init__(self, names: Iterable[str], known: Iterable[str]) -> None:
        names, known = tuple(names), tuple(known)
        shown = names[:MOST_ERRORS]
        alike = {name: nearest(name, known) for name in shown}
        self.nearest = _first_of(alike.values())
        listed = ", ".join(map(quoted, shown)) + _and_more(len(names), len(shown))
        has = few_of(self.nearest, known, PARAMETERS_LISTED) if known else "it has none"
        super().__init__(f"this route has no query parameter {listed}: {has}")
        self.errors = tuple(
            FieldFault(f"/{escaped(name)}", "is no parameter of this route", near)
            for name, near in alike.items()
        )


def _first_of(alike: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Return the first of the names that are spelt like any of several."""
    return tuple(dict.fromkeys(near for each in alike for near in each))[:MOST_NEAREST]
