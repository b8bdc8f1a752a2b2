"""Runs short CPU-bound work beside the event loop.

The threads of one interpreter share one processor's time: the more of them work, the longer the event loop
waits. So one thread does this work, one piece at a time.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio import CapacityLimiter

Result = TypeVar("Result")


async def run_cpu_bound(work: Callable[[], Result]) -> Result:
    """Run short CPU-bound work in a thread, one at a time, and return its result."""
    from anyio import to_thread  # noqa: PLC0415 - most commands have no such work, and the import is slow

    return await to_thread.run_sync(work, limiter=_one_at_a_time())


@cache
def _one_at_a_time() -> CapacityLimiter:
    from anyio import CapacityLimiter  # noqa: PLC0415 - as above

    return CapacityLimiter(1)
