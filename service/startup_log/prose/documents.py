"""Says whether a text is a document about an engine, and no report of a failure."""

import re
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
_MENDS: Final = re.compile(
    r"(?i)\b(?:every|all|common|frequent|top|complete|ultimate) (?:[\w-]{1,20} ){0,3}"
    r"(?:fix|fixes|causes|errors|mistakes)\b|"
    r"\bhow to (?:[a-z]{1,12} (?:and|or|&) )?(?:fix|debug|troubleshoot|solve|diagnose|avoid|resolve)\b|"
    r"\b(?:guide|troubleshooting|playbook|runbook|cheat ?sheet|pitfalls|explained)\b"
)
_SEVERAL: Final = re.compile(r"(?i)\b(?:errors|failures|problems|issues|crashes|pitfalls|mistakes|hangs)\b")
"""What the title of a guide says: that it tells how to mend failures, and that these are several."""
_OWN: Final = re.compile(
    r"(?i)\b(?:i|we)(?:'ve|'m|'re)? (?:[a-z]{1,12} ){0,2}"
    r"(?:get|got|getting|hit|face|facing|see|saw|encounter\w{0,3}|"
    r"ran into|run into|am|are having|have (?:the|an|this|a problem))\b|"
    r"\b(?:my|our) (?:vllm|server|engine|start|log)"
)
"""What a person says of a failure of their own."""


def is_guide(lines: Sequence[LogLine]) -> bool:
    """Whether a text tells how to mend failures in general: by its title, and without one of its own."""
    filled = [line for line in lines if line.text]
    title = next((line.text for line in filled), "")
    if title.startswith(("[", "# [")) or not (_MENDS.search(title) and _SEVERAL.search(title)):
        return False
    return len(filled) > 1 and not any(_is_printed(line) or _OWN.search(line.text) for line in filled)


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
