"""Tells that another process of the engine went away, where the text shows only what follows from that."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from service.startup_log.catalogue.phrases import CAUSES, ENDS, SERVED, STOPS
from service.startup_log.catalogue.whole_messages import MAX_MESSAGE
from service.startup_log.failures.logged_failure import OF_PARENT, Failure
from service.startup_log.text.lines import LogLine

_WORDS: Final = ("Did the remote server shutdown or crash?", "TCPStore server has shut down too early")
"""PyTorch 2.9, c10d/TCPStore.cpp and ProcessGroupNCCL.cpp: warnings of a rank, which an engine that ends in
order writes too."""
_STORE: Final = re.compile(r"remote=\[(?:::ffff:)?([^\]\s]{1,253})\]:\d{1,5}")
"""PyTorch 2.9, c10d/socket.cpp SocketImpl: the address of the other side, where rank 0 keeps the store."""
_THIS_HOST: Final = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104 - read, not bound
_PARENT: Final = "Parent process exited"
"""vLLM 0.10.2 to 0.33.0, v1/executor/multiproc_executor.py: what a worker logs where its own engine ended."""
_LOST: Final = next(cause for cause in CAUSES if cause.name == "rank_lost")
_SILENT: Final = next(cause for cause in CAUSES if cause.name == "worker_ended_without_a_word")
_BEGUN: Final = "Initializing a V1 LLM engine (v"
"""What the engine's core logs before it starts its workers."""
_LOADS: Final = "Starting to load model"
"""What a worker logs when it has its device."""
_FAILED: Final = ("WorkerProc ", "Error executing method")
"""What a worker logs above an exception."""


def of_lost_peer(lines: Sequence[LogLine]) -> Failure | None:
    """Return a connection that was lost; ``None`` where the engine's own lines say how it went on.

    They do not where they end above it, and its store is that of another host.
    """
    lost = next((at for at, line in enumerate(lines) if any(map(line.text.__contains__, _WORDS))), None)
    if lost is None:
        return None
    engine_s = [at for at, line in enumerate(lines) if line.origin]
    if engine_s and (engine_s[-1] > lost or _ended_here(lines, lines[lost].text)):
        return None
    serving = not engine_s or any(words in line.text for line in lines for words in SERVED)
    return Failure("", lines[lost].text[:MAX_MESSAGE], lines[lost].number, _LOST, {}, serving=serving)


def _ended_here(lines: Sequence[LogLine], lost: str) -> bool:
    """Whether the store of the ranks is of this host, or the text says that the engine was asked to stop."""
    store = _STORE.search(lost)
    if store is None or store[1] in _THIS_HOST:
        return True
    return any(words in line.text for line in lines for words in (*STOPS, *ENDS, _PARENT))


def of_silent_worker(failure: Failure, lines: Sequence[LogLine]) -> Failure | None:
    """Return the end of a worker of which the whole log of a start has no exception; ``None`` for others."""
    if not failure.follows or OF_PARENT[0] not in failure.message:
        return None
    above = [line for line in lines if line.number < failure.line and line.text]
    begun = next((at for at, line in enumerate(above) if line.text.startswith(_BEGUN)), None)
    loads = begun is not None and any(line.text.startswith(_LOADS) for line in above[begun:])
    logged = any(line.level == "ERROR" and line.text.startswith(_FAILED) for line in above)
    return replace(failure, cause=_SILENT) if loads and not logged else None
