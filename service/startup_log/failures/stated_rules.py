"""Reads the rule that the message of a check states, where its cause says only that some check refused."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from service.bundled_toml import read_toml
from service.engines.arguments.arguments import releases_with
from service.startup_log.catalogue.engine_errors import ENGINE, engine_error, packages_read
from service.startup_log.catalogue.origins import origin_of
from service.startup_log.catalogue.phrases import CauseForm, FailureCause
from service.startup_log.failures.logged_failure import Failure

LONGEST: Final = 160
"""Characters of what a rule is about, or asks for, at most; more is no name."""
LONGEST_SENTENCE: Final = 300
"""Characters of a sentence at most that is repeated as a whole."""
MOST: Final = 1200
"""Characters of a message that are read."""
MOST_FLAGS: Final = 3
"""Flags that are named of one rule."""
LEAST_OF_PAIR: Final = 2
"""Flags of which a sentence says that they do not go together."""
THIS_RELEASE: Final = "this release"
REFUSED: Final = "check_refused"
"""The cause of a check that is known by its place alone."""
PAIR: Final = "flags_not_supported_together"
"""The cause that says so."""
_CLASS: Final = re.compile(r"^(?:\w{1,60}\.){0,8}[A-Z]\w{1,80}(?:Error|Exception): ", re.ASCII)
"""The class that a program writes before a message which it quotes."""
_WRAPPED: Final = re.compile(
    r"^Worker failed with error '(.*?)(?:', please check the stack trace above for the root cause)?$",
    re.DOTALL,
)
"""vLLM 0.8.5 to 0.33.0, v1/executor/multiproc_executor.py: the engine's core repeats a worker's message."""
_ASKS: Final = "  (Could this error message be improved?"
"""PyTorch, c10/util/Exception.h TORCH_CHECK: what it adds to a check without words."""
_FOUND: Final = re.compile(r"(?:^|[,;(] ?|\bbut )(?:[Gg]ot|[Ff]ound|[Rr]eceived):? (?!\()([^;()]{1,120})")
"""What a check had before it."""
_FLAG: Final = re.compile(r"(?<![\w-])--[a-z][a-z0-9_-]{2,60}")
CHECK: Final = "settings_refused"
"""The cause that says only that some check refused the settings."""
OF_RULES: Final = "ValueError"
"""The class of the exceptions that pydantic wraps."""
ADVICE: Final = "As the message says: "
ONLY: Final = "Only "
"""Beginning of a sentence that states the rule where it is the first, and advises behind another one."""
HEADINGS: Final = ("Value error, ", "Assertion failed, ", "Error: ")
"""pydantic, and vLLM's checks of flags: what stands before the words of the rule."""
END: Final = " [type="
"""pydantic: what stands behind them."""
_SENTENCES: Final = re.compile(r"(?<=[.!])\s+(?=[A-Z`'\"-])|\n")
_DATES: Final = (" only", " yet", " now", " at the moment", " for", " currently", " is", " are")
"""Ends of such a part that say only when."""
_SETTING: Final = re.compile(r"(?<![\w.`'\"-])[a-z]{1,40}(?:_[a-z]{1,40}){1,8}(?![\w(])")
"""A name with underscores, as settings have it in the engine's code."""


@dataclass(frozen=True, slots=True)
class CheckingPlace:
    """Where a check stands."""

    package: str
    """As it is imported."""
    file: str
    """Its last part."""
    function: str

    @property
    def words(self) -> str:
        """For people, behind a message; without what is not known."""
        return ", ".join(filter(None, (self.package, self.file, self.function)))

    @property
    def of_engine(self) -> bool:
        """Whether it is a check of vLLM itself."""
        return self.package == ENGINE

    @property
    def release(self) -> str:
        """What a rule holds for, in words."""
        return THIS_RELEASE if self.of_engine else f"the installed {self.package}"

    @property
    def beside(self) -> str:
        """What helps beside what the rule says, where the check is of a package that the engine uses."""
        uses = self.package in packages_read() and not self.of_engine
        return _filled(_TABLES["beside"], {"package": self.package}) if uses else ""


@dataclass(frozen=True, slots=True)
class Rule:
    """A way to state a rule."""

    between: tuple[str, ...]
    opens: tuple[str, ...]
    closes: tuple[str, ...]
    starts: tuple[str, ...]
    says: str
    helps: str

    def read(self, sentence: str) -> Mapping[str, str] | None:
        """Return what a sentence is about and what it asks; ``None`` where it states no such rule."""
        if self.opens:
            return self._unknown(sentence)
        if sentence.startswith(self.starts) and len(sentence) <= LONGEST_SENTENCE:
            return {"subject": sentence, "object": "", "preposition": ""}
        if (end := next(filter(sentence.endswith, self.closes), None)) is not None:
            subject = _name(sentence.removesuffix(end))
            stated = 0 < len(subject) <= LONGEST and subject not in _SYSTEM
            return {"subject": subject, "object": "", "preposition": ""} if stated else None
        for words in self.between:
            head, found, rest = sentence.partition(words)
            subject, wanted = _name(head), _name(_cut(rest.partition("; ")[0]))
            if found and 0 < len(subject) <= LONGEST and 0 < len(wanted) <= LONGEST:
                preposition = words.split()[-1]
                return {"subject": subject, "object": wanted, "preposition": preposition}
        return None

    def _unknown(self, sentence: str) -> Mapping[str, str] | None:
        opening = next((each for each in self.opens if sentence.startswith(each)), None)
        name, colon, value = sentence.partition(":")
        value = _cut(value.strip()).partition(", must be")[0]
        if opening is None or not colon or not 0 < len(value) <= LONGEST or len(name) > LONGEST:
            return None
        return {"subject": name.removeprefix(opening), "object": value, "preposition": ""}


def states_rule(message: str) -> bool:
    """Whether a message says what some check asks for, or what to do."""
    sentences = _sentences_of(message)
    stated = _stated_by(sentences, None)
    return (stated is not None and bool(stated.helps)) or any(_advice(sentences))


def has_many_reasons(cause: FailureCause) -> bool:
    """Whether the words of a cause hold for failures of so many reasons that the message says more."""
    return cause.name in _GENERAL


def stated_before(cause: FailureCause, message: str, place: CheckingPlace | None) -> CauseForm | None:
    """Return a cause that only its place shows with the rule of its message before its own words."""
    sentences = _sentences_of(message)
    stated = _stated_by(sentences, place)
    if stated is None or not stated.helps:
        return None
    advice = ". ".join(_advice(sentences))
    advised = f"{ADVICE}{advice}. " if advice else ""
    return CauseForm(f"{stated.says} {cause.means}", f"{advised}{cause.remedy}")


def stated_form(cause: FailureCause, message: str, place: CheckingPlace | None) -> CauseForm | None:
    """Return what the rule in a message means and what helps; ``None`` where the cause itself says more."""
    if cause.name not in _CAUSES | _ADVISED:
        return None
    sentences = _sentences_of(_WRAPPED.sub(r"\1", message))
    advice = ". ".join(_advice(sentences))
    advised = f"{ADVICE}{advice}." if advice else ""
    if cause.name in _ADVISED:
        return CauseForm(cause.means, f"{advised} {cause.remedy}") if advised else None
    stated = _stated_by(sentences, place)
    if cause.name == REFUSED:
        return _of_place(cause, stated, advised, sentences, place)
    if stated is None:
        return CauseForm(cause.means, advised) if advised else None
    if helps := advised or stated.helps:
        return CauseForm(stated.says, helps)
    return CauseForm(f"{stated.says} {cause.means}", cause.remedy)


@dataclass(frozen=True, slots=True)
class _Stated:
    """A rule with its holes filled."""

    says: str
    helps: str


def _sentences_of(message: str) -> Sequence[str]:
    text = words_of_check(message).partition(_ASKS)[0]
    return [each.strip().rstrip(".?!") for each in _SENTENCES.split(text) if each.strip()]


def _stated_by(sentences: Sequence[str], place: CheckingPlace | None) -> _Stated | None:
    """Return the rule of the first sentence that states one."""
    release = THIS_RELEASE if place is None else place.release
    for sentence in sentences:
        head = _without_advice(sentence)
        for rule in _RULES:
            if (parts := rule.read(head)) is not None:
                named = {**parts, "sentence": head, "flags": _flags(head), "release": release}
                named["Release"] = f"{release[0].upper()}{release[1:]}"
                says = _filled(rule.says, named)
                return _Stated(f"{says}{_found(sentences, says)}", _filled(rule.helps, named))
    return None


def _found(sentences: Sequence[str], said: str) -> str:
    """Return what a message says was found instead, unless that is said already."""
    found = next(filter(None, map(_FOUND.search, sentences)), None)
    value = "" if found is None else found[1].strip(" .'\"")
    return f" Found was {value}." if value and value not in said else ""


def _of_place(
    cause: FailureCause,
    stated: _Stated | None,
    advised: str,
    sentences: Sequence[str],
    place: CheckingPlace | None,
) -> CauseForm:
    """Return what a check says that is known by its place: the rule, or its first sentence as it is."""
    first = {"sentence": sentences[0][:LONGEST_SENTENCE]}
    words = _filled(_TABLES["unruled"], first) if stated is None else stated.says
    where = "" if place is None else f" The check is in {place.words}."
    helps = advised or ("" if stated is None else stated.helps)
    beside = "" if place is None else place.beside
    return CauseForm(f"{words}{where}", " ".join(filter(None, (helps, beside))) or cause.remedy)


def said_pair(cause: FailureCause, message: str) -> CauseForm | None:
    """Return what a person says of two settings that do not go together; ``None`` where no two are named."""
    named = tuple(dict.fromkeys(_FLAG.findall(message))) if cause.name == PAIR else ()
    if len(named) < LEAST_OF_PAIR:
        return None
    flags = " and ".join(named[:MOST_FLAGS])
    return CauseForm(
        f"By these words {flags} do not go together in this release, each of which it takes alone.",
        f"Leave out one of {flags}, or give it its default value; a newer release may take them together, or "
        "refuse them when it starts.",
    )


def with_part_of_check(failure: Failure) -> Failure:
    """Return a check's refusal with the cause of the part that made it, which pydantic's frame hides."""
    if failure.cause is None or failure.cause.name != CHECK or HEADINGS[0] not in failure.message:
        return failure
    error = engine_error(OF_RULES, words_of_check(failure.message))
    if error is None or error.package != ENGINE:
        return failure
    cause = origin_of(OF_RULES, (error.frame,)).cause
    if cause is None or cause.weak:
        return failure
    return replace(failure, cause=cause, source=error.source)


def words_of_check(message: str) -> str:
    """Return a message without the class before it, and without what pydantic puts around it."""
    text = _CLASS.sub("", message[:MOST])
    for heading in HEADINGS:
        _, found, rest = text.partition(heading)
        text = rest if found else text
    return text.partition(END)[0]


def _advice(sentences: Sequence[str]) -> Iterator[str]:
    """Yield the sentences, or their last parts, that say what to do."""
    for at, each in enumerate(sentences):
        if any(map(each.__contains__, _REPORTS)):
            continue
        if each.startswith(_ADVISES) and (at or not each.startswith(ONLY)):
            yield each
        elif (at := _advice_at(each)) >= 0:
            yield each[at + 1 :].strip()


def _advice_at(sentence: str) -> int:
    """Return where the part of a sentence begins that says what to do, behind a semicolon; -1 for none."""
    found = (sentence.find(words) for words in _BEGINS)
    return min((at for at in found if at > 0), default=-1)


def _without_advice(sentence: str) -> str:
    at = _advice_at(sentence)
    return sentence if at < 0 else sentence[:at]


def _cut(text: str) -> str:
    """Return what a rule asks for, without the value that was found instead."""
    ends = (text.find(each) for each in _ENDS)
    return text[: min((at for at in ends if at >= 0), default=len(text))].strip(" .:;,")


def _name(words: str) -> str:
    """Return what a part of a sentence is about, without the words that only date it."""
    name = words.strip(" ,")
    for each in _DATES:
        name = name.removesuffix(each)
    return f"the {name[4:]}" if name.startswith("The ") else name


def _flags(sentence: str) -> str:
    """Return the flags of the settings that a sentence names as the engine's code does."""
    names = dict.fromkeys(found[0] for found in _SETTING.finditer(sentence))
    flags = (f"--{name.replace('_', '-')}" for name in names if releases_with(name))
    named = ", ".join(islice(flags, MOST_FLAGS))
    return f" ({named})" if named else ""


def _filled(template: str, parts: Mapping[str, str]) -> str:
    """Return a template with its holes filled; what fills them is never read as a template."""
    return re.sub(r"\{(\w+)\}", lambda hole: parts[hole[1]], template)


def _rule(table: Mapping[str, Any]) -> Rule:
    between, opens, closes, starts = (
        tuple(table.get(key, ())) for key in ("between", "opens", "closes", "starts")
    )
    return Rule(between, opens, closes, starts, table["says"], table["helps"])


_TABLES: Final = read_toml("service.startup_log.failures", "stated_rules.toml")
_CAUSES: Final = frozenset(_TABLES["causes"])
_ADVISED: Final = frozenset(_TABLES["advised"])
_GENERAL: Final = frozenset(_TABLES["general"])
_ADVISES: Final = tuple(f"{each} " for each in _TABLES["advises"])
_REPORTS: Final = tuple(_TABLES["reports"])
_SYSTEM: Final = frozenset(_TABLES["system"])
_BEGINS: Final = tuple(f"; {each} " for each in _TABLES["begins"])
_ENDS: Final = tuple(_TABLES["ends"])
_RULES: Final = tuple(map(_rule, _TABLES["rule"]))
