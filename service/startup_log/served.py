"""Tells whether an engine had started, from a piece of a log that does not hold its start."""

import re
from collections.abc import Sequence
from typing import Final

from service.startup_log.catalogue.origins import OF_ENGINE, WARM_UP
from service.startup_log.catalogue.phrases import PRINTED, SERVED, SERVING_CALLS
from service.startup_log.errors.exceptions import raises
from service.startup_log.errors.tracebacks import HEADER, Frame, frame_of
from service.startup_log.failures.logged_failure import is_of_request
from service.startup_log.text.lines import LogLine

_PRINTED: Final = re.compile(r"[A-Z]\w{1,60}(?:Error|Exception)\(")
_AT_REQUESTS: Final = re.compile(
    r"(?i)\b(?:crash\w*|dies|died|fails?|failed|errors?|hangs?|stuck|killed|exception)\b[^.]{0,40}"
    r"\b(?:when|while|after|upon|on|once|as soon as)\b[^.]{0,30}"
    r"\b(?:send(?:ing)?|sent|process(?:ing)?|handl(?:e|ing)|receiv(?:e|es|ing)|first|second|many|"
    r"concurrent|\d+) "
    r"(?:\w+ ){0,3}requests?\b|"
    r"\b(?:as soon as|when|once|after) (?:i|we|you|it) (?:send|sent|receives?|process(?:es)?) "
    r"[^.]{0,40}\brequests?\b[^.]{0,30}"
    r"\b(?:crash\w*|dies|died|fails?|failed|hangs?)\b|"
    r"\b(?:crash\w*|dies|died|fails?|failed|hard-resets?|resets?|reboots?|killed)\b[^.]{0,40}"
    r"\b(?:during|while) [^.]{0,40}\b(?:prefill|decode|benchmark)\b|"
    r"\u53d1\u9001[^\u3002]{0,30}\u8bf7\u6c42[^\u3002]{0,8}(?:\u5d29\u6e83|\u62a5\u9519|\u5931\u8d25|\u6302)"
)
"""What a person says of an engine that starts and fails at a request."""
_OF_WORK: Final = ("equest", "\u8bf7\u6c42", "during ", "while ")
UNSTARTED: Final = frozenset({"loading", "profiling"})
"""Milestones after which messages of requests are those of another run."""


def had_started(lines: Sequence[LogLine], milestone: str) -> bool:
    """Whether the lines show requests of an engine, or a call that only an engine makes which has started."""
    text = "\n".join(line.text for line in lines)
    if milestone not in UNSTARTED and any(map(text.__contains__, SERVED)):
        return True
    if any(line.level == "ERROR" and (is_of_request(line) or _is_printed(line)) for line in lines):
        return True
    if milestone not in UNSTARTED and any(_is_at_request(line) for line in lines):
        return True
    return _has_serving_calls(lines)


def _has_serving_calls(lines: Sequence[LogLine]) -> bool:
    """Whether a traceback has a call that only a running engine makes; a warm-up makes some of them too."""
    warms_up = False
    for line in lines:
        if HEADER in line.text:
            warms_up = False
        if (frame := frame_of(line)) is None:
            continue
        warms_up = warms_up or (OF_ENGINE in f"/{frame.path}" and frame.function in WARM_UP)
        if not warms_up and _is_serving_call(frame):
            return True
    return False


def _is_at_request(line: LogLine) -> bool:
    said = line.origin is None and not line.level and any(map(line.text.__contains__, _OF_WORK))
    return said and not raises(line.text) and _AT_REQUESTS.search(line.text) is not None


def _is_printed(line: LogLine) -> bool:
    """Whether a line is an exception in Python's own form, of a file that prints one only then."""
    return line.origin is not None and line.origin[0] in PRINTED and _PRINTED.match(line.text) is not None


def _is_serving_call(frame: Frame) -> bool:
    return any(
        frame.path.endswith(file) and frame.function in functions for file, functions in SERVING_CALLS.items()
    )
