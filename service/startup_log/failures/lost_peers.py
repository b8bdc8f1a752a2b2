"""Tells that another process of the engine went away, of a text with nothing but the lost connection."""

from collections.abc import Sequence
from typing import Final

from service.startup_log.catalogue.phrases import CAUSES
from service.startup_log.catalogue.whole_messages import MAX_MESSAGE
from service.startup_log.failures.logged_failure import Failure
from service.startup_log.text.lines import LogLine

_WORDS: Final = ("Did the remote server shutdown or crash?", "TCPStore server has shut down too early")
"""PyTorch 2.9, c10d/TCPStore.cpp and ProcessGroupNCCL.cpp: warnings of a rank, which an engine that ends in
order writes too."""
_LOST: Final = next(cause for cause in CAUSES if cause.name == "rank_lost")


def of_lost_peer(lines: Sequence[LogLine]) -> Failure | None:
    """Return a connection that was lost; ``None`` where the engine's own lines say how it went on."""
    if any(line.origin for line in lines):
        return None
    lost = next((line for line in lines if any(map(line.text.__contains__, _WORDS))), None)
    if lost is None:
        return None
    return Failure("", lost.text[:MAX_MESSAGE], lost.number, _LOST, {}, serving=True)
