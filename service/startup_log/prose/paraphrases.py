"""Reads a person's description of a failure: the memory that is needed and the memory that is left."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from service.startup_log.text.lines import LogLine

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
