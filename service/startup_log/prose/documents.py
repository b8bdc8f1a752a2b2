"""Says whether a text is a document about an engine, and no report of a failure."""

from collections.abc import Sequence
from typing import Final

from service.startup_log.errors.exceptions import raises
from service.startup_log.errors.tracebacks import HEADER, frame_of
from service.startup_log.prose.complaints import FAILING, is_about_failure
from service.startup_log.text.lines import LogLine

LEAST_LINES: Final = 60
"""Lines of a document; what people write of a failure is mostly shorter, or quotes the program."""
LEAST_HEADINGS: Final = 4
"""Headings of a document in Markdown."""
_ERROR: Final = (
    ": error:",
    "error: ",
    "Error: ",
    "Exception: ",
    "fatal:",
    "Killed",
    "core dumped",
    "Segmentation fault",
)
"""What programs print of a failure."""


def is_document(lines: Sequence[LogLine]) -> bool:
    """Whether a text is a long document whose title names no failure, and in which no program printed one."""
    filled = [line for line in lines if line.text]
    if len(filled) < LEAST_LINES:
        return False
    headings = [
        line for line in filled if line.text.startswith("#") and line.text.lstrip("#").startswith(" ")
    ]
    if len(headings) < LEAST_HEADINGS or any(map(is_about_failure, headings)) or is_about_failure(filled[0]):
        return False
    return not any(map(_is_printed, filled))


def _is_printed(line: LogLine) -> bool:
    """Whether a program printed a line of a failure."""
    if line.level in FAILING or HEADER in line.text or line.text.startswith(_ERROR) or raises(line.text):
        return True
    return frame_of(line) is not None
