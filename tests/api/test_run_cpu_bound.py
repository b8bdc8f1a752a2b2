"""Work that is CPU-bound runs beside the event loop, one piece at a time, and as part of its request."""

import asyncio
import threading
import time
from contextvars import ContextVar

import pytest

from service.application.run_cpu_bound import run_cpu_bound

REQUEST: ContextVar[str] = ContextVar("REQUEST", default="none")


async def test_the_event_loop_runs_meanwhile() -> None:
    released = threading.Event()
    work = asyncio.ensure_future(run_cpu_bound(lambda: released.wait(10)))
    await asyncio.sleep(0.01)
    assert not work.done()
    released.set()
    assert await work


async def test_one_piece_runs_at_a_time() -> None:
    running, most = 0, 0

    def piece() -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        time.sleep(0.01)
        running -= 1
        return threading.get_ident()

    threads = await asyncio.gather(*(run_cpu_bound(piece) for _ in range(5)))
    assert most == 1
    assert threading.get_ident() not in threads


async def test_work_sees_the_context_of_its_request_and_its_error_reaches_it() -> None:
    REQUEST.set("mine")
    assert await run_cpu_bound(REQUEST.get) == "mine"
    with pytest.raises(ZeroDivisionError):
        await run_cpu_bound(lambda: 1 // 0)
