"""What a text lacks to know why something failed: the lines to paste."""

from typing import Final

from service.startup_log.failures.left_of_tracebacks import OF_WAIT
from service.startup_log.failures.logged_failure import Failure, is_of_parent

LINES: Final = (
    "paste what the engine printed: its first lines (release, model, flags), and all lines from the first "
    "ERROR or Traceback on."
)
OF_START: Final = f"To be sure, {LINES}"
ABOVE: Final = (
    "The message follows from another one. Paste the lines above it, from the first ERROR or Traceback of "
    "EngineCore or a Worker on; `docker logs`, `journalctl -u` or `kubectl logs --previous` have them."
)
HIDDEN: Final = (
    "The engine could not raise {} again, so that the message of the true error is not in this line. "
    "Paste the lines above it, from the first ERROR or Traceback on."
)
BELOW: Final = (
    "The text ends within a traceback. Paste the lines below it too, down to the last line of the traceback, "
    "which names the error, and those that follow it."
)
OF_REQUEST: Final = (
    "To be sure, paste the command that starts the server, one request with its answer, and the lines that "
    "the server logged meanwhile."
)


OF_ENGINE: Final = (
    "These calls are those of the server, which waits for the engine and ends with it. Paste the lines above "
    "them, from the first ERROR or Traceback of EngineCore or a Worker on; `docker logs`, `journalctl -u` or "
    "`kubectl logs --previous` have them."
)


def wanted_lines(failure: Failure) -> str:
    """Return which lines would tell the cause; empty where the text holds the engine's own words of it."""
    if failure.hidden:
        return HIDDEN.format(failure.hidden)
    if failure.origin.part == OF_WAIT:
        return OF_ENGINE
    if failure.paraphrased and failure.cut:
        return BELOW
    if failure.paraphrased:
        return OF_REQUEST if failure.refused else OF_START
    if failure.cut and not (failure.cause is None and is_of_parent(failure.message)):
        return BELOW
    return ABOVE if failure.cause is None and failure.follows else ""
