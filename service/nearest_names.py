"""Names that callers write: which known ones are spelt alike, and how much of one is shown."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

LONGEST_NAME: Final = 200
"""Characters. The comparison takes time in the square of the length, and no known name is longer."""
SHOWN_CHARACTERS: Final = 100


def nearest(given: str, known: Iterable[str], *, count: int = 3, cutoff: float = 0.6) -> tuple[str, ...]:
    """Return up to `count` known names that are spelt like `given`, best first; none for an overlong one."""
    if len(given) > LONGEST_NAME:
        return ()
    return tuple(get_close_matches(given, tuple(known), n=count, cutoff=cutoff))


def quoted(given: str) -> str:
    """Return a caller's word in quotes, cut to `SHOWN_CHARACTERS`."""
    return repr(cut(given))


def cut(given: str, most: int = SHOWN_CHARACTERS) -> str:
    """Return a caller's text, at most `most` characters of it; dots show where the rest was cut off."""
    return given if len(given) <= most else f"{given[:most]}..."
