"""Decides whether a text reports a failure of the writer's own, and which of its lines can tell of it.

Everything that reads a person's words for a failure reads the lines that are left here.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from service.startup_log.errors.exceptions import raises
from service.startup_log.prose.complaints import only_describes_change, reports_failure
from service.startup_log.prose.documents import is_document
from service.startup_log.prose.general_texts import is_guide, is_page, reviews_code
from service.startup_log.prose.issue_forms import IssueKind, kind_of_tags
from service.startup_log.prose.met_failures import meets, wishes
from service.startup_log.prose.sentences import Sentence, paragraphs, title_of
from service.startup_log.prose.symptom_table import affirmed, vocabulary
from service.startup_log.prose.symptoms import asks_in_general, is_question, is_supposed, names_roadmap
from service.startup_log.text.lines import LogLine


class WhatCounts(StrEnum):
    """Which lines of a text can tell of a failure."""

    ALL = "what programs print, and what people say"
    TROUBLE = "what programs print, and sentences below the title but that something is not supported"
    MET = "what programs print, and sentences in which the writer met a failure"
    PRINTED = "what programs print"
    NOTHING = "none: it happened to nobody who writes it"


@dataclass(frozen=True, slots=True)
class Decision:
    """Which lines of a text count, and what shows it."""

    counts: WhatCounts
    evidence: str


_TASK: Final = re.compile(
    r"^ (?:support(?:ing)?|add(?:ing)?|allow|bump|clean up|consider|consolidate|convert|create|deprecate|"
    r"drop|enable|expose|extend|explore|implement|improve|integrate|introduce|investigate|make|migrat(?:e|ing)|"
    r"optimi[sz]e|provide|reduce|refactor|remove|rename|replace|rethink|rework|speed up|split up|"
    r"switch|task \d{1,4}|unify|upgrade|write) |"
    r"^ (?:an? |some )?(?:possible|potential|proposed|suggested) (?:[a-z]{1,12} )?"
    r"(?:improvement|optimi[sz]ation)s? |"
    r"^ (?:instructions?|notes|tips|checklist|summary|overview) (?:for|on|of|to) |"
    r" (?:tracking|tracker|roadmap) $"
)
"""A title that says what is to be done, or how."""
_MESSAGES: Final = r"(?:error|warning|log|help|exception) (?:messages?|texts?|strings?|hints?|reporting)"
_OF_WORDING: Final = re.compile(
    rf" {_MESSAGES}(?: [a-z]{{1,12}}){{0,4}} (?:unfriendly|unhelpful|friendlier|clearer|better|more helpful|"
    r"reworded) |"
    r" (?:not (?:user )?friendly|improve|clarify|reword|better|clearer|more helpful)(?: [a-z]{1,12}){0,3} "
    rf"{_MESSAGES} |"
    r" (?:friendlier|clearer|more (?:helpful|informative|actionable))(?: [a-z]{1,12}){0,3} messages? |"
    r"\u63d0\u793a.{0,6}(?:\u4e0d\u53cb\u597d|\u4e0d\u6e05\u6670|\u4e0d\u660e\u786e)"
)
"""What shows that a title is about how messages are worded, which it quotes."""
_OF_KIND: Final = {
    IssueKind.WISH: Decision(WhatCounts.MET, "it asks for a feature"),
    IssueKind.PROPOSAL: Decision(WhatCounts.PRINTED, "it proposes something"),
    IssueKind.DOCUMENTATION: Decision(WhatCounts.MET, "it is about documentation"),
}
_NOT_ITS_OWN: Final = "it describes a change, or lists what is to be done"


def decide(lines: Sequence[LogLine], printed: Sequence[LogLine]) -> Decision:
    """Return which lines of a text can tell of a failure, and what shows it.

    ``printed``: the lines without source, advice and what other engines print.

    First what no report is: a change, a list, a document, a guide, a review. Then what its title and the
    headings of a project's form say that it is for; a title that sets a task or asks in general comes before
    the tag of a report. What programs print counts in each of them.
    """
    if only_describes_change(lines):
        return Decision(WhatCounts.NOTHING, _NOT_ITS_OWN)
    if is_document(printed) or is_page(lines):
        return Decision(WhatCounts.NOTHING, "it is a document")
    if is_guide(lines):
        return Decision(WhatCounts.NOTHING, "it tells how failures are mended")
    if reviews_code(lines):
        return Decision(WhatCounts.NOTHING, "it reviews code")
    title = title_of(lines)
    if title is not None and _OF_WORDING.search(title.words) and not any(line.is_logged for line in lines):
        return Decision(WhatCounts.NOTHING, "it is about the words of messages")
    return Decision(WhatCounts.ALL, "it has no title") if title is None else _by_title(title)


def _by_title(title: Sentence) -> Decision:
    kind = IssueKind.PROPOSAL if names_roadmap(title) else kind_of_tags(title.tags)
    if kind in _OF_KIND:
        return _OF_KIND[kind]
    if _TASK.search(title.words) and not vocabulary().trouble_of_task.is_in(affirmed(title.words)):
        return Decision(WhatCounts.TROUBLE, "its title says what is to be done")
    asks = kind is IssueKind.QUESTION or (kind is None and is_question(title))
    if asks and _names_no_trouble(title):
        return Decision(WhatCounts.TROUBLE, "its title asks something in general")
    return Decision(WhatCounts.ALL, "its title is no wish and no question")


def _names_no_trouble(title: Sentence) -> bool:
    """Whether the title of a question names nothing that failed, or asks whether it may fail.

    In a title that is no question itself more words do: `output different from the original`.
    """
    table = vocabulary()
    trouble = table.trouble_of_question if is_question(title) else table.complaint_of_question
    return asks_in_general(title) or not trouble.is_in(affirmed(title.words))


def telling_lines(
    lines: Sequence[LogLine], decision: Decision, quoted: AbstractSet[int]
) -> Sequence[LogLine]:
    """Return the lines with an empty text in place of what people say that cannot tell of a failure.

    ``quoted``: numbers of the lines that hold a message of the engine.
    """
    if decision.counts is WhatCounts.ALL:
        return lines
    if decision.counts is WhatCounts.NOTHING:
        return [replace(line, text="") for line in lines]
    silent = dict(_silenced(lines, _TELLS[decision.counts]))
    if decision.counts is WhatCounts.TROUBLE:
        # A message of the engine that a question quotes was printed.
        silent = {number: left for number, left in silent.items() if number not in quoted}
    return [replace(line, text=silent[line.number]) if line.number in silent else line for line in lines]


def _silenced(
    lines: Sequence[LogLine], tells: Callable[[Sequence[Sentence]], bool]
) -> Iterator[tuple[int, str]]:
    """Yield the numbers of lines in which nothing counts that a person says, with what is left of them."""
    by_number = {line.number: line for line in lines}
    for first, last, said in paragraphs(lines):
        if tells(said):
            continue
        for number in range(first.number, last.number + 1):
            line = by_number.get(number)
            if line is not None and not (reports_failure(line) or raises(line.text)):
                # What is left of a title heads the text, so that no sentence below it is its title.
                yield number, _HEAD if said and said[0].title else ""


_HEAD: Final = "[title]"


def _is_met(sentence: Sentence) -> bool:
    """Whether a sentence says that its writer met a failure."""
    if is_supposed(sentence) or wishes(sentence.words) or (sentence.title and is_question(sentence)):
        return False
    return meets(affirmed(sentence.words))


def _names_trouble(sentence: Sentence) -> bool:
    """Whether a sentence below the title names trouble, other than that something is not supported."""
    if sentence.title or wishes(sentence.words):
        return False
    words = affirmed(sentence.words)
    return vocabulary().trouble_of_question.is_in(words) or meets(words)


_TELLS: Final[Mapping[WhatCounts, Callable[[Sequence[Sentence]], bool]]] = {
    WhatCounts.TROUBLE: lambda said: not said or any(map(_names_trouble, said)),
    WhatCounts.MET: lambda said: any(map(_is_met, said)),
    WhatCounts.PRINTED: lambda _: False,
}
