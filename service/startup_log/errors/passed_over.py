"""Finds the tracebacks that the engine logs of what it then goes on without."""

from collections.abc import Sequence
from typing import Final

from service.startup_log.errors.exceptions import raises
from service.startup_log.errors.tracebacks import BELOW_A_CHAIN, CHAINED
from service.startup_log.text.lines import LogLine

HEADS: Final = (
    "Failed to collect processor kwargs",
    "Error saving model info cache.",
    "ST projector loading failed",
)
"""What the engine logs above such a traceback while it starts: vLLM 0.17.0 to 0.33.0,
transformers_utils/processor.py, model_executor/models/registry.py and adapters.py."""
IN_SITE: Final = ("Error in sitecustomize", "Error in usercustomize")
"""Python, Lib/site.py execsitecustomize: what another package or a user has Python run before the program."""
_IN_THREAD: Final = "Exception in thread "
_OF_USAGE: Final = "(_report_usage_worker)"
"""Python, threading.py excepthook; vLLM 0.8.5 to 0.33.0, usage/usage_lib.py: the thread that reports how the
engine is used."""


def passed_over(lines: Sequence[LogLine]) -> set[int]:
    """Return the positions of the tracebacks, with what heads them, below which the engine logged on."""
    heads = [at for at, line in enumerate(lines) if _heads(line)]
    if not heads:
        return set()
    last = max((at for at, line in enumerate(lines) if line.origin and line.level == "INFO"), default=-1)
    found: set[int] = set()
    for head in heads:
        end = head
        while head not in found and end < last and lines[end].origin == lines[head].origin:
            end += 1
            if lines[head].origin is None and _ends(end - 1, lines):
                break
        found.update(range(head, end))
    return found


def _heads(line: LogLine) -> bool:
    if line.text.startswith(_IN_THREAD):
        return _OF_USAGE in line.text
    return line.text.startswith(IN_SITE) or (line.origin is not None and line.text.startswith(HEADS))


def _ends(at: int, lines: Sequence[LogLine]) -> bool:
    """Whether a traceback ends in the exception on a line, below which no other one follows from it."""
    if not raises(lines[at].text):
        return False
    below = lines[at + 1 : at + 1 + BELOW_A_CHAIN]
    return not any(words in line.text for line in below for words in CHAINED)
