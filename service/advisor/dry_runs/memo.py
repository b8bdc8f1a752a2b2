"""Results that are stored by what they depend on."""

from collections.abc import Callable, Hashable
from itertools import count
from typing import Generic, TypeAlias, TypeVar

from service.engines.refusal import EngineRefusal

Result = TypeVar("Result")
Stored: TypeAlias = dict[Hashable, Result | EngineRefusal]


class Memo(Generic[Result]):
    """Results of one step by what they depend on. A refusal is a result too."""

    def __init__(self) -> None:
        self._stored: Stored[Result] = {}

    def __len__(self) -> int:
        """Return the number of results."""
        return len(self._stored)

    @property
    def results(self) -> tuple[Result, ...]:
        """All results that are no refusals."""
        return tuple(each for each in tuple(self._stored.values()) if not isinstance(each, EngineRefusal))

    def get(self, key: Hashable) -> Result | None:
        """Return the result stored for a key; ``None`` if there is none, or if it is a refusal."""
        found = self._find(key)
        return None if isinstance(found, EngineRefusal) else found

    def of(self, key: Hashable, calculate: Callable[[], Result]) -> Result:
        """Return the result stored for a key, calculated if there is none.

        Threads may calculate one result at the same time; all get the result that was stored first.

        Raises:
            EngineRefusal: this is the result.
        """
        found = self._find(key)
        if found is None:
            try:
                found = calculate()
            except EngineRefusal as refusal:
                found = refusal
            found = self._store(key, found)
        if isinstance(found, EngineRefusal):
            raise found.with_traceback(None)
        return found

    def _find(self, key: Hashable) -> Result | EngineRefusal | None:
        return self._stored.get(key)

    def _store(self, key: Hashable, result: Result | EngineRefusal) -> Result | EngineRefusal:
        return self._stored.setdefault(key, result)


class LastResults(Memo[Result]):
    """The results that were asked for last: at least half of ``most``, and ``most`` at most.

    Results that are asked for go to the newer half; when that is full, it takes the place of the older one.
    Threads use it at once without a lock: an ``OrderedDict`` breaks where keys are compared by Python.
    """

    def __init__(self, most: int) -> None:
        """Store ``most`` results at most."""
        super().__init__()
        self._half = most // 2
        self._older: Stored[Result] = {}

    def __len__(self) -> int:
        """Return the number of results."""
        return len(self._both)

    @property
    def _both(self) -> Stored[Result]:
        return {**self._older, **self._stored}

    @property
    def results(self) -> tuple[Result, ...]:
        """All results that are no refusals."""
        return tuple(each for each in self._both.values() if not isinstance(each, EngineRefusal))

    def _find(self, key: Hashable) -> Result | EngineRefusal | None:
        found = self._stored.get(key)
        if found is not None:
            return found
        older = self._older.get(key)
        return None if older is None else self._store(key, older)

    def _store(self, key: Hashable, result: Result | EngineRefusal) -> Result | EngineRefusal:
        if len(self._stored) >= self._half:
            self._stored, self._older = {}, self._stored
        return super()._store(key, result)


class Numbers:
    """Small integers that stand for values: equal values get the same number. A number is the faster key."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._next = count()

    def of(self, value: Hashable) -> int:
        """Return the number of a value; no two threads give one number to different values."""
        return self._numbers.setdefault(value, next(self._next))
