"""Runs short CPU-bound work beside the event loop.

The threads of one interpreter share one processor's time: the more of them work, the longer the event loop
waits. So one thread does this work, one piece at a time.
"""

from asyncio import get_running_loop
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache
from typing import TypeVar

Result = TypeVar("Result")


async def run_cpu_bound(work: Callable[[], Result]) -> Result:
    """Run short CPU-bound work in a thread, one at a time, and return its result."""
    return await get_running_loop().run_in_executor(_thread(), copy_context().run, work)


@cache
def _thread() -> ThreadPoolExecutor:
    """Return the one thread. It is the standard library's: anyio is slow to import, and no plan needs it."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="cpu-bound")
