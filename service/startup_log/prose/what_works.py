"""Finds the sentences in which a person says with what the same start or request works."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from service.startup_log.prose.sentences import sentences
from service.startup_log.text.lines import LogLine

MOST: Final = 2
"""Sentences that are shown of one text."""
MOST_OF_SENTENCE: Final = 240
"""Characters of a sentence that are shown."""
_WORKS: Final = re.compile(
    r"(?i)\b(?:works?|worked|(?:runs?|ran|starts?|boots?|loads?|serves?) (?:fine|normally|successfully|well)|"
    r"workaround(?= ?:)|(?:is|was) (?:ok|okay|fine)|can start|(?:goes?|go|went) away|is gone|"
    r"no longer (?:happens|occurs|crashes|fails)|"
    r"(?:is|was|get|gets|got) (?:resolved|solved|fixed) (?:by|with|when|after)|"
    r"(?:does|did)(?:n't| not) (?:happen|occur|appear)|"
    r"(?:solve|solves|resolve|resolves|fix|fixes) (?:it|this|the (?:issue|problem|error)))\b"
)
"""What says that something works."""
_GIVEN: Final = re.compile(
    r"(?i)\b(?:when|if|with|without|after|by|using|setting|downgrad\w{1,4}|revert\w{0,4}|remov\w{1,4}|disabl\w{1,4}|"
    r"instead|as long as|chang\w{1,4}|turning|export|same|single|only|while|but|on v?\d|"
    r"in (?:vllm )?v?0\.\d|regress\w{0,6}|configurations?)\b|`"
)
"""What names that with which it works, or the case in which it does."""
_NOT: Final = re.compile(
    r"(?i)\b(?:not|never|should|would|could|may|might|must|will(?! (?:re)?solve| fix)|expect\w{0,3}|intended|"
    r"supposed|hop(?:e|ing)|seems? to|unable|none|nothing|neither|cannot|can't|no (?:luck|amount)|"
    r"to see (?:if|whether)|whether|wonder\w{0,3}|all works|for a while|like to|try|until|once it|usually|"
    r"sometimes|how|feature|confused|works? but (?:it )?(?:fails|crash\w{0,4}|hangs))\b|n't\b|\?$|:$"
)
"""What says that it does not, or that it is a wish, a question or a supposition."""
_HAPPENS: Final = re.compile(r"(?i)\b(?:does|did)(?:n't| not) (?:happen|occur|appear)\b")


@dataclass(frozen=True, slots=True)
class ReportedToWork:
    """A sentence of a person that says with what it works."""

    line: int
    """Counted from 1 in the log."""
    words: str


def what_works(lines: Sequence[LogLine]) -> tuple[ReportedToWork, ...]:
    """Return the first sentences of a text that say with what it works, unchecked."""
    return tuple(islice(_said(lines), MOST))


def _said(lines: Sequence[LogLine]) -> Iterator[ReportedToWork]:
    for each in sentences(lines):
        text = each.text.strip(" -*")
        said = not each.title and _WORKS.search(text) is not None and _GIVEN.search(text) is not None
        if said and _NOT.search(_HAPPENS.sub(" ", text)) is None:
            yield ReportedToWork(each.line.number, text[:MOST_OF_SENTENCE])
