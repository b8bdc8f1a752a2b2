"""Finds the whole of a message that a line holds in part."""

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from service.startup_log.catalogue.known_words import KnownWords
from service.startup_log.errors.tracebacks import CHAINED, HEADER, frame_of
from service.startup_log.text.lines import LogLine

FENCES: Final = ("```", "~~~")
"""Beginnings of the lines around a block of Markdown."""
BANNERS: Final = ("-----", "=====", "*****", "#####")
"""Beginnings of lines that a script writes between two parts of what it prints."""
MAX_MESSAGE: Final = 2000
"""Characters of the engine's message that are returned."""
_HEADINGS: Final = ("validation error", "(Request ID: ")
"""Headings of errors of Pydantic and of the Hub; the message itself is on the next lines."""
_BELOW: Final = 3
"""Lines after the heading that are read."""
END_OF_TITLE: Final = 40
"""Characters at the end of a title by which the message that it quotes is found."""


def position_of_whole(root: KnownWords, same: Sequence[KnownWords], lines: Sequence[LogLine]) -> int:
    """Return the position of the whole message whose beginning a title quotes, else that of the root."""
    end = lines[root.at].text.rstrip("`'\". ")[-END_OF_TITLE:]
    longer = (each.at for each in same if len(lines[each.at].text) > len(lines[root.at].text))
    return next((at for at in longer if end and end in lines[at].text), root.at)


def full_message(message: str, lines: Sequence[LogLine], at: int) -> str:
    """Return the message of an exception, with the lines below one that only heads it."""
    if not message.endswith(":") and not any(map(message.__contains__, _HEADINGS)):
        return f"{message}{_rest(message, lines, at)}"[:MAX_MESSAGE]
    filled = [line for line in lines[at + 1 : at + 1 + _BELOW] if line.text]
    below = [line.text for line in takewhile(_goes_on, filled)]
    more = takewhile(lambda text: not _VERSION.match(text), below[1:])
    return " ".join([message, *below[:1], *more])[:MAX_MESSAGE]


_WORD: Final = re.compile(
    r"(?!(?:vllm|sglang|python3?|pip3?|docker|podman|kubectl|uv|curl|export|nvidia|cuda|torch|transformers|ray)\b)"
    r"(?:[a-z]{1,24}[,;.)]?(?:\s|$)|[a-z]{2,12}[A-Z]\w{2,40}Error: )"
)
"""A word of a sentence, and not the name of a program, a version, a path or a prompt."""


_VERSION: Final = re.compile(r"(?:cuda|torch|vllm|python|transformers|driver|os|gpu)[ =:]", re.IGNORECASE)
"""Beginning of a line in which a person lists what is installed."""


def continues(text: str) -> bool:
    """Whether a line goes on with a sentence that was wrapped above it: it begins with a small word."""
    return _WORD.match(text) is not None


def _rest(message: str, lines: Sequence[LogLine], at: int) -> str:
    """Return the end of a message that a person wrapped: a line that begins small."""
    if not message[-1:].isalnum() or lines[at].level or at + 1 >= len(lines):
        return ""
    below = lines[at + 1]
    if below.number == lines[at].number:
        # The next cell of one row.
        return ""
    begins = (continues(below.text) or below.text.startswith(("'", '"'))) and not (below.is_logged)
    return f" {below.text}" if begins and _goes_on(below) else ""


def _goes_on(line: LogLine) -> bool:
    """Whether a line can belong to the message above it: no traceback, no end of a block."""
    if line.text.startswith((*FENCES, *BANNERS)):
        return False
    return not any(words in line.text for words in (HEADER, *CHAINED)) and frame_of(line) is None
