"""Errors of requests that the core does not raise."""

from collections.abc import Iterable
from typing import Final

from service.gpus.gpu_type import GpuType
from service.launch_command.command_reading import CommandReading
from service.nearest_names import nearest, quoted

MOST_ERRORS: Final = 10
"""Values at fault that are listed; the rest is counted."""
MOST_NEAREST: Final = 5
"""Known names that are listed beside an unknown one."""


def escaped(key: object) -> str:
    """Return a key as one step of a JSON pointer (RFC 6901, section 3)."""
    return str(key).replace("~", "~0").replace("/", "~1")


def _and_more(count: int, specified: int) -> str:
    return f" and {count - specified:,} more" if count > specified else ""


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
    def errors(self) -> tuple[tuple[str, str], ...]:
        """JSON pointers with what is wrong there, of this value and the others."""
        return tuple(
            (fault.pointer, getattr(fault.cause, "detail", str(fault.cause)))
            for fault in (self, *self.others)
        )


class InvalidRequest(ValueError):
    """Values are missing, of the wrong type or out of range.

    Attributes:
        errors: JSON pointers with what is wrong there, at most ``MOST_ERRORS``.

    Args:
        errors: all JSON pointers with what is wrong there, or the first.
        count: how many there are, where ``errors`` does not hold all.
    """

    def __init__(self, errors: Iterable[tuple[str, str]], *, count: int | None = None) -> None:
        errors = tuple(errors)
        self.errors = errors[:MOST_ERRORS]
        specified = "; ".join(f"{pointer or 'the body'} {detail}" for pointer, detail in self.errors)
        super().__init__(specified + _and_more(len(errors) if count is None else count, len(self.errors)))


class UnknownFlag(ValueError):
    """A flag is not modelled.

    Attributes:
        errors: JSON pointers with what is wrong there.
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
        self.nearest = tuple(dict.fromkeys(near for name in names for near in nearest(name, known)))
        self.nearest = self.nearest[:MOST_NEAREST]
        shown = ", ".join(map(quoted, names)) + _and_more(count, len(names))
        hints = dict(zip(names, advice, strict=False))
        words = [f"{shown} {'is' if count == 1 else 'are'} not modelled"]
        words += [f"{quoted(name)}: {hint}" for name, hint in hints.items() if hint]
        others = tuple(others)
        words += [f"{pointer or 'the body'} {detail}" for pointer, detail in others]
        super().__init__("; ".join(words) + _and_more(more, 0))
        flags = (
            (
                f"{section}/{escaped(name)}",
                "; ".join(filter(None, ("no such flag is modelled", hints.get(name)))),
            )
            for name in names
        )
        self.errors = (*flags, *others)[:MOST_ERRORS]


class RefusedCommand(ValueError):
    """The parser of the release refuses a command: it has no such flag, or a value has the wrong type.

    Attributes:
        errors: JSON pointers with what is wrong there, at most ``MOST_ERRORS``.
        nearest: flags of the release that are spelt alike.
    """

    def __init__(self, reading: CommandReading) -> None:
        unknown, faults = reading.unknown[:MOST_ERRORS], reading.faults[:MOST_ERRORS]
        self.nearest = tuple(dict.fromkeys(near for error in unknown for near in error.nearest))
        words = [*map(str, unknown), *faults]
        count = len(reading.unknown) + len(reading.faults)
        self.errors = tuple(("/command", each) for each in words[:MOST_ERRORS])
        super().__init__("; ".join(words[:MOST_ERRORS]) + _and_more(count, min(len(words), MOST_ERRORS)))


class LocalModel(ValueError):
    """A command serves a folder or a GGUF file that is not here."""

    def __init__(self, path: str) -> None:
        if path.lower().endswith(".gguf"):
            super().__init__(
                f"the command serves {quoted(path)}, a GGUF file: these are planned for llama.cpp alone "
                "(`engine.name`, --engine llama.cpp); for vLLM name the model that it was made from"
            )
            return
        super().__init__(
            f"the command serves {quoted(path)}, a folder that is not here; name its model on the Hub in "
            "`model` (before `--` on the command line), or send its config.json in `config` (`--config FILE`)"
        )


class UnknownCacheDtype(ValueError):
    """No release has such a cache dtype.

    Attributes:
        nearest: the types that are spelt alike, or else all.
    """

    def __init__(self, given: str, known: tuple[str, ...]) -> None:
        self.nearest = nearest(given, known) or known
        super().__init__(f"no release has the kv_cache_dtype {quoted(given)}")


MOST_CHOICES: Final = 12
"""Values of a flag that a message lists; of more it names the nearest."""


class UnknownFlagValue(ValueError):
    """No release takes such a value for a flag.

    Attributes:
        nearest: the values that are spelt alike, or else all.
    """

    def __init__(self, flag: str, given: str, known: tuple[str, ...]) -> None:
        alike = nearest(given, known)
        self.nearest = alike or known
        choices = f"choices: {', '.join(known)}"
        if len(known) > MOST_CHOICES:
            choices = (
                f"nearest of {len(known)}: {', '.join(alike)}"
                if alike
                else f"none of its {len(known)} values is spelled alike"
            )
        super().__init__(f"no release takes {quoted(given)} for {flag}; {choices}")


class UnknownSpeculativeMethod(ValueError):
    """No release has such a method of speculative decoding.

    Attributes:
        nearest: the methods that are spelt alike, or else all.
    """

    def __init__(self, given: str, known: tuple[str, ...]) -> None:
        self.nearest = nearest(given, known) or known
        super().__init__(f"no release has the speculative method {quoted(given)}")


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
        errors: JSON pointers with what is wrong there.
        nearest: parameters that are spelt alike.
    """

    def __init__(self, names: Iterable[str], known: Iterable[str]) -> None:
        names, known = tuple(names), tuple(known)
        shown = names[:MOST_ERRORS]
        self.nearest = tuple(dict.fromkeys(near for name in shown for near in nearest(name, known)))
        listed = ", ".join(map(quoted, shown)) + _and_more(len(names), len(shown))
        has = f"it has {', '.join(known)}" if known else "it has none"
        super().__init__(f"this route has no query parameter {listed}: {has}")
        self.errors = tuple((f"/{escaped(name)}", "is no parameter of this route") for name in shown)
