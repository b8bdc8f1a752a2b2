"""Finds the tracebacks of processes and threads that the end of the engine ends too."""

from collections.abc import Sequence
from typing import Final

from service.startup_log.errors.exceptions import raises
from service.startup_log.text.lines import LogLine

_SENT: Final = ("[shutdown] Executor: ", "; sending SIGTERM")
_OF_WORKERS: Final = "multiproc_executor.py"
"""vLLM 0.23.0 to 0.33.0, v1/executor/multiproc_executor.py _ensure_worker_termination and worker_main: a
worker that gets the signal in a call of a library raises whatever this call makes of it."""
_LOST: Final = ("Engine core proc ", " died unexpectedly")
_MONITOR: Final = "Exception in thread MPClientEngineMonitor"
"""vLLM 0.19.0 to 0.33.0, v1/engine/core_client.py start_engine_core_monitor: the thread that sees the end of
the engine's core closes the client's sockets, and pyzmq asks for an event loop that no thread but the
server's has."""
_DONE: Final = "Shutdown complete"
_OF_CORE: Final = "core.py"
"""vLLM 0.20.2 to 0.33.0, v1/engine/core.py: a core that was asked to end, with no work left. The client may
see the end of its process before it has closed it itself."""


def ended_with_engine(lines: Sequence[LogLine]) -> set[int]:
    """Return the positions of what is logged as errors only because the engine ended."""
    return _of_ended_workers(lines) | _of_monitor(lines) | _of_finished_core(lines)


def _of_monitor(lines: Sequence[LogLine]) -> set[int]:
    """Return the positions of the traceback of the thread that saw the end of the engine's core."""
    lost = next((at for at, line in enumerate(lines) if _is_lost(line)), len(lines))
    begins = next((at for at in range(lost, len(lines)) if _MONITOR in lines[at].text), len(lines))
    ends = next((at for at in range(begins + 1, len(lines)) if raises(lines[at].text)), len(lines) - 1)
    return set(range(begins, ends + 1))


def _is_lost(line: LogLine) -> bool:
    return all(map(line.text.__contains__, _LOST))


def _of_finished_core(lines: Sequence[LogLine]) -> set[int]:
    """Return the positions of reports that the core died, below the line with which it ended by itself."""
    done = next((at for at, line in enumerate(lines) if _is_done(line)), len(lines))
    return {at for at in range(done, len(lines)) if _is_lost(lines[at])}


def _is_done(line: LogLine) -> bool:
    return line.text == _DONE and line.origin is not None and line.origin[0].endswith(_OF_CORE)


def _of_ended_workers(lines: Sequence[LogLine]) -> set[int]:
    """Return the positions of what workers log as errors below the line with which the engine ends them."""
    sent = next((at for at, line in enumerate(lines) if all(map(line.text.__contains__, _SENT))), None)
    if sent is None:
        return set()
    return {at for at in range(sent, len(lines)) if _is_of_worker(lines[at])}


def _is_of_worker(line: LogLine) -> bool:
    return line.level == "ERROR" and line.origin is not None and line.origin[0].endswith(_OF_WORKERS)
