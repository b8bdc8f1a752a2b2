"""Supervision of one piece of work while a thread does it."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

from service.api.errors import CallerLeft, TimeLimitReached
from service.checkpoints import checked_by

Result = TypeVar("Result")

LOOK_SECONDS: Final = 0.001
"""Time between two looks at the processor time that was used, which takes longer than other checks."""
PAUSE_SECONDS: Final = 0.002
"""Time after which a pause for more urgent work is looked at again."""


class Supervision:
    """Ends work whose caller has left or whose time is over, and stops it while more urgent work runs.

    Work notices this at its checkpoints. It is stopped for as long as it has run itself at most, so that it
    takes at most twice its time however much urgent work there is.
    """

    def __init__(self, limit_seconds: float, has_urgent_work: Callable[[], bool]) -> None:
        """``limit_seconds``: processor time that the work may take."""
        self._limit = limit_seconds
        self._has_urgent_work = has_urgent_work
        self._left = False
        self._started = self._paused = self._next_look = 0.0

    def leave(self) -> None:
        """Note that nobody waits for the result any more."""
        self._left = True

    def run(self, work: Callable[[], Result]) -> Result:
        """Do the work in this thread.

        Raises:
            CallerLeft: nobody waits for the result any more.
            TimeLimitReached: the work took longer than it may.
        """
        self._started = time.thread_time()
        with checked_by(self.check):
            return work()

    def check(self) -> None:
        """Do what a checkpoint is for.

        Raises:
            CallerLeft, TimeLimitReached: as for ``run``.
        """
        if not self._left and time.monotonic() < self._next_look:
            return
        self._look()
        self._next_look = time.monotonic() + LOOK_SECONDS

    def _look(self) -> None:
        while True:
            if self._left:
                raise CallerLeft
            used = time.thread_time() - self._started
            if used > self._limit:
                raise TimeLimitReached(self._limit)
            if self._paused >= used or not self._has_urgent_work():
                return
            before = time.monotonic()
            time.sleep(PAUSE_SECONDS)
            self._paused += time.monotonic() - before
