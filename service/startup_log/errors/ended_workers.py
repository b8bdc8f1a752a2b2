"""Finds the tracebacks of workers that the engine ends, after one of them was lost."""

from collections.abc import Sequence
from typing import Final

from service.startup_log.text.lines import LogLine

_SENT: Final = ("[shutdown] Executor: ", "; sending SIGTERM")
_OF_WORKERS: Final = "multiproc_executor.py"
"""vLLM 0.23.0 to 0.33.0, v1/executor/multiproc_executor.py _ensure_worker_termination and worker_main: a
worker that gets the signal in a call of a library raises whatever this call makes of it."""


def ended_with_engine(lines: Sequence[LogLine]) -> set[int]:
    """Return the positions of what workers log as errors below the line with which the engine ends them."""
    sent = next((at for at, line in enumerate(lines) if all(map(line.text.__contains__, _SENT))), None)
    if sent is None:
        return set()
    return {at for at in range(sent, len(lines)) if _is_of_worker(lines[at])}


def _is_of_worker(line: LogLine) -> bool:
    return line.level == "ERROR" and line.origin is not None and line.origin[0].endswith(_OF_WORKERS)
