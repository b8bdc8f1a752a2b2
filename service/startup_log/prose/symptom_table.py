"""The table of what people's sentences say about failures: its symptoms, and the words that they share."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from service.bundled_toml import read_toml
from service.startup_log.catalogue.phrases import CAUSES, FailureCause
from service.startup_log.prose.sentences import Sentence, plain_words, without_formats

ANY_LETTERS: Final = "*"
OR: Final = "|"
FAMILY: Final = "@"
FORM: Final = "~"
DENIES: Final = re.compile(
    r" (?:no|never|no longer|not|isn't|wasn't|nothing|without|zero|avoid|prevent|"
    r"rather than|ruled out|rules out)"
    r"(?: an?| any| single| obvious| clear)? "
    r"(?:oom|out of memory|memory (?:error|issue|problem|pressure|shortage)|"
    r"ooms|timing out|timeouts?|time outs?|"
    r"error|errors|fail\w{0,5}|crash\w{0,4}|hang\w{0,4}|stuck|problems?|issues?|"
    r"(?:dependency )?conflicts?) |"
    r" (?:is|was|are|were|not) (?:not )?(?:caused by|due to|because of|because|the|a|an) "
    r"(?:[a-z0-9.']{1,20} ){1,6}but (?=(?:the|a|an|because|due|caused|rather|that) )|"
    r" (?:oom|out of memory|memory pressure) (?:is|was|were|can be|has been) "
    r"(?:ruled out|excluded|avoided|prevented) |"
    r" (?:hangs? up|stuck (?:with|to)|works? (?:fine|well|perfectly|as expected|correctly)|worked fine|"
    r"(?:is|was|got) fixed|(?:is|are) (?:fine|ok|okay) now|works now|all good) |"
    r" (?:fixed|fixes|solved|solves|resolved|resolves) (?:the|this|that|my|our) "
    r"(?:crash|hang|error|failure|problem|issue|bug|oom) |"
    r" (?:no longer|don't|do not|didn't|did not|never) (?:get|got|see|saw|hit|face)"
    r"(?: an?| the| any| this| that)? [a-z]{0,24}(?:error|exception)s? |"
    r" you (?:may|might|could) (?:experience|encounter|face|run into) (?:[a-z0-9.']{1,20} ){1,6}|"
    r" (?:without|disabling|disabled|turning off|not using|not enabling) (?:using |enabling |the )?"
    r"(?:speculative decod\w{0,3}|spec decod\w{0,3}|speculation|eagle\d?|mtp|prefix cach\w{0,3}|"
    r"chunked prefill|cuda graphs?|cudagraphs?|async scheduling|lora|quanti[sz]ation|"
    r"tensor parallel\w{0,3}) |"
    r" (?:is|are) up and running (?:although|though|even though|but|despite) .* |"
    r" (?:can't|cannot|can not|couldn't|could not|didn't|don't|do not) (?:find|see) (?:any |the |a )?"
    r"(?:[a-z]{1,14} ){0,2}(?:guidance|guides?|documentation|docs?|examples?|instructions?|information|way|"
    r"options?|parameters?) |"
    r" not (?:in response to|about|related to) (?:an? |any )?(?:[a-z]{1,14} )?"
    r"(?:regression|failure|error|bug|crash) |"
    r" without (?:an? |any )?(?:loss|drop|degradation) (?:of|in) [a-z]{1,14} |"
    r" graceful(?:ly)? (?:handl\w{1,3}|recover\w{0,3}) (?:of |from )?"
    r"(?:oom|out of memory|crash\w{0,3}|timeouts?) "
)
"""Parts of a sentence that say that something did not fail."""
OCCASION: Final = re.compile(
    r" after (?:the |about |around |roughly |some |a )?"
    r"(?:\d{1,4}(?:st|nd|rd|th)?|second|third|fourth|fifth|tenth|few|several|multiple|many|repeated|n) "
    r"(?:[a-z0-9']{1,16} ){0,2}?(?:reloads?|reloadings?|updates?|restarts?|swaps?|cycles?|loads?)"
    r"(?: of (?:the |a |an )?[a-z0-9]{1,24}(?: (?:adapters?|weights?|models?|checkpoints?))?)? "
)
"""After which of several equal steps something happened: it is not what the step loads that failed."""
ENDED: Final = re.compile(
    r" (?:crash\w{0,4}|dies|died|killed|hangs?|hung|freezes|segfaults?|stops responding) "
)
"""What shows that a process ended or hangs."""


def affirmed(words: str) -> str:
    """Return the plain words of a sentence without what it denies, and without the occasion of an end."""
    said = DENIES.sub(" ", words)
    return OCCASION.sub(" ", said) if ENDED.search(said) else said


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
    reason: bool = False
    """Its cause says what a check of the engine gives in words."""

    @property
    def names_reason_alone(self) -> bool:
        """Whether it shows a check that gives words, and nothing known by its form, such as a tensor."""
        return self.reason and not any(each.forms for each in self.says)

    def is_in(self, sentence: Sentence) -> bool:
        """Whether a sentence has it."""
        return self.counts_in(sentence) and self.is_in_words(affirmed(sentence.words))

    def counts_in(self, sentence: Sentence) -> bool:
        """Whether the title of a sentence's issue names a kind in which it counts."""
        return not self.tagged or not self.tagged.isdisjoint(sentence.tags)

    def is_in_unformatted(self, sentence: Sentence) -> bool:
        """Whether a sentence has it without the words of quantization in names of models."""
        words = without_formats(sentence.text)
        return words == sentence.text or self.is_in_words(DENIES.sub(" ", plain_words(words)))

    def is_in_words(self, words: str) -> bool:
        """Whether a text's plain words have it."""
        return all(each.is_in(words) for each in self.says) and not self.unless.is_in(words)

    def names_part_alone(self, sentence: Sentence) -> bool:
        """Whether a sentence that has it says what failed, and nothing of why."""
        words = DENIES.sub(" ", sentence.words)
        return self.part and any(each.is_vague_in(words) for each in self.says)


def _spelled(word: str) -> str:
    """Return the text that a sentence's plain words hold where they hold an alternative."""
    if not word.isascii():
        return word
    plain = plain_words(word)
    begins, ends = word.startswith(ANY_LETTERS), word.endswith(ANY_LETTERS)
    return plain[1 if begins else 0 : len(plain) - 1 if ends else None]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The table as it is read."""

    symptoms: tuple[Symptom, ...]
    complaint: WordGroup
    complaint_of_title: WordGroup
    trouble: WordGroup
    trouble_of_question: WordGroup
    complaint_of_question: WordGroup
    trouble_of_task: WordGroup
    fails: WordGroup
    behaviours: frozenset[str]
    refined: Mapping[str, frozenset[str]]
    states: re.Pattern[str]


@cache
def vocabulary() -> Vocabulary:
    """Return the table."""
    table = read_toml("service.startup_log.prose", "symptoms.toml")
    families: Mapping[str, str] = table["words"]
    causes = {each.name: each for each in CAUSES}

    forms = {name: re.compile(pattern) for name, pattern in table["forms"].items()}

    @cache  # many texts name one family
    def alternatives(text: str) -> tuple[tuple[str, ...], tuple[re.Pattern[str], ...]]:
        words: list[str] = []
        known_by_form: list[re.Pattern[str]] = []
        for each in text.split(OR):
            if each.startswith(FAMILY):
                of_family = alternatives(families[each[1:]])
                words.extend(of_family[0])
                known_by_form.extend(of_family[1])
            elif each.startswith(FORM):
                known_by_form.append(forms[each[1:]])
            else:
                words.append(_spelled(each))
        return tuple(dict.fromkeys(words)), tuple(dict.fromkeys(known_by_form))

    vague, _ = alternatives(families["no_reason"])

    @cache
    def is_vague(word: str) -> bool:
        return any(each in word for each in vague)

    def group(text: str) -> WordGroup:
        words, known_by_form = alternatives(text)
        return WordGroup(words, known_by_form, frozenset(filter(is_vague, words)))

    parts = frozenset(table["parts"]["causes"])
    reasons = frozenset(table["reasons"]["causes"])

    symptoms = (
        Symptom(
            cause=causes[each["cause"]],
            says=tuple(map(group, each["says"])),
            unless=WordGroup(tuple(word for text in each.get("unless", ()) for word in group(text).words)),
            general=each.get("general", False),
            tagged=frozenset(each.get("tagged", ())),
            reported=each.get("reported", False),
            part=each["cause"] in parts,
            reason=each["cause"] in reasons,
        )
        for each in table["symptom"]
    )
    return Vocabulary(
        tuple(symptoms),
        group(families["complaint"]),
        group(families["complaint_of_title"]),
        group(families["trouble"]),
        group(families["trouble_of_question"]),
        group(families["complaint_of_question"]),
        group(families["trouble_of_task"]),
        group("@fails|@crash"),
        frozenset(table["behaviours"]["causes"]),
        {name: frozenset(finer) for name, finer in table["refined"].items()},
        forms["states"],
    )
