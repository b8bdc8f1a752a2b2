"""A worker whose jobs take their time, so that kills find it at work; all else of it is the real one."""

import asyncio
import random
import signal
import sys
from pathlib import Path
from typing import Any

import httpx2

from service.logs import configure_logs
from service.worker.devices import HostMemory
from service.worker.loop import Worker
from service.worker.node import Node
from service.worker.probe_run import ProbeRun
from service.worker.service_client import ServiceClient

LONGEST_SECONDS = 0.6


class SlowRun(ProbeRun):
    """Waits before it says what it found."""

    async def result(self) -> dict[str, Any]:
        await asyncio.sleep(random.uniform(0, LONGEST_SECONDS))
        return await super().result()


async def main(server: str, token: str, name: str, state: Path) -> None:
    """Work until told to stop."""
    configure_logs("info")
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(base_url=server, headers=headers) as http:
        node = Node(name, state, Path(sys.executable))
        worker = Worker(node, HostMemory(), ServiceClient(http, name), SlowRun)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        await worker.work()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]).read_text(), sys.argv[3], Path(sys.argv[4])))
