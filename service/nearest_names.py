"""Finds known names with a spelling similar to a caller's, and shortens callers' text for messages."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

LONGEST_NAME: Final = 200
"""Characters. No known name is longer, and the time of a comparison grows with the square of the length."""
SHOWN_CHARACTERS: Final = 100
"""Characters of a caller's text that a message shows."""


def nearest(given: str, known: Iterable[str], *, count: int = 3, cutoff: float = 0.6) -> tuple[str, ...]:
    """Return up to `count` known names with a spelling similar to `given`, best first.

    `cutoff` is the least similarity, from 0 to 1. A name longer than `LONGEST_NAME` has no similar names.
    """
    if len(given) > LONGEST_NAME:
        return ()
    return tuple(get_close_matches(given, tuple(known), n=count, cutoff=cutoff))


def quoted(given: str) -> str:
    """Return a caller's text in quotes, cut to `SHOWN_CHARACTERS`."""
    return repr(cut(given))


def cut(given: str, most: int = SHOWN_CHARACTERS) -> str:
    """Return a caller's text cut to `most` characters; if it is longer, three dots follow."""
    return given if len(given) <= most else f"{given[:most]}..."
