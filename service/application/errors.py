"""Errors of requests that the core does not raise."""

from collections.abc import Iterable
from typing import Final

from service.gpus.gpu_type import GpuType
from service.nearest_names import nearest, quoted

MOST_ERRORS: Final = 10
"""Values at fault that are listed; the rest is counted."""


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
    """

    def __init__(self, pointer: str, cause: Exception) -> None:
        super().__init__(str(cause))
        self.pointer = pointer
        self.cause = cause


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
        specified = "; ".join(f"{pointer or '/'}: {detail}" for pointer, detail in self.errors)
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
    """

    def __init__(
        self,
        names: Iterable[str],
        known: Iterable[str],
        *,
        section: str = "/serve",
        count: int | None = None,
    ) -> None:
        names, known = tuple(names), tuple(known)
        count, names = len(names) if count is None else count, names[:MOST_ERRORS]
        self.nearest = tuple(dict.fromkeys(near for name in names for near in nearest(name, known)))
        hint = f"; the nearest are {', '.join(self.nearest)}" if self.nearest else ""
        shown = ", ".join(map(quoted, names)) + _and_more(count, len(names))
        super().__init__(f"{shown} {'is' if count == 1 else 'are'} not modelled{hint}")
        self.errors = tuple((f"{section}/{escaped(name)}", "no such flag is modelled") for name in names)


class UnknownCacheDtype(ValueError):
    """No release has such a cache dtype.

    Attributes:
        nearest: the types that are spelt alike, or else all.
    """

    def __init__(self, given: str, known: tuple[str, ...]) -> None:
        self.nearest = nearest(given, known) or known
        super().__init__(f"no release has the kv_cache_dtype {quoted(given)}; known are {', '.join(known)}")


class UnknownSpeculativeMethod(ValueError):
    """No release has such a method of speculative decoding.

    Attributes:
        nearest: the methods that are spelt alike, or else all.
    """

    def __init__(self, given: str, known: tuple[str, ...]) -> None:
        self.nearest = nearest(given, known) or known
        super().__init__(
            f"no release has the speculative method {quoted(given)}; known are {', '.join(known)}"
        )


class GpuNotModelled(ValueError):
    """The GPU type is known, but no plans can be made for it."""

    def __init__(self, gpu: GpuType) -> None:
        super().__init__(f"{gpu.id} is not modelled yet: {gpu.unmodelled}")


class NotProbeable(ValueError):
    """A probe cannot measure this."""
