"""Finds a message of the program that a person typed with letters wrong."""

from collections.abc import Sequence
from functools import cache
from typing import Final

from service.startup_log.prose.sentences import Sentence, plain_words

LEAST_WORDS: Final = 4
"""Words of a message at least; of fewer a wrong letter makes another message."""
LEAST_LETTERS: Final = 6
"""Letters of a word at least that may have one wrong; of twice as many, two."""
MOST_SENTENCES: Final = 40
"""Sentences of a text in which they are looked for."""


def misspelt(said: Sequence[Sentence], messages: Sequence[str]) -> tuple[Sentence, int] | None:
    """Return the first sentence with a message's words, each spelled almost so, and which message it is."""
    wanted = [(which, long) for which, text in enumerate(messages) if (long := _words_of(text))]
    for sentence in said[:MOST_SENTENCES]:
        words = sentence.words.split()
        for which, message in wanted:
            if _holds(words, message):
                return sentence, which
    return None


@cache
def _words_of(message: str) -> tuple[str, ...]:
    """Return the words of a message that is long enough to be known when misspelt; empty for any other."""
    words = tuple(plain_words(message).split()) if message.isascii() else ()
    return words if len(words) >= LEAST_WORDS else ()


def _holds(words: Sequence[str], message: Sequence[str]) -> bool:
    """Whether a sentence has all words of a message in a row, at least half of them as they are spelled."""
    length = len(message)
    if 2 * len(set(message).intersection(words)) < length:
        return False
    windows = (words[at : at + length] for at in range(len(words) - length + 1))
    return any(all(map(_is_spelled_almost, window, message)) for window in windows)


def _is_spelled_almost(word: str, meant: str) -> bool:
    if word == meant:
        return True
    wrong = len(meant) // LEAST_LETTERS
    return wrong > 0 and abs(len(word) - len(meant)) <= wrong and _distance(word, meant) <= wrong


def _distance(one: str, other: str) -> int:
    """Return how many letters must be put in, left out or replaced (Levenshtein's distance)."""
    above = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        line = [row]
        for column, meant in enumerate(other, 1):
            line.append(min(above[column] + 1, line[column - 1] + 1, above[column - 1] + (letter != meant)))
        above = line
    return above[-1]
