"""Text: a text of a document that knows its line."""

from typing import Self


class Text(str):
    """A text of a document that knows its line."""

    line: int
    __slots__ = ("line",)

    def __new__(cls, text: str, line: int) -> Self:
        """Return the text with its line, counted from 1."""
        made = super().__new__(cls, text)
        made.line = line
        return made
