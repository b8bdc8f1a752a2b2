"""Names the cause that a person describes: by what a sentence is about, and what is wrong with it."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from typing import Final

from service.bundled_toml import read_toml
from service.startup_log.catalogue.phrases import CAUSES, FailureCause
from service.startup_log.prose.sentences import LONGEST, Sentence, plain_words, without_formats

ANY_LETTERS: Final = "*"
OR: Final = "|"
FAMILY: Final = "@"
FORM: Final = "~"
HANG: Final = "worker_hangs"
"""The cause of a symptom that says only that nothing goes on."""
PROPOSALS: Final = frozenset({"rfc", "roadmap", "proposal"})
"""Kinds of issues that say how something is to become, and not what failed."""
WISHES: Final = frozenset({"feature", "feature request", "enhancement"})
"""Kinds of issues whose title names what is wished."""
BUG: Final = "bug"
"""The kind of issue whose title says what is wrong, whatever words it has."""
LEAST_WORDS: Final = 3
"""Words of a title that says what failed; fewer only head what follows."""
_DENIES: Final = re.compile(
    r" (?:no|never|no longer|not|isn't|wasn't|nothing|without|zero|avoid|prevent|"
    r"rather than|ruled out|rules out)"
    r"(?: an?| any| single| obvious| clear)? "
    r"(?:oom|out of memory|memory (?:error|issue|problem|pressure|shortage)|"
    r"ooms|error|errors|fail\w{0,5}|crash\w{0,4}|hang\w{0,4}|stuck|problems?|issues?|"
    r"(?:dependency )?conflicts?) |"
    r" (?:oom|out of memory|memory pressure) (?:is|was|were|can be|has been) "
    r"(?:ruled out|excluded|avoided|prevented) |"
    r" (?:hangs? up|stuck (?:with|to)|works? (?:fine|well|perfectly|as expected|correctly)|worked fine|"
    r"(?:is|was|got) fixed|(?:is|are) (?:fine|ok|okay) now|works now|all good) "
)
"""Parts of a sentence that say that something did not fail."""
_WISHES: Final = re.compile(
    r" (?:should|expected|would be|ideally|hope|searched for relevant|please make sure) "
)
"""What shows that a sentence says how it should be."""
_SUPPOSES: Final = re.compile(
    r" (?:may|might|could|would) (?:also |then |still )?"
    r"(?:result|lead|cause|occur|happen|fail|run out|hang|crash|oom|slow) |^ (?:do not|don't|never|avoid) |"
    r"^ if (?:the )?(?:vllm|server|engine|process|container) (?:crashes|crashed|dies|died|was killed) "
)
"""What shows that a sentence warns of what has not happened, or advises against it."""
_ATTEMPTS: Final = re.compile(
    r" (?:(?:i|we|i've|we've|have|also|then|already|tried|to) ){0,4}"
    r"(?:tried|trying|attempted|set|setting|increased|lowered|reduced|used|using|disabled|disabling|"
    r"enabled|enabling|switched|changed|verified|checked|added|removed) "
)
"""What shows that a sentence says what was tried against it."""
_OF_EXCEPTION: Final = "raises failed "
"""What an exception says of itself by being one, in the words of people."""
_OF_CODE: Final = re.compile(
    r" (?:assertionerror|typeerror|keyerror|attributeerror|indexerror|unboundlocalerror|nameerror|"
    r"has no attribute) "
)
"""Exceptions of Python's own, which say that the code met a state that it was not written for."""
_ASKS: Final = re.compile(
    r"^ (?:how|what|which|where|who|do|does|can|could|is there|are there|is it|would|any|may|has anyone) "
)
"""What shows that a sentence asks something."""


@dataclass(frozen=True, slots=True)
class WordGroup:
    """Alternatives of which one is in a sentence."""

    words: tuple[str, ...]
    forms: tuple[re.Pattern[str], ...] = ()
    """Words that are known by their form."""
    vague: frozenset[str] = frozenset()
    """Those of them that say only that something failed."""

    def is_in(self, words: str) -> bool:
        """Whether a sentence's plain words hold one."""
        return any(map(words.__contains__, self.words)) or any(each.search(words) for each in self.forms)

    def is_vague_in(self, words: str) -> bool:
        """Whether a sentence's plain words hold only such as say that something failed."""
        own = (word for word in self.words if word not in self.vague)
        return bool(self.vague) and not (
            any(map(words.__contains__, own)) or any(each.search(words) for each in self.forms)
        )


@dataclass(frozen=True, slots=True)
class Symptom:
    """What a sentence says that shows a cause."""

    cause: FailureCause
    says: tuple[WordGroup, ...]
    unless: WordGroup
    general: bool
    """It says what happened and hardly why."""
    tagged: frozenset[str]
    """Kinds of issues, one of which the title names; empty for any."""
    reported: bool = False
    """Only people say so, and no exception."""
    part: bool = False
    """Its cause says why a part failed."""

    def is_in(self, sentence: Sentence) -> bool:
        """Whether a sentence has it."""
        if self.tagged and self.tagged.isdisjoint(sentence.tags):
            return False
        return self.is_in_words(_DENIES.sub(" ", sentence.words))

    def is_in_unformatted(self, sentence: Sentence) -> bool:
        """Whether a sentence has it without the words of quantization in names of models."""
        words = without_formats(sentence.text)
        return words == sentence.text or self.is_in_words(_DENIES.sub(" ", plain_words(words)))

    def is_in_words(self, words: str) -> bool:
        """Whether a text's plain words have it."""
        return all(each.is_in(words) for each in self.says) and not self.unless.is_in(words)

    def names_part_alone(self, sentence: Sentence) -> bool:
        """Whether a sentence that has it says what failed, and nothing of why."""
        words = _DENIES.sub(" ", sentence.words)
        return self.part and any(each.is_vague_in(words) for each in self.says)


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
    """Return what sentences describe: a reason in the title, else in another one, else only what happened.

    Beside the log of a start, sentences without a title that complains are those of a script.
    ``counts``: whether the rest of the text allows a cause. The quantization in the name of a model is none.
    """
    if found and found[0].beside_start and not (found[0].tags or _vocabulary().trouble.is_in(found[0].words)):
        return None
    if proposes(found):
        return None
    wished = wishes(found)
    troubled = [
        each
        for each in found
        if (each.title or not titles_only) and _is_of_failure(each) and not (wished and _is_wish(each))
    ]
    troubled.extend(_joined(troubled))
    expects = any(_WISHES.search(each.words) for each in found[:2]) and not any(
        BUG in each.tags for each in found[:1]
    )
    for general in (False, True):
        if general and expects:
            continue
        for sentence in troubled:
            of_code = _OF_CODE.search(sentence.words) is not None
            symptom = next(
                (
                    each
                    for each in _vocabulary().symptoms
                    if each.general is general
                    and not (of_code and each.cause.name in _vocabulary().reasons)
                    and counts(each.cause)
                    and each.is_in(sentence)
                    and each.is_in_unformatted(sentence)
                ),
                None,
            )
            if symptom is not None:
                return Described(sentence, symptom.cause, general, symptom.names_part_alone(sentence))
    title = next(
        (
            each
            for each in troubled
            if each.title
            and (BUG in each.tags or _vocabulary().complaint.is_in(_DENIES.sub(" ", each.words)))
        ),
        None,
    )
    if title is not None and title.words.isascii() and len(title.words.split()) < LEAST_WORDS:
        title = None
    if title is not None and (_ASKS.search(title.words) or title.text.endswith("?")):
        title = None
    return None if title is None or titles_only else Described(title, None, general=True)


def _joined(found: Sequence[Sentence]) -> Iterator[Sentence]:
    """Yield the clauses of each line in another script as one: one names the part, another what failed."""
    for _, same in groupby((each for each in found if not each.title), key=lambda each: each.line.number):
        clauses = tuple(each for each in same if not each.text.isascii())
        if len(clauses) > 1:
            words = "".join(each.words for each in clauses)[:LONGEST]
            yield replace(clauses[0], words=words, text="".join(each.text for each in clauses)[:LONGEST])


def proposes(found: Sequence[Sentence]) -> bool:
    """Whether a text says how something is to become, and not what failed."""
    return bool(found) and not PROPOSALS.isdisjoint(found[0].tags)


def wishes(found: Sequence[Sentence]) -> bool:
    """Whether the title of a text names what is wished."""
    return bool(found) and not WISHES.isdisjoint(found[0].tags)


def _is_wish(sentence: Sentence) -> bool:
    """Whether a sentence of a text that wishes something names no trouble: its title, and how it is to be."""
    return sentence.title or not _vocabulary().trouble.is_in(_DENIES.sub(" ", sentence.words))


def complains(found: Sequence[Sentence]) -> bool:
    """Whether a person says in any sentence that something failed."""
    return any(
        _vocabulary().complaint.is_in(_DENIES.sub(" ", each.words)) for each in found if _is_of_failure(each)
    )


def says_hang(found: Sequence[Sentence]) -> bool:
    """Whether a person says that the engine hangs, in the title or, where that names no failure, below it."""
    vocabulary = _vocabulary()
    hang = next(each for each in vocabulary.symptoms if each.general and each.cause.name == HANG)
    title = next((each for each in found if each.title), None)
    if title is not None and hang.is_in(title):
        return True
    if title is not None and vocabulary.fails.is_in(_DENIES.sub(" ", title.words)):
        return False
    return any(hang.is_in(each) for each in found if _is_of_failure(each))


def cause_of_words(message: str) -> FailureCause | None:
    """Return what the words of an exception are about that no release is known to raise."""
    words = f"{plain_words(message[:LONGEST])}{_OF_EXCEPTION}"
    return next(
        (
            each.cause
            for each in _vocabulary().symptoms
            if not (each.general or each.reported or each.tagged) and each.is_in_words(words)
        ),
        None,
    )


def _is_of_failure(sentence: Sentence) -> bool:
    if sentence.title:
        return True
    if _ASKS.search(sentence.words) and sentence.text.rstrip().endswith(("?", "\uff1f")):
        return False
    supposed = _SUPPOSES.search(sentence.words) or _WISHES.search(sentence.words)
    return not (supposed or _ATTEMPTS.match(sentence.words))


def _spelled(word: str) -> str:
    """Return the text that a sentence's plain words hold where they hold an alternative."""
    if not word.isascii():
        return word
    plain = plain_words(word)
    begins, ends = word.startswith(ANY_LETTERS), word.endswith(ANY_LETTERS)
    return plain[1 if begins else 0 : len(plain) - 1 if ends else None]


@dataclass(frozen=True, slots=True)
class _Vocabulary:
    symptoms: tuple[Symptom, ...]
    reasons: frozenset[str]
    complaint: WordGroup
    trouble: WordGroup
    fails: WordGroup


@cache
def _vocabulary() -> _Vocabulary:
    table = read_toml("service.startup_log.prose", "symptoms.toml")
    families: Mapping[str, str] = table["words"]
    causes = {each.name: each for each in CAUSES}

    forms = {name: re.compile(pattern) for name, pattern in table["forms"].items()}

    def group(text: str) -> WordGroup:
        words: list[str] = []
        for each in text.split(OR):
            if each.startswith(FAMILY):
                words.extend(group(families[each[1:]]).words)
            elif not each.startswith(FORM):
                words.append(_spelled(each))
        named = (each[1:] for each in text.split(OR) if each.startswith(FORM))
        unclear = frozenset(word for word in words if any(each in word for each in vague))
        return WordGroup(tuple(dict.fromkeys(words)), tuple(forms[name] for name in named), unclear)

    vague: frozenset[str] = frozenset()
    vague = frozenset(group(families["no_reason"]).words)
    parts = frozenset(table["parts"]["causes"])

    symptoms = (
        Symptom(
            cause=causes[each["cause"]],
            says=tuple(map(group, each["says"])),
            unless=WordGroup(tuple(word for text in each.get("unless", ()) for word in group(text).words)),
            general=each.get("general", False),
            tagged=frozenset(each.get("tagged", ())),
            reported=each.get("reported", False),
            part=each["cause"] in parts,
        )
        for each in table["symptom"]
    )
    return _Vocabulary(
        tuple(symptoms),
        frozenset(table["reasons"]["causes"]),
        group(families["complaint"]),
        group(families["trouble"]),
        group("@fails|@crash"),
    )
