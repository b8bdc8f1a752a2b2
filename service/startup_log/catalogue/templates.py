"""Templates of log messages, with placeholders for their values.

A template is the engine's own format string with named placeholders: ``GPU KV cache size: {tokens} tokens``.
A placeholder matches a bounded number of characters, so that the time is linear in the length of any line.
"""

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import accumulate
from string import Formatter
from typing import Final, Self

KINDS: Final[Mapping[str, str]] = {
    "": r"-?[0-9][0-9,_]{0,20}(?:\.[0-9]{1,12})?",
    "word": r"(?!%[dfrs]\b)[^\s'\",;()\[\]{}]{1,200}",
    "name": r"[A-Za-z0-9][A-Za-z0-9 .-]{0,60}?",
}
"""Patterns of the kinds of placeholders: a number as the engine writes it, one word, or some words."""
SHORTEST_START: Final = 4
"""Least number of characters before the first placeholder. Lines without them are skipped quickly."""


MARKS: Final = 2
"""Backticks around one marked word."""
LEAST_UNMARKED: Final = 3
"""Words of a sentence that is known without its backticks too."""


class InvalidTemplate(ValueError):
    """A template of the bundled data begins with a placeholder or names an unknown kind."""


@dataclass(frozen=True, slots=True)
class Template:
    """One message of the engine."""

    start: str
    """The text before the first placeholder."""
    pattern: str
    """The regular expression of the whole message, which is compiled when it is first looked for."""
    kinds: Mapping[str, str]
    """The kind of each placeholder, by its name."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the template that a text describes.

        Raises:
            InvalidTemplate: it begins with a placeholder, or the kind of a placeholder is unknown.
        """
        parts: list[str] = []
        kinds: dict[str, str] = {}
        pieces = list(Formatter().parse(text))
        for words, name, kind, _ in pieces:
            parts.append(re.escape(words))
            if name is None:
                continue
            if kind is None or kind not in KINDS:
                raise InvalidTemplate(f"{text!r}: a placeholder has the unknown kind {kind!r}")
            kinds[name] = kind
            parts.append(f"(?P<{name}>{KINDS[kind]})")
        start = pieces[0][0]
        if len(start) < SHORTEST_START:
            raise InvalidTemplate(f"{text!r} begins with a placeholder")
        return cls(start, "".join(parts), kinds)

    @property
    def spellings(self) -> tuple[Self, ...]:
        """The template, and without its backticks where it marks a word with them.

        One that only begins to mark, such as the beginning of a command, or that is little more than the
        marked word, says without them what other sentences say too.
        """
        plain = without_backticks(self.start)
        marked = self.start.count("`") == MARKS and len(plain.split()) >= LEAST_UNMARKED
        if not marked:
            return (self,)
        return self, replace(self, start=plain, pattern=without_backticks(self.pattern))

    def find(self, line: str) -> Sequence[Mapping[str, float | str]]:
        """Return the values of each occurrence of the template in a line."""
        return [
            {name: value if self.kinds[name] else number(value) for name, value in match.groupdict().items()}
            for match in _compiled(self.pattern).finditer(line)
        ]


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def without_backticks(text: str) -> str:
    """Return a text without what marks words as code, which people and web pages add and leave out."""
    return text.replace("`", "")


def number(text: str) -> float:
    """Return the number that the engine wrote, with or without separators of thousands."""
    return float(text.replace(",", "").replace("_", ""))


class SentenceIndex:
    """Finds which of many texts occur in which lines, in a time that hardly depends on their number.

    A text can only occur in a line that has each of its inner words, those with a blank on both sides, so
    that one word of each text shows the few lines in which the text itself is looked for. A text without an
    inner word is looked for in the lines in which a word begins as its rarest word does.
    """

    def __init__(self, sentences: Sequence[str]) -> None:
        self._sentences = sentences
        inner = [_inner_words(each) for each in sentences]
        common = Counter(word for words in inner for word in words)
        begun = [() if words else _begun_words(each) for each, words in zip(sentences, inner, strict=True)]
        usual = Counter(word for words in begun for word in words)
        self._by_word: dict[str, list[int]] = defaultdict(list)
        self._by_beginning: dict[str, list[int]] = defaultdict(list)
        # Writing without blanks between its words has none by which a text could be found.
        self._unspaced = tuple(at for at, each in enumerate(sentences) if not each.isascii())
        for position, words in enumerate(inner):
            if not sentences[position].isascii():
                continue
            if words:
                self._by_word[min(words, key=lambda word: (common[word], -len(word), word))].append(position)
            else:
                rarest = min(begun[position], key=lambda word: (usual[word], -len(word), word))
                self._by_beginning[rarest].append(position)
        self._words = frozenset(self._by_word)
        self._beginnings = frozenset(self._by_beginning)

    def pairs(self, lines: Sequence[str]) -> list[tuple[int, int]]:
        """Return the pairs (position of a line, position of a text that occurs in it), in their order.

        Ranks and restarts repeat their lines, which are searched once.
        """
        searched: dict[str, Sequence[int]] = {"": ()}
        pairs: list[tuple[int, int]] = []
        for at, line in enumerate(lines):
            found = searched.get(line)
            if found is None:
                found = searched[line] = self._within(line)
            if found:
                pairs.extend((at, each) for each in found)
        return pairs

    def _within(self, line: str) -> Sequence[int]:
        """Return the positions of the texts that occur in a line, in their order."""
        words = self._words.intersection(line.split())
        begun = self._beginnings.intersection(
            _BEGINNINGS.findall(line) if len(line) < LONG_LINE else _beginnings_of(line)
        )
        candidates = [each for word in words for each in self._by_word[word]]
        candidates += [each for word in begun for each in self._by_beginning[word]]
        if self._unspaced and not line.isascii():
            candidates += self._unspaced
        return sorted([each for each in candidates if self._sentences[each] in line]) if candidates else ()


BEGINNING: Final = 4
"""Characters by which words are distinguished."""
LONG_LINE: Final = 4096
"""Characters of a line that is searched once for all indexes."""
MOST_KEPT: Final = 64
"""Lines whose beginnings are kept: as many as a hostile text has of the longest."""
_BEGINNINGS: Final = re.compile(rf"\b\w{{1,{BEGINNING}}}")


def _inner_words(sentence: str) -> tuple[str, ...]:
    words = sentence.split()
    return tuple(words[0 if sentence[0].isspace() else 1 : None if sentence[-1].isspace() else -1])


def _begun_words(sentence: str) -> tuple[str, ...]:
    """Return the beginnings of the words of a text, which begin words of any line that holds it too.

    Raises:
        InvalidTemplate: it has no word, or a short one that is cut off.
    """
    found = [
        word[0][:BEGINNING]
        for word in re.finditer(r"\w+", sentence)
        if len(word[0]) >= BEGINNING or word.end() < len(sentence)
    ]
    if sentence.isascii() and not found:
        raise InvalidTemplate(f"{sentence!r} has no word by which it is found")
    return tuple(found)


def lines_containing(lines: Sequence[str], words: Iterable[str]) -> list[tuple[int, int]]:
    """Return the pairs (position of a line, position of a text that occurs in it), in the order of the lines.

    All lines are searched as one text, which is fast because most lines contain none of the texts.
    """
    text = "\n".join(lines)
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    found = []
    for position, sought in enumerate(words):
        at, line = text.find(sought), 0
        while at >= 0:
            line = bisect_right(starts, at, line) - 1
            found.append((line, position))
            at = text.find(sought, starts[line + 1]) if line + 1 < len(starts) else -1
    found.sort()
    return found


def any_contains(lines: Iterable[str], words: Iterable[str]) -> bool:
    """Whether any line contains any of some texts, none of which has an end of a line."""
    return any(map("\n".join(lines).__contains__, words))


@lru_cache(maxsize=MOST_KEPT)
def _beginnings_of(line: str) -> frozenset[str]:
    """Return the beginnings of a line's words; each index of sentences asks for those of the same lines."""
    return frozenset(_BEGINNINGS.findall(line))
