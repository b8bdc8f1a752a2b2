"""Sentences of the engine with holes for their values, matched in time linear in the line.

A template is the engine's own format string with named holes: ``GPU KV cache size: {tokens} tokens``.
A hole takes a bounded run of characters, so that no line, however made, costs more than its length.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from string import Formatter
from typing import Final, Self

KINDS: Final[Mapping[str, str]] = {
    "": r"-?[0-9][0-9,_]{0,20}(?:\.[0-9]{1,12})?",
    "word": r"[^\s'\",;()\[\]{}]{1,200}",
}
"""What a hole takes: a number as the engine writes it, or one word."""
SHORTEST_START: Final = 4
"""Characters that a template begins with, by which most lines are passed over."""


class InvalidTemplate(ValueError):
    """A sentence of the bundled data begins with a hole or names an unknown kind."""


@dataclass(frozen=True, slots=True)
class Template:
    """One sentence."""

    start: str
    """The words before the first hole."""
    pattern: re.Pattern[str]
    kinds: Mapping[str, str]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a sentence.

        Raises:
            InvalidTemplate: it begins with a hole, or a hole's kind is not known.
        """
        parts: list[str] = []
        kinds: dict[str, str] = {}
        pieces = list(Formatter().parse(text))
        for words, hole, kind, _ in pieces:
            parts.append(re.escape(words))
            if hole is None:
                continue
            if kind is None or kind not in KINDS:
                raise InvalidTemplate(f"{text!r}: a hole of an unknown kind {kind!r}")
            kinds[hole] = kind
            parts.append(f"(?P<{hole}>{KINDS[kind]})")
        start = pieces[0][0]
        if len(start) < SHORTEST_START:
            raise InvalidTemplate(f"{text!r} begins with a hole")
        return cls(start, re.compile("".join(parts)), kinds)

    def find(self, line: str) -> Iterator[Mapping[str, float | str]]:
        """Yield the values of each place where a line says this."""
        for match in self.pattern.finditer(line):
            yield {
                name: value if self.kinds[name] else number(value)
                for name, value in match.groupdict().items()
            }


def number(text: str) -> float:
    """Return a number as the engine writes it, with or without separators of thousands."""
    return float(text.replace(",", "").replace("_", ""))


def lines_saying(lines: Sequence[str], words: Iterable[str]) -> list[tuple[int, int]]:
    """Return which line says which of some words, as positions of both, in the order of the lines.

    All lines are searched as one text: most say none of ours.
    """
    text = "\n".join(lines)
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    found = set()
    for position, said in enumerate(words):
        at = text.find(said)
        while at >= 0:
            line = bisect_right(starts, at) - 1
            found.add((line, position))
            at = text.find(said, starts[line + 1]) if line + 1 < len(starts) else -1
    return sorted(found)
