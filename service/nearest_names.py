"""Finds known names with a spelling similar to a caller's, and shortens callers' text for messages."""

from collections.abc import Iterable, Sequence
from typing import Final

LONGEST_NAME: Final = 200
"""Characters. No known name is longer, and the time of a comparison grows with the square of the length."""
SHOWN_CHARACTERS: Final = 100
"""Characters of a caller's text that a message shows."""
FEW: Final = 6
"""Known names of which a message lists all."""
MOST_NEAREST: Final = 5
"""Known names that are listed beside an unknown one."""
LONGEST_COMPARED: Final = 64
"""Characters of names that are compared letter by letter."""
SLIP: Final = 0.5
"""What two neighbouring letters in the wrong order cost: both letters are right. A wrong letter costs 1."""
MOST_SLIPS: Final = 2
"""What the mistakes in a mistyped name cost together, at most."""


def nearest(given: str, known: Iterable[str], *, count: int = 3, cutoff: float = 0.6) -> tuple[str, ...]:
    """Return up to `count` known names with a spelling similar to `given`, best first.

    `cutoff` is the least similarity, from 0 to 1, whatever the case of letters. A name longer than
    `LONGEST_NAME` has no similar names.
    """
    if len(given) > LONGEST_NAME:
        return ()
    # Most requests and commands are without a mistake.
    from difflib import get_close_matches  # noqa: PLC0415

    named: dict[str, str] = {}
    for name in known:
        named.setdefault(name.casefold(), name)
    folded = given.casefold()
    found = get_close_matches(folded, tuple(named), n=4 * count, cutoff=cutoff)
    best = sorted(found, key=lambda name: -similarity(folded, name))
    return tuple(named[each] for each in best[:count])


def similarity(given: str, known: str) -> float:
    """Return how similar two texts are, from 0 to 1: by shared parts and by slips of the hand."""
    from difflib import SequenceMatcher  # noqa: PLC0415 - as above

    shared = SequenceMatcher(None, given, known).ratio()
    longer = max(len(given), len(known))
    if not 0 < longer <= LONGEST_COMPARED:
        return shared
    return (shared + 1 - _slips(given, known) / longer) / 2


def is_slip(given: str, known: str) -> bool:
    """Whether a text is rather a mistyped name than another one: the same digits, and at most two slips.

    Names of models differ in their digits: a 3B is no slip of a 7B, but a B8 is one of an 8B.
    """
    given, known = given.casefold(), known.casefold()
    if max(len(given), len(known)) > LONGEST_NAME or _digits(given) != _digits(known):
        return False
    return _slips(given, known) <= MOST_SLIPS


def _digits(text: str) -> list[str]:
    return sorted(filter(str.isdigit, text))


def _slips(given: str, known: str) -> float:
    """Return the cost of making one text from another, by the distance of Damerau (optimal string alignment).

    A letter added, left out or replaced costs 1, two neighbours in the wrong order `SLIP`.
    """
    before: list[float] = []
    above: list[float] = [float(each) for each in range(len(known) + 1)]
    for row, letter in enumerate(given, 1):
        here = [float(row)]
        for column, other in enumerate(known, 1):
            least = min(above[column] + 1, here[-1] + 1, above[column - 1] + (letter != other))
            swapped = row > 1 and column > 1 and letter == known[column - 2] and other == given[row - 2]
            here.append(min(least, before[column - 2] + SLIP) if swapped and letter != other else least)
        before, above = above, here
    return above[-1]


def few_of(alike: Sequence[str], known: Sequence[str], where: str) -> str:
    """Return which names there are, as part of a sentence: all of a few, or the nearest and what lists all.

    Args:
        alike: names that are spelt alike.
        known: all names.
        where: what lists all of them, such as "GET /v1/gpus lists all".
    """
    if len(known) <= FEW:
        return f"choices: {', '.join(known)}"
    if not alike:
        return f"none of {len(known)} is spelt alike; {where}"
    return f"nearest of {len(known)}: {', '.join(alike[:MOST_NEAREST])}; {where}"


def quoted(given: str) -> str:
    """Return a caller's text in quotes, cut to `SHOWN_CHARACTERS`."""
    return repr(cut(given))


def cut(given: str, most: int = SHOWN_CHARACTERS) -> str:
    """Return a caller's text cut to `most` characters; if it is longer, three dots follow."""
    return given if len(given) <= most else f"{given[:most]}..."
