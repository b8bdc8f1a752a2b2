"""Reads a person's description of a failure: that it is one; the memory that is needed, and that is left."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from service.startup_log.lines import LogLine
from service.startup_log.phrases import FailureCause

_SIZE: Final = r"(\d{1,5}(?:\.\d{1,4})?)"
_UNIT: Final = r"(?: ?Gi?B)"
_NEED: Final = r"(?:needs?|needed|requires?|required)"
_LEFT: Final = r"(?:available|left|free)"
_NEEDED: Final = re.compile(
    rf"\b{_NEED} (?:about |~)?{_SIZE}(?:{_UNIT}|\b)|{_SIZE}{_UNIT} (?:[A-Za-z]{{1,12}} ){{0,2}}{_NEED}\b",
    re.IGNORECASE,
)
_AVAILABLE: Final = re.compile(
    rf"{_SIZE}{_UNIT} (?:[A-Za-z]{{1,12}} ){{0,2}}{_LEFT}\b|\b{_LEFT}:? (?:about |only |~)?{_SIZE}{_UNIT}",
    re.IGNORECASE,
)
_COMPLAINS: Final = re.compile(
    r"\b(?:oom|fail(?:s|ed|ing|ure)?|crash(?:es|ed|ing)?|hang(?:s|ing)?|stuck|freezes|blocked|unresponsive|"
    r"segfaults?|killed|faults?|wrong|broken|fatal|unable to|time[sd]? ?out|can(?:'t|not))\b|"
    r"error\b|\u62a5\u9519|\u5931\u8d25|\u5d29\u6e83|\u9519\u8bef|\u5361\u4f4f|\u5361\u6b7b|"
    r"\u30a8\u30e9\u30fc|\uc624\ub958|\uc5d0\ub7ec",
    re.IGNORECASE,
)
"""What shows that a person's sentence is about a failure, in English, Chinese, Japanese and Korean."""
_DENIES: Final = re.compile(
    r"\b(?:no|never|not|without)(?: an?| any)? "
    r"(?:oom|errors?|fail\w{0,5}|crash\w{0,4}|hang\w{0,4}|stuck|problems?)",
    re.IGNORECASE,
)
"""What shows that a person's sentence is about no failure."""
_OF_THE_CACHE: Final = re.compile(r"\bKV\b|max.?model.?len|gpu.?(?:memory.?)?util", re.IGNORECASE)


def paraphrased_shortage(lines: Sequence[LogLine]) -> tuple[LogLine, Mapping[str, float]] | None:
    """Return the first line that states a needed cache and less available memory, with both values in GiB."""
    for line in lines:
        if not _OF_THE_CACHE.search(line.text):
            continue
        needed, available = _first(_NEEDED, line.text), _first(_AVAILABLE, line.text)
        if needed is not None and available is not None and needed > available:
            return line, {"kv_needed_gib": needed, "available_kv_gib": available}
    return None


def _first(pattern: re.Pattern[str], text: str) -> float | None:
    found = pattern.search(text)
    return float(next(size for size in found.groups() if size)) if found else None


def is_complaint(line: LogLine, cause: FailureCause) -> bool:
    """Whether a person says in one sentence that something failed, and why."""
    if line.level or _DENIES.search(line.text):
        return False
    return _COMPLAINS.search(line.text) is not None and not any(words in line.text for words in cause.unless)
