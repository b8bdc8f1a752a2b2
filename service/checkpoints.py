"""Checkpoints: the places at which a long calculation may be ended from outside.

A calculation calls ``checkpoint`` between its steps. Whoever runs it says with ``checked_by`` what that does:
an exception ends the calculation. So the calculation needs to know neither clocks nor callers.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_CHECK: Final[ContextVar[Callable[[], None] | None]] = ContextVar("check", default=None)


def checkpoint() -> None:
    """Call the check of whoever runs this calculation, if there is one; what it raises ends it."""
    check = _CHECK.get()
    if check is not None:
        check()


@contextmanager
def checked_by(check: Callable[[], None]) -> Iterator[None]:
    """Have the calculations of this context call a check at each checkpoint."""
    token = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(token)
