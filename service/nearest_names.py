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

    `cutoff` is the least similarity, from 0 to 1, whatever the case of letters. A name longer than
    `LONGEST_NAME` has no similar names.
    """
    if len(given) > LONGEST_NAME:
        return ()
    named: dict[str, str] = {}
    for name in known:
        named.setdefault(name.casefold(), name)
    found = get_close_matches(given.casefold(), tuple(named), n=count, cutoff=cutoff)
    return tuple(named[each] for each in found)


def quoted(given: str) -> str:
    """Return a caller's text in quotes, cut to `SHOWN_CHARACTERS`."""
    return repr(cut(given))


def cut(given: str, most: int = SHOWN_CHARACTERS) -> str:
    """Return a caller's text cut to `most` characters; if it is longer, three dots follow."""
    return given if len(given) <= most else f"{given[:most]}..."
