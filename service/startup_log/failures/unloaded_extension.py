"""Finds a compiled extension that was not loaded, in a text that says nothing more of the start."""

from collections.abc import Sequence
from typing import Final

from service.startup_log.catalogue.known_words import known_words
from service.startup_log.failures.logged_failure import Failure, of_known
from service.startup_log.text.lines import LogLine

_NOT_IMPORTED: Final = "Failed to import from vllm._C"
"""vLLM 0.4.3 to 0.33.0, _custom_ops.py and platforms/: a warning, since some platforms have no extension."""
_OTHER_TORCH: Final = ("undefined symbol", "Symbol not found", "symbol lookup error")
"""What the dynamic linker says of a library that was built for another one; no platform does without that."""


def of_unloaded_extension(lines: Sequence[LogLine]) -> Failure | None:
    """Return the warning of an extension that does not fit, where the engine logs nothing below it.

    An engine that goes on shows by its own error what the missing extension stops.
    """
    logged = [line for line in lines if line.origin]
    last = logged[-1] if logged else None
    if last is None or _NOT_IMPORTED not in last.text or not any(map(last.text.__contains__, _OTHER_TORCH)):
        return None
    at = next(at for at, line in enumerate(lines) if line is last)
    found = next((each for each in known_words(lines, quiet=True) if each.at == at), None)
    return None if found is None else of_known(found, [found], {}, lines)
