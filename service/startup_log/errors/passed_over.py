"""Finds the tracebacks that the engine logs of what it then goes on without."""

from collections.abc import Sequence
from typing import Final

from service.startup_log.text.lines import LogLine

HEADS: Final = (
    "Failed to collect processor kwargs",
    "Error saving model info cache.",
    "ST projector loading failed",
)
"""What the engine logs above such a traceback while it starts: vLLM 0.17.0 to 0.33.0,
transformers_utils/processor.py, model_executor/models/registry.py and adapters.py."""


def passed_over(lines: Sequence[LogLine]) -> set[int]:
    """Return the positions of the tracebacks, with what heads them, below which the engine logged on."""
    heads = [at for at, line in enumerate(lines) if line.origin and line.text.startswith(HEADS)]
    if not heads:
        return set()
    last = max((at for at, line in enumerate(lines) if line.origin and line.level == "INFO"), default=-1)
    found: set[int] = set()
    for head in heads:
        end = head
        while head not in found and end < last and lines[end].origin == lines[head].origin:
            end += 1
        found.update(range(head, end))
    return found
