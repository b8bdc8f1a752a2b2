"""Takes the marks of a comment from the lines of a note that a person wrote into a script or a program."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

MOST: Final = 60
"""Filled lines of a text that can be one note; longer ones are scripts, and logs in comments."""
LEAST: Final = 2
"""Lines of a note over which a sentence goes on."""
SHARE: Final = 0.6
"""Share of the lines that are marked; the others are the settings below the note."""
_MARK: Final = re.compile(r"[ \t]{0,16}(?:#|//)(?::? |$)")
_RULES: Final = ("====", "----", "####", "////")
"""Ends of lines that are drawn, or that frame a heading."""


def without_comment_marks(texts: Sequence[str]) -> Sequence[str]:
    """Return the lines of a text, without their marks where it is a comment that goes on over its lines.

    A heading of Markdown has the same mark and ends on its line.
    """
    filled = [text for text in texts if text.strip()]
    if not LEAST <= len(filled) <= MOST:
        return texts
    marks = [_MARK.match(text) for text in filled]
    if sum(mark is not None for mark in marks) < SHARE * len(filled):
        return texts
    said = [text[mark.end() :] if mark else "" for text, mark in zip(filled, marks, strict=True)]
    if not any(_goes_on(above, below) for above, below in pairwise(said)):
        return texts
    return [_MARK.sub("", text, count=1) for text in texts]


def _goes_on(above: str, below: str) -> bool:
    """Whether a sentence goes on from one marked line to the next."""
    above = above.rstrip()
    return bool(above) and below[:1].islower() and not above.endswith((".", "!", "?", ":", *_RULES))
