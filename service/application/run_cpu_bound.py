"""Runs short CPU-bound work beside the event loop.

The threads of one interpreter share one processor's time: the more of them work, the longer the event loop
waits. So one thread does this work, one piece at a time.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from anyio import CapacityLimiter, to_thread

Result = TypeVar("Result")

_ONE_AT_A_TIME: Final = CapacityLimiter(1)


async def run_cpu_bound(work: Callable[[], Result]) -> Result:
    """Run short CPU-bound work in a thread, one at a time, and return its result."""
    return await to_thread.run_sync(work, limiter=_ONE_AT_A_TIME)
