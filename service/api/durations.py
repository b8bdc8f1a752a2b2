"""Durations: how long work of each kind took the last time."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from time import thread_time
from typing import Final, TypeVar

from service.checkpoints import checked_by

Result = TypeVar("Result")

LOOP_SECONDS: Final = 0.002
"""Processor time below which the event loop does work of a kind by itself."""
KINDS: Final = 4096
"""Kinds of work whose duration is remembered, the most recent ones."""


class LongerThanBefore(Exception):
    """Work took longer than the last time."""


class Durations:
    """Processor time that work of each kind took the last time."""

    def __init__(self, most: int = KINDS) -> None:
        self._most = most
        self._seconds: OrderedDict[Hashable, float] = OrderedDict()
        self._lock = Lock()

    def is_short(self, kind: Hashable) -> bool:
        """Whether work of this kind was done before, and took less than ``LOOP_SECONDS`` the last time."""
        return self._seconds.get(kind, LOOP_SECONDS) < LOOP_SECONDS

    def done_shortly(self, kind: Hashable, work: Callable[[], Result]) -> Result:
        """Do work of a kind that was short, and end it at a checkpoint once it takes twice as long as that.

        Raises:
            LongerThanBefore: it was ended. What it had stored until then is found when it is done again.
        """
        end = thread_time() + 2 * LOOP_SECONDS

        def check() -> None:
            if thread_time() > end:
                raise LongerThanBefore

        with checked_by(check):
            return self.measured(kind, work)

    def measured(self, kind: Hashable, work: Callable[[], Result]) -> Result:
        """Do work, and remember how long it took."""
        started = thread_time()
        try:
            return work()
        finally:
            seconds = thread_time() - started
            with self._lock:
                self._seconds[kind] = seconds
                self._seconds.move_to_end(kind)
                if len(self._seconds) > self._most:
                    self._seconds.popitem(last=False)
