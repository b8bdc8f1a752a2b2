"""The service in processes of its own, and what they take of the machine."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bench.server import OFFLINE, PATIENCE_SECONDS, free_port, wait_until_ready

IDLE_SECONDS = 0.5
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Served:
    """A running service."""

    port: int
    pid: int

    def _pids(self) -> list[int]:
        """Return the process and its children."""
        found = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [self.pid, *map(int, found)]

    def memory(self, name: str = "VmRSS") -> int:
        """Return bytes of resident memory of all processes; ``VmHWM``: the most that each ever had."""
        total = 0
        for pid in self._pids():
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            total += next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{name}:"))
        return total

    def processor_seconds(self) -> float:
        """Return the processor time of all processes."""
        return sum(self.processor_seconds_of_each())

    def processor_seconds_of_each(self) -> list[float]:
        """Return the processor time of each process, that which started the others first."""
        stats = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self._pids())
        return [(int(stat[11]) + int(stat[12])) / TICKS_PER_SECOND for stat in stats]

    def wait_until_idle(self) -> None:
        """Return once no process has used processor time for a while.

        The first of several processes answers while others still start: connections that are opened by then
        all go to it, and stay there.

        Raises:
            TimeoutError: they were never idle in time.
        """
        end = time.monotonic() + PATIENCE_SECONDS
        before = self.processor_seconds_of_each()
        while time.monotonic() < end:
            time.sleep(IDLE_SECONDS)
            now = self.processor_seconds_of_each()
            if now == before:
                return
            before = now
        raise TimeoutError(f"the processes were not idle within {PATIENCE_SECONDS} s")


@contextmanager
def served(*options: str, **settings: str) -> Iterator[Served]:
    """Start the service on a free port, and stop it afterwards.

    Raises:
        TimeoutError: it was not ready in time.
    """
    port = free_port()
    environment = {**os.environ, **OFFLINE, "DRYSERVE_LOG_LEVEL": "error", **settings}
    command = [sys.executable, "-m", "service", "serve", "--port", str(port), *options]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:  # noqa: S603 - our own
        try:
            wait_until_ready(port)
            yield Served(port, process.pid)
        finally:
            process.terminate()
