"""Many strings at once, each looked for at the beginning of a name or anywhere in it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True, eq=False)
class Fragments:
    """Strings, of which there may be 250,000: parts of a name are looked up, not each string in the name."""

    texts: frozenset[str]
    lengths: tuple[int, ...]
    """Of the strings, each once, in ascending order."""

    @classmethod
    def of(cls, texts: Iterable[str]) -> Self:
        """Return the strings with their lengths."""
        known = frozenset(texts)
        return cls(known, tuple(sorted(set(map(len, known)))))

    def begin(self, name: str, least: int = 0) -> bool:
        """Whether a name begins with one of the strings that have at least so many characters."""
        return any(name[:length] in self.texts for length in self.lengths if least <= length <= len(name))

    def occur_in(self, name: str) -> bool:
        """Whether one of the strings is anywhere in a name."""
        if len(self.texts) <= len(name):
            return any(text in name for text in self.texts)
        return any(
            name[begin : begin + length] in self.texts
            for length in self.lengths
            for begin in range(len(name) - length + 1)
        )
