"""Full garbage collections at quiet moments.

A full collection visits every object of the process while all threads stand still: 0.1 to 0.3 s once plans of
many models are cached, which every request in progress waits for. Plans hold no cycles, so reference counts
free nearly everything, and full collections wait. The plan of one candidate makes thousands of objects and
frees them again; the youngest generation is so large that it is not collected in the middle of that.
"""

import asyncio
import gc
import sys
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Final

NEVER: Final = 1_000_000_000
YOUNG: Final = 10_000
"""Containers made and not yet freed, by which the youngest generation is collected; some 2 MB."""
MIDDLE: Final = 1
"""Collections of the youngest generation before one of the middle generation too.

It visits all that was made since its last one and still lives, once. The largest answers are a million
containers: 200,000 of them (the 10 of CPython) take 60 to 90 ms, 60,000 take 20 ms. A plan of 8,000 changed
configs waited up to 65 ms for it on a busy machine with 60,000, up to 28 ms with 20,000; all together waited
no longer.
"""
LOOK_SECONDS: Final = 5.0
"""Time between two looks for a quiet moment."""
QUIET_SECONDS: Final = 60.0
"""Least time between two full collections at quiet moments."""
LONGEST_SECONDS: Final = 900.0
"""Time after which a full collection is made although requests are in progress."""


def postpone_full_collections() -> None:
    """Take what is loaded by now out of garbage collection, since it stays, and start no full collections.

    Loading leaves hardly any garbage: a search for it takes 0.1 s and finds 1 MiB.
    """
    gc.freeze()
    gc.enable()
    if sys.version_info < (3, 14):  # later ones collect in small steps
        gc.set_threshold(YOUNG, MIDDLE, NEVER)


class QuietCollections:
    """Makes full collections while no request is in progress."""

    def __init__(self, is_quiet: Callable[[], bool], clock: Callable[[], float] = monotonic) -> None:
        self._is_quiet = is_quiet
        self._clock = clock
        self._last = clock()

    def look(self) -> bool:
        """Make a full collection if one is due; return whether it was made."""
        since = self._clock() - self._last
        if since < QUIET_SECONDS or (since < LONGEST_SECONDS and not self._is_quiet()):
            return False
        gc.collect()
        _return_free_memory()
        self._last = self._clock()
        return True

    async def run(self) -> None:
        """Look for quiet moments until this is cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()


def _return_free_memory() -> None:
    """Give memory back to the system that the C library has freed between what is in use.

    It keeps such pages: a tenth of the process after a minute of many questions.
    """
    from ctypes import CDLL  # noqa: PLC0415 - a start has no time for it

    with suppress(OSError, AttributeError):  # only glibc has this
        CDLL(None).malloc_trim(0)
