"""Reads what pytest prints of a test that failed: its calls, and the summary of all tests."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from service.startup_log.text.lines import LogLine

ERROR_MARK: Final = "E  "
"""Beginning of the lines in which pytest prints an exception: _pytest/_code/code.py get_exconly."""
MOST_BELOW: Final = 12
"""Lines below an exception in which the place stands that raised it."""
MOST_ABOVE: Final = 160
"""Lines above it in which the head of its function stands: pytest prints the function's source."""
_CALL: Final = re.compile(r"^(/?[\w./-]{3,300}\.py):[0-9]{1,7}:(?: in ([\w<>.]{1,120}))? ?$")
_PLACE: Final = re.compile(r"^(/?[\w./-]{3,300}\.py):[0-9]{1,7}: [A-Z]\w{2,80}$")
_HEAD: Final = re.compile(r"^\s{0,40}(?:async )?def (\w{1,120})\(")
_SUMMARY: Final = re.compile(r"(?:^|\s)(?:FAILED|ERROR) ([\w./-]{1,300}\.py)::(\w{1,120})")


def call_of(text: str) -> tuple[str, str] | None:
    """Return the path and the function of a call, in pytest's short form."""
    found = _CALL.match(text) if ".py:" in text else None
    return None if found is None else (found[1], found[2] or "")


def place_below(at: int, lines: Sequence[LogLine]) -> tuple[str, str] | None:
    """Return the path and the function in which an exception was raised that pytest prints.

    Of a line of its summary that is the test itself, whose name stands for its file where that is cut off.
    """
    if at >= len(lines):
        return None
    if (summary := _SUMMARY.search(lines[at].text[:400])) is not None:
        return summary[1], summary[2]
    if not lines[at].text.startswith(ERROR_MARK):
        return None
    below = (_PLACE.match(line.text) for line in lines[at + 1 : at + 1 + MOST_BELOW])
    place = next(filter(None, below), None)
    function = _function_above(at, lines)
    if place is None:
        return (function, function) if tests_own(function) else None
    return place[1], function


def _function_above(at: int, lines: Sequence[LogLine]) -> str:
    for each in range(at - 1, max(0, at - MOST_ABOVE) - 1, -1):
        if (head := _HEAD.match(lines[each].text)) is not None:
            return head[1]
        if call_of(lines[each].text) is not None:
            break
    return ""


def repeated_in_summary(raised: Iterable[int], lines: Sequence[LogLine]) -> set[int]:
    """Return the positions of exceptions in the summary, where the text has a report above or below it."""
    at = list(raised)
    summary = {each for each in at if _SUMMARY.search(lines[each].text[:400]) is not None}
    return summary if len(summary) < len(at) else set()


def tests_own(path: str) -> bool:
    """Whether a file holds tests, by pytest's own rule: test_*.py or *_test.py."""
    name = path.rpartition("/")[2]
    return name.startswith("test_") or name.endswith("_test.py")
