"""Faults of a question that the core does not know of."""

from collections.abc import Iterable
from difflib import get_close_matches

from service.gpus.gpu_type import GpuType


class InputFault(Exception):
    """A value inside a question is at fault.

    Attributes:
        pointer: JSON pointer of the value in the body.
        cause: what is wrong with it.
    """

    def __init__(self, pointer: str, cause: Exception) -> None:
        super().__init__(str(cause))
        self.pointer = pointer
        self.cause = cause


class InvalidRequest(ValueError):
    """Values are missing, of the wrong type or out of range.

    Attributes:
        errors: JSON pointers with what is wrong there.
    """

    def __init__(self, errors: Iterable[tuple[str, str]]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(f"{pointer or '/'}: {detail}" for pointer, detail in self.errors))


class UnknownFlag(ValueError):
    """A flag is none of those that are modelled.

    Attributes:
        errors: JSON pointers with what is wrong there.
        nearest: flags that are spelt alike.
    """

    def __init__(self, names: Iterable[str], known: Iterable[str], *, section: str = "/serve") -> None:
        names, known = tuple(names), tuple(known)
        self.nearest = tuple(
            dict.fromkeys(near for name in names for near in get_close_matches(name, known, n=3))
        )
        hint = f"; the nearest are {', '.join(self.nearest)}" if self.nearest else ""
        shown = ", ".join(map(repr, names))
        super().__init__(f"{shown} {'is' if len(names) == 1 else 'are'} not modelled{hint}")
        self.errors = tuple((f"{section}/{name}", "no such flag is modelled") for name in names)


class UnknownCacheDtype(ValueError):
    """No release has such a cache type.

    Attributes:
        nearest: the types that are spelt alike, or else all.
    """

    def __init__(self, given: str, known: tuple[str, ...]) -> None:
        self.nearest = tuple(get_close_matches(given, known, n=3)) or known
        super().__init__(f"no release has the kv_cache_dtype {given!r}; known are {', '.join(known)}")


class UnknownSpeculativeMethod(ValueError):
    """No release has such a method of guessing tokens.

    Attributes:
        nearest: the methods that are spelt alike, or else all.
    """

    def __init__(self, given: str, known: tuple[str, ...]) -> None:
        self.nearest = tuple(get_close_matches(given, known, n=3)) or known
        super().__init__(f"no release has the speculative method {given!r}; known are {', '.join(known)}")


class GpuNotModelled(ValueError):
    """The GPU type is known, but nothing is planned on it."""

    def __init__(self, gpu: GpuType) -> None:
        super().__init__(f"{gpu.id} is not modelled yet: {gpu.unmodelled}")


class MalformedJson(ValueError):
    """The body is not JSON."""


class UnsupportedMediaType(ValueError):
    """The body is sent as something else than JSON."""

    def __init__(self, given: str) -> None:
        shown = f"{given!r}" if given else "no type"
        super().__init__(f"the body is sent as {shown}: send application/json, as `curl --json` does")


class ProblemTypeNotFound(LookupError):
    """No kind of problem has this name."""

    def __init__(self, slug: str) -> None:
        super().__init__(f"there is no problem {slug!r}")


class Unauthorized(Exception):
    """No token that is known came with the request."""

    def __init__(self) -> None:
        super().__init__("this needs a token that the service knows")


class Forbidden(Exception):
    """A token came that does not allow this."""

    def __init__(self, scopes: Iterable[str]) -> None:
        super().__init__(f"this needs a token for: {', '.join(scopes)}")


class NotProbeable(ValueError):
    """What was asked for cannot be measured."""
