"""Weighs a text's sentences against each other: which of them shows the cause for sure.

A reader takes the complaint of the title, then what the person gives as the reason, then other sentences.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from service.startup_log.catalogue.phrases import FailureCause
from service.startup_log.prose.sentences import Sentence, gives_reason
from service.startup_log.prose.symptom_table import Symptom, affirmed, vocabulary

_OF_CODE: Final = re.compile(
    r" (?:assertionerror|typeerror|keyerror|attributeerror|indexerror|unboundlocalerror|nameerror|"
    r"has no attribute) "
)
"""Exceptions of Python's own, which say that the code met a state that it was not written for."""
_USING: Final = re.compile(r" (?:when|while|after|if) (?:using|running|enabling|configuring|adding|setting) ")
"""The beginning of a sentence that says with what a failure happens."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A sentence, and what it says that shows a cause."""

    sentence: Sentence
    symptom: Symptom


def surest(found: Sequence[Sentence], counts: Callable[[FailureCause], bool]) -> Shown | None:
    """Return the surest of what sentences show; ``None`` where none shows a cause.

    A cause that the title shows comes first, but where the text says more of the same: the title names only
    the part that failed and a reason is given, or another sentence names the same failure more exactly. Then
    come reasons that the text gives, any other sentence, and what happened.
    """
    titles = [each for each in found if each.title]
    others = [each for each in found if not each.title]
    given = [each for each in others if gives_reason(each)]
    reasons = (shown for shown in _shown(given, counts) if not shown.symptom.names_part_alone(shown.sentence))
    titled = next(_shown(titles, counts), None)
    if titled is not None and titled.symptom.names_part_alone(titled.sentence):
        return next(reasons, titled)
    if titled is not None:
        return next(_finer(titled, others, counts), titled)
    happened = next(_shown(titles, counts, general=True), None)
    rest = _shown(others, counts)
    explaining = (each for each in chain(reasons, rest) if happened is None or _explains(each, happened))
    return next(explaining, None) or happened or next(_shown(others, counts, general=True), None)


def _explains(shown: Shown, happened: Shown) -> bool:
    """Whether a sentence can say why something happened.

    What else the engine does wrong is no reason, nor is a case in which it happens too. A part with which the
    same happens is named first where the title says only that it happens: `Crashes when configured so`.
    """
    if shown.symptom.cause is happened.symptom.cause:
        return True
    alone = shown.symptom.names_part_alone(shown.sentence)
    if alone and _USING.match(shown.sentence.words) is not None:
        return happened.symptom.is_in_words(affirmed(shown.sentence.words))
    return not alone and shown.symptom.cause.name not in vocabulary().behaviours


def _finer(
    titled: Shown, others: Sequence[Sentence], counts: Callable[[FailureCause], bool]
) -> Iterator[Shown]:
    """Yield the sentences that say what the title says, and more exactly."""
    finer = vocabulary().refined.get(titled.symptom.cause.name, frozenset())
    for sentence in others if finer else ():
        if any(each.cause is titled.symptom.cause for each in _symptoms_of(sentence, counts)):
            exact = (each for each in _symptoms_of(sentence, counts) if each.cause.name in finer)
            yield from (Shown(sentence, each) for each in exact)


def _shown(
    sentences: Sequence[Sentence], counts: Callable[[FailureCause], bool], *, general: bool = False
) -> Iterator[Shown]:
    """Yield the sentences that show a cause, with the first of their symptoms."""
    for sentence in sentences:
        symptom = next(_symptoms_of(sentence, counts, general=general), None)
        if symptom is not None:
            yield Shown(sentence, symptom)


def _symptoms_of(
    sentence: Sentence, counts: Callable[[FailureCause], bool], *, general: bool = False
) -> Iterator[Symptom]:
    """Yield the symptoms of a sentence, in the order of the table."""
    of_code = _OF_CODE.search(sentence.words) is not None
    words = affirmed(sentence.words)
    for each in vocabulary().symptoms:
        if each.general is not general or (of_code and each.names_reason_alone):
            continue
        said = counts(each.cause) and each.counts_in(sentence) and each.is_in_words(words)
        if said and each.is_in_unformatted(sentence):
            yield each
