"""Work of the processor, beside the event loop and one after the other.

Threads of one interpreter run in turns: the more of them work, the longer the event loop waits for its own.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from anyio import CapacityLimiter, to_thread

Result = TypeVar("Result")

ONE: Final = CapacityLimiter(1)


async def run_cpu_bound(work: Callable[[], Result]) -> Result:
    """Return what short work comes to, done in a thread when it is its turn."""
    return await to_thread.run_sync(work, limiter=ONE)
