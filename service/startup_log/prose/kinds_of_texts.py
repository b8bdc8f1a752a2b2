"""Says by its form what a text without a known failure is: a question, a wish, a proposal, a change."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from typing import Final

from service.startup_log.prose.complaints import (
    describes_change,
    is_about_failure,
    is_titled_as_commit,
    lists_tasks,
)
from service.startup_log.prose.general_texts import (
    compares_engines,
    is_guide,
    is_page,
    reviews_code,
)
from service.startup_log.prose.issue_forms import IssueKind, kind_of_tags
from service.startup_log.prose.listed_titles import lists_titles
from service.startup_log.prose.sentences import MOST_OF_QUOTE, Sentence, title_of
from service.startup_log.prose.symptoms import names_roadmap
from service.startup_log.text.lines import LogLine
from service.startup_log.text.single_rows import RULE, cells_of

LEAST_ROWS: Final = 3
"""Rows of a table that lists several failures; one of two rows mostly says what helps against either."""
MOST_OF_TEXT: Final = 200
"""Lines of a text in which headings and questions are looked for."""


class TextKind(StrEnum):
    """What a text is."""

    CHANGE = "describes a change of code"
    WISH = "asks for a feature"
    PROPOSAL = "proposes how something is to become"
    QUESTION = "asks a question"
    DOCUMENTATION = "is about documentation"
    LIST = "lists titles of commits, issues or changes"
    FAILURES = "lists several failures in a table"
    GUIDE = "tells how to mend failures in general"
    REVIEW = "reviews code"
    COMPARISON = "compares engines"


@dataclass(frozen=True, slots=True)
class AboutText:
    """What a text is, and its own words for it."""

    kind: TextKind
    words: str
    line: int

    def __str__(self) -> str:
        """Return what the text is, in a sentence."""
        return (
            f"By its form the text {self.kind} on line {self.line}, and no failure was recognized in it: "
            f"{self.words.rstrip(_ENDS)}."
        )


_ENDS: Final = ".?!: "
_MARKS: Final = re.compile(r"</?[a-z]{1,6}>|!\[[^\]\[]{0,40}\]\([^)(]{1,300}\)\s{0,4}|\*\*")
"""Pictures and marks in a title."""
_OF_WHOLE_TITLES: Final = frozenset({TextKind.GUIDE, TextKind.REVIEW, TextKind.COMPARISON})
"""Kinds of texts whose titles are several sentences: `vLLM Won't Start? Every Fix`."""
_OF_ISSUES: Final = {
    IssueKind.WISH: TextKind.WISH,
    IssueKind.PROPOSAL: TextKind.PROPOSAL,
    IssueKind.DOCUMENTATION: TextKind.DOCUMENTATION,
    IssueKind.QUESTION: TextKind.QUESTION,
}
_ASKS: Final = re.compile(
    r"(?i)^(?:how|what|which|where|who|why|do|does|can|could|is|are|will|would|any|has|should)\b.{3,400}\?\s*$|"
    "\\?\\s*$|\uff1f\\s*$|\u5417\\s*$|"
    "^(?:how (?:to|do|can)|\u5982\u4f55|\u600e\u4e48|\u662f\u4e0d\u662f|\u8bf7\u95ee)"
)
_QUESTION: Final = ("?", "\uff1f")
_WISHES: Final = re.compile(
    r"(?i)^(?:support(?:ing)?|add(?:ing)?|allow|enable|upgrade|bump|implement|integrate|provide|expose) "
    r"|\b(?:support|feature) request\b"
)


def kind_of_text(lines: Sequence[LogLine]) -> AboutText | None:
    """Return what a text is by its form; ``None`` where its words do not say."""
    if lists_titles(lines):
        first = next(line for line in lines if line.text)
        return AboutText(TextKind.LIST, first.text.strip("# *")[:MOST_OF_QUOTE], first.number)
    lines = lines[:MOST_OF_TEXT]
    if (table := _table_of_failures(lines)) is not None:
        return table
    title = title_of(lines)
    if title is None:
        return None
    kind = _kind(title, lines)
    return None if kind is None else AboutText(*kind)


def _table_of_failures(lines: Sequence[LogLine]) -> AboutText | None:
    """Return a table of which a column is about failures; ``None`` without any, or with a single row."""
    rule = next(
        (at for at, line in enumerate(lines) if line.text.startswith("|") and RULE.match(line.text)), 0
    )
    if not rule or not any(
        is_about_failure(LogLine(1, cell, None)) for cell in cells_of(lines[rule - 1].text)
    ):
        return None
    rows = list(takewhile(lambda line: line.text.startswith("|"), lines[rule + 1 :]))
    if len(rows) < LEAST_ROWS:
        return None
    head = lines[rule - 1]
    return AboutText(TextKind.FAILURES, head.text.strip("| ")[:MOST_OF_QUOTE], head.number)


def _kind(title: Sentence, lines: Sequence[LogLine]) -> tuple[TextKind, str, int] | None:
    words, number = title.text.strip("# *")[:MOST_OF_QUOTE], title.line.number
    changes = describes_change(lines) or is_titled_as_commit(lines)
    of_page = TextKind.DOCUMENTATION if is_page(lines) else None
    of_form = kind_of_tags(title.tags)
    kind = TextKind.CHANGE if changes else _OF_ISSUES.get(of_form, of_page) if of_form else of_page
    if kind is None and reviews_code(lines):
        kind = TextKind.REVIEW
    if kind is None and is_guide(lines):
        kind = TextKind.GUIDE
    if kind is None and (lists_tasks(lines) or names_roadmap(title)):
        kind = TextKind.PROPOSAL
    if kind is None and _ASKS.search(words):
        kind = TextKind.QUESTION
    if kind is None and not title.tags and _WISHES.search(words):
        kind = TextKind.WISH
    if kind is None and compares_engines(title):
        kind = TextKind.COMPARISON
    if kind in _OF_WHOLE_TITLES:
        words = _MARKS.sub("", title.line.text).strip("# *")[:MOST_OF_QUOTE]
    if kind is not None:
        return kind, words, number
    asked = next((line for line in lines if line.text.rstrip().endswith(_QUESTION) and _is_typed(line)), None)
    if asked is not None and not title.tags:
        return TextKind.QUESTION, f"{words}: {asked.text.strip()}"[:MOST_OF_QUOTE], asked.number
    return None


def _is_typed(line: LogLine) -> bool:
    """Whether a person wrote a line, and not a program."""
    return not (line.level or line.origin or line.text.startswith(("|", "#", "http", "-")))
