"""Finds errors of which a person says that they were mended, in a text that tells of several."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from service.startup_log.errors.tracebacks import frames_above
from service.startup_log.text.lines import LogLine

NEAR: Final = 4
"""Lines with words below an error in which it is said."""
_MENDED: Final = re.compile(
    r"(?i)\b(?:fixed|solved|resolved|worked around|gone)\b|\u5df2\u89e3\u51b3|\u89e3\u51b3\u4e86"
)
_RUNS: Final = re.compile(
    r"(?i)\bsuccessfully (?:launch|start|load|run|serv)|\b(?:launch|start|load|run)\w{0,5} successfully\b"
)
_RUNS_ELSEWHERE: Final = re.compile(
    r"(?i)\b(?:another|other|others|older|previous|previously|earlier|before|same|without)\b|\bv?\d{1,3}\.\d"
)
"""What shows that another release, machine or model runs."""
_DENIED: Final = re.compile(
    r"(?i)(?:\bnot|n't|\bnever|\bto be|\bcan be|\bshould be|\bwill be|\bget|\bbe|\bhow|\bwas) "
    r"(?:\w+ ){0,2}(?:fixed|solved|resolved)|(?:fixed|solved|resolved) (?:in|by|yet|\?)|"
    r"\b(?:insufficient|not enough|not sufficient|did not help|no longer enough|still)\b"
)
"""What shows that it was not, or that a release is named."""


def mended(errors: Iterable[int], lines: Sequence[LogLine]) -> set[int]:
    """Return the positions of errors that were mended; none if nothing else failed.

    In a log nobody says so: only errors count that a person quotes without their calls.
    """
    text = "\n".join(line.text for line in lines)
    if _MENDED.search(text) is None and _RUNS.search(text) is None:
        return set()
    at = sorted(errors)
    found = {each for each in at if _is_mended(each, lines)}
    return found if len(found) < len(at) else set()


def _is_mended(at: int, lines: Sequence[LogLine]) -> bool:
    if not _is_reported(lines[at]):
        return False
    below = [line for line in lines[at + 1 : at + 1 + 2 * NEAR] if line.text][:NEAR]
    said = any(_is_reported(line) and _says(line.text) for line in below)
    return said and not frames_above(at, lines)


def _is_reported(line: LogLine) -> bool:
    return not line.is_logged


def _says(text: str) -> bool:
    runs = _RUNS.search(text) is not None and _RUNS_ELSEWHERE.search(text) is None
    return (runs or _MENDED.search(text) is not None) and _DENIED.search(text) is None
