"""Names the cause that a person describes: by what a sentence is about, and what is wrong with it."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from service.startup_log.catalogue.phrases import FailureCause
from service.startup_log.prose.met_failures import asks_indirectly, meets
from service.startup_log.prose.sentences import LONGEST, Sentence, plain_words
from service.startup_log.prose.surest_sentences import surest
from service.startup_log.prose.symptom_table import DENIES, vocabulary

HANG: Final = "worker_hangs"
"""The cause of a symptom that says only that nothing goes on."""
BUG: Final = "bug"
"""The kind of issue whose title says what is wrong, whatever words it has."""
LEAST_WORDS: Final = 3
"""Words of a title that says what failed; fewer only head what follows."""
_WISHES: Final = re.compile(
    r" (?:should|expected|would be|ideally|hope|searched for relevant|please make sure) "
)
"""What shows that a sentence says how it should be."""
_SHOULD: Final = re.compile(r" (?:should|ought to) (?!not |never |have |work|be able)")
"""What shows that a title says how something is to become."""
_SUPPOSES: Final = re.compile(
    r" (?:may|might|could|would) (?:also |then |still )?"
    r"(?:result|lead|cause|occur|happen|fail|run out|hang|crash|oom|slow) |^ (?:do not|don't|never|avoid) |"
    r"^ if (?:the )?(?:vllm|server|engine|process|container) (?:crashes|crashed|dies|died|was killed) |"
    r" (?:not|isn't|aren't|un)(?: )?support\w{0,3} (?:[a-z]{1,12} ){0,4}according to "
)
"""What shows that a sentence warns of what has not happened, or advises against it."""
_PROVIDES: Final = re.compile(
    r"^ (?:in order )?to (?:avoid|prevent) |^ if you (?:have|get|see|run into|encounter|experience|hit) |"
    r"^ for (?:[a-z]{1,20} ){1,3}open an issue |"
    r" restarts? (?:the )?[a-z0-9]{1,20} (?:when|whenever|if) (?:it|they|one) "
    r"(?:crash|crashes|dies|fails|hangs|exits) | automatic restarts? (?:when|if|on|of) |"
    r" (?:know|tell|see|check|learn|decide|determine|understand) (?:[a-z0-9]{1,12} ){0,4}whether "
)
"""What shows that a sentence, also one that stands alone, says what is done in case of a failure."""
_ATTEMPTS: Final = re.compile(
    r" (?:(?:i|we|i've|we've|have|also|then|already|tried|to) ){0,4}"
    r"(?:tried|trying|attempted|set|setting|increased|lowered|reduced|used|using|disabled|disabling|"
    r"enabled|enabling|switched|changed|verified|checked|added|removed) "
)
"""What shows that a sentence says what was tried against it."""
_OF_EXCEPTION: Final = "raises failed "
"""What an exception says of itself by being one, in the words of people."""
_ROADMAP: Final = re.compile(r" (?:roadmap|release plan|milestone plan) ")
"""What shows that a title is of a plan."""
_ASKS: Final = re.compile(
    r"^ (?:how|what|which|where|who|do|does|can(?! not )|could(?! not )|is there|are there|is it|would|any|"
    r"may|has anyone) "
)
"""What shows that a sentence asks something."""
_ASKED: Final = re.compile(
    r"(?i)(?:^|[,;:(\uff0c]\s*|\b(?:and|but|so|then|or)\s+)(?:will|would|does|do|did|should|could|can|is|are|may|might)\s+"
    r"(?:the|it|this|that|there|these|those|i|we|you|they|my|our|v?llm|inference|performance)\b"
)
"""The beginning of a question to which yes or no is the answer, at the begin of a clause."""
_TITLE_ASKED: Final = re.compile(r"(?i)(?:will|would|should|does|do)\s")
"""The beginning of such a question that is no polite complaint, for a title."""
_ASKS_IN_GENERAL: Final = re.compile(
    r"^ (?:what (?:happens|will happen|would happen|causes|can cause|could cause)|when (?:does|do|"
    r"will|would|can)|"
    r"(?:does|do|will|would|can|could) (?!(?:not|anyone|anybody|someone|somebody|you|i|"
    r"we)\b)(?:[a-z0-9.']{1,20} ){1,6}"
    r"(?:cause|lead to|result in|crash|fail|hang|oom|run out|go out|break|affect)|"
    r"how (?:to|can i|can we|do i|do we|should i|should we) (?:avoid|prevent|handle|recover from|"
    r"detect|debug)) "
)
"""What shows that a question is about failures that may happen: `What happens if the cache is full?`"""
_ASKS_TO_MEND: Final = re.compile(
    r"^ (?:\d{1,3} |q )?how (?:to|do i|do you|do we|can i|can we|should i) (?:fix|solve|resolve|mend) "
    r"(?:[a-z0-9']{1,24} ){0,4}(?:error|errors|exception|failure|crash|issue|problem)s? "
)
"""What shows that a question is about an error that it names."""


_ENDS_OF_QUESTIONS: Final = ("?", "\uff1f", "\u5417", "\u5462", "\u304b")
"""Signs of a question, and words with which one ends in Chinese and Japanese."""


@dataclass(frozen=True, slots=True)
class Described:
    """A cause that a sentence describes; ``None`` where it says only that something failed."""

    sentence: Sentence
    cause: FailureCause | None
    general: bool
    part_alone: bool = False
    """The sentence names what failed, and nothing of why."""


def described(
    found: Sequence[Sentence],
    *,
    titles_only: bool = False,
    counts: Callable[[FailureCause], bool] = bool,
) -> Described | None:
    """Return what sentences describe: what is the surest of them, else that the title complains.

    Beside the log of a start, sentences without a title that complains are those of a script.
    ``counts``: whether the rest of the text allows a cause. The quantization in the name of a model is none.
    """
    if found and found[0].beside_start and not (found[0].tags or vocabulary().trouble.is_in(found[0].words)):
        return None
    found = tuple(map(_unasked, found))
    troubled = [each for each in found if (each.title or not titles_only) and _is_of_failure(each)]
    troubled.extend(_joined(troubled))
    expects = any(_WISHES.search(each.words) for each in found[:2]) and not any(
        BUG in each.tags for each in found[:1]
    )
    shown = surest(troubled, counts)
    if shown is not None and not (expects and shown.symptom.general):
        alone = shown.symptom.names_part_alone(shown.sentence)
        return Described(shown.sentence, shown.symptom.cause, shown.symptom.general, alone)
    title = next(
        (
            each
            for each in troubled
            if each.title
            and (BUG in each.tags or vocabulary().complaint_of_title.is_in(DENIES.sub(" ", each.words)))
        ),
        None,
    )
    if title is not None and title.words.isascii() and len(title.words.split()) < LEAST_WORDS:
        title = None
    if title is not None and (is_question(title) or _says_how_to_be(title)):
        title = None
    if titles_only:
        return None
    if title is None and not expects:
        title = next((each for each in troubled if _states(each) or _is_met(each)), None)
    return None if title is None else Described(title, None, general=True)


def _unasked(sentence: Sentence) -> Sentence:
    """Return a sentence without the words of a question at its end: what is asked has not happened.

    A sentence can say what failed before it asks whether that is a bug.
    """
    if not sentence.text.rstrip(" *_)`").endswith(("?", "\uff1f")):
        return sentence
    asked = _ASKED.search(sentence.text)
    if asked is None or (sentence.title and _TITLE_ASKED.match(sentence.text.strip()) is None):
        return sentence
    return replace(sentence, words=plain_words(sentence.text[: asked.start()]))


def is_question(title: Sentence) -> bool:
    """Whether a title asks something, other than how to mend what it says that failed.

    What a report of a bug says before a sign of a question is what its writer saw.
    """
    ends = BUG not in title.tags and title.text.rstrip().endswith(_ENDS_OF_QUESTIONS)
    asks = _ASKS.search(title.words) is not None or ends
    return asks and _ASKS_TO_MEND.search(title.words) is None


def _says_how_to_be(title: Sentence) -> bool:
    """Whether the title of no report of a bug says how something is to be, and not what it must not do."""
    return BUG not in title.tags and _SHOULD.search(title.words) is not None


def _states(sentence: Sentence) -> bool:
    """Whether a sentence below the title says of the engine or a part of it that it fails."""
    return not sentence.title and _states_failure(sentence.words)


def states_failure(text: str) -> bool:
    """Whether a text says of the engine or a part of it that it fails."""
    return _states_failure(plain_words(text[:LONGEST]))


def _states_failure(words: str) -> bool:
    return vocabulary().states.search(DENIES.sub(" ", words)) is not None


def _is_met(sentence: Sentence) -> bool:
    """Whether a person says below the title that they met a failure."""
    words = DENIES.sub(" ", sentence.words)
    return not sentence.title and meets(words)


def met_failure(found: Sequence[Sentence]) -> bool:
    """Whether a person says in any sentence that they met a failure."""
    return any(meets(DENIES.sub(" ", each.words)) for each in found)


def _joined(found: Sequence[Sentence]) -> Iterator[Sentence]:
    """Yield the clauses of each line in another script as one: one names the part, another what failed."""
    for _, same in groupby((each for each in found if not each.title), key=lambda each: each.line.number):
        clauses = tuple(each for each in same if not each.text.isascii())
        if len(clauses) > 1:
            words = "".join(each.words for each in clauses)[:LONGEST]
            yield replace(clauses[0], words=words, text="".join(each.text for each in clauses)[:LONGEST])


def names_roadmap(title: Sentence) -> bool:
    """Whether a title is that of a roadmap: `vLLM Ascend Roadmap Q1 2025`; not of what is wrong with one."""
    words = DENIES.sub(" ", title.words)
    return title.title and _ROADMAP.search(words) is not None and not vocabulary().trouble.is_in(words)


def complains(found: Sequence[Sentence]) -> bool:
    """Whether a person says in any sentence that something failed."""
    return any(
        vocabulary().complaint.is_in(DENIES.sub(" ", each.words)) for each in found if _is_of_failure(each)
    )


def says_hang(found: Sequence[Sentence]) -> bool:
    """Whether a person says that the engine hangs, in the title or, where that names no failure, below it."""
    table = vocabulary()
    hang = next(each for each in table.symptoms if each.general and each.cause.name == HANG)
    title = next((each for each in found if each.title), None)
    if title is not None and hang.is_in(title):
        return True
    if title is not None and table.fails.is_in(DENIES.sub(" ", title.words)):
        return False
    return any(hang.is_in(each) for each in found if _is_of_failure(each))


def cause_of_words(message: str) -> FailureCause | None:
    """Return what the words of an exception are about that no release is known to raise."""
    words = f"{plain_words(message[:LONGEST])}{_OF_EXCEPTION}"
    return next(
        (
            each.cause
            for each in vocabulary().symptoms
            if not (each.general or each.reported or each.tagged) and each.is_in_words(words)
        ),
        None,
    )


def asks_in_general(sentence: Sentence) -> bool:
    """Whether a sentence asks about failures that may happen."""
    return _ASKS_IN_GENERAL.search(sentence.words) is not None


def is_supposed(sentence: Sentence) -> bool:
    """Whether a sentence says what may happen, or what is done in case of it."""
    return _SUPPOSES.search(sentence.words) is not None or _PROVIDES.search(sentence.words) is not None


def _is_of_failure(sentence: Sentence) -> bool:
    if _PROVIDES.search(sentence.words):
        return False
    if sentence.title:
        return _ASKS_IN_GENERAL.search(sentence.words) is None
    asks = _ASKS.search(sentence.words) or _ASKS_IN_GENERAL.search(sentence.words)
    if asks and sentence.text.rstrip().endswith(("?", "\uff1f")):
        return False
    supposed = (
        _SUPPOSES.search(sentence.words) or _WISHES.search(sentence.words) or asks_indirectly(sentence.words)
    )
    attempts = _ATTEMPTS.match(sentence.words) is not None and " but " not in sentence.words
    return not (supposed or attempts)
