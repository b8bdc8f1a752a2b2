"""Tells that another process of the engine went away, where the text shows only what follows from that."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from service.startup_log.catalogue.phrases import CAUSES
from service.startup_log.catalogue.whole_messages import MAX_MESSAGE
from service.startup_log.failures.logged_failure import OF_PARENT, Failure
from service.startup_log.text.lines import LogLine

_WORDS: Final = ("Did the remote server shutdown or crash?", "TCPStore server has shut down too early")
"""PyTorch 2.9, c10d/TCPStore.cpp and ProcessGroupNCCL.cpp: warnings of a rank, which an engine that ends in
order writes too."""
_LOST: Final = next(cause for cause in CAUSES if cause.name == "rank_lost")
_SILENT: Final = next(cause for cause in CAUSES if cause.name == "worker_ended_without_a_word")
_BEGUN: Final = "Initializing a V1 LLM engine (v"
"""What the engine's core logs before it starts its workers."""
_LOADS: Final = "Starting to load model"
"""What a worker logs when it has its device."""
_FAILED: Final = ("WorkerProc ", "Error executing method")
"""What a worker logs above an exception."""


def of_lost_peer(lines: Sequence[LogLine]) -> Failure | None:
    """Return a connection that was lost; ``None`` where the engine's own lines say how it went on."""
    if any(line.origin for line in lines):
        return None
    lost = next((line for line in lines if any(map(line.text.__contains__, _WORDS))), None)
    if lost is None:
        return None
    return Failure("", lost.text[:MAX_MESSAGE], lost.number, _LOST, {}, serving=True)


def of_silent_worker(failure: Failure, lines: Sequence[LogLine]) -> Failure | None:
    """Return the end of a worker of which the whole log of a start has no exception; ``None`` for others."""
    if not failure.follows or OF_PARENT[0] not in failure.message:
        return None
    above = [line for line in lines if line.number < failure.line and line.text]
    begun = next((at for at, line in enumerate(above) if line.text.startswith(_BEGUN)), None)
    loads = begun is not None and any(line.text.startswith(_LOADS) for line in above[begun:])
    logged = any(line.level == "ERROR" and line.text.startswith(_FAILED) for line in above)
    return replace(failure, cause=_SILENT) if loads and not logged else None
