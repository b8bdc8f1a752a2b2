"""Results that are stored by what they depend on."""

from collections.abc import Callable, Hashable
from itertools import count
from typing import Generic, TypeVar

from service.engines.refusal import EngineRefusal

Result = TypeVar("Result")


class Memo(Generic[Result]):
    """Results of one step by what they depend on. A refusal is a result too."""

    def __init__(self, most: int | None = None) -> None:
        """Store ``most`` results at most: the next one takes the place of all."""
        self._most = most
        self._stored: dict[Hashable, Result | EngineRefusal] = {}

    def __len__(self) -> int:
        """Return the number of results."""
        return len(self._stored)

    @property
    def results(self) -> tuple[Result, ...]:
        """All results that are no refusals."""
        return tuple(each for each in tuple(self._stored.values()) if not isinstance(each, EngineRefusal))

    def get(self, key: Hashable) -> Result | None:
        """Return the result stored for a key; ``None`` if there is none, or if it is a refusal."""
        found = self._stored.get(key)
        return None if isinstance(found, EngineRefusal) else found

    def of(self, key: Hashable, calculate: Callable[[], Result]) -> Result:
        """Return the result stored for a key, calculated if there is none.

        Threads may calculate one result at the same time; all get the result that was stored first.

        Raises:
            EngineRefusal: this is the result.
        """
        found = self._stored.get(key)
        if found is None:
            try:
                found = calculate()
            except EngineRefusal as refusal:
                found = refusal
            if self._most is not None and len(self._stored) >= self._most:
                self._stored.clear()
            found = self._stored.setdefault(key, found)
        if isinstance(found, EngineRefusal):
            raise found.with_traceback(None)
        return found


class Numbers:
    """Small integers that stand for values: equal values get the same number. A number is the faster key."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._next = count()

    def of(self, value: Hashable) -> int:
        """Return the number of a value; no two threads give one number to different values."""
        return self._numbers.setdefault(value, next(self._next))
