"""Divides a remedy into its parts and alternatives, and puts together what is left of it."""

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

_PARTS: Final = re.compile(r"(?<=[;.]) (?=[A-Za-z-])")
"""Ends of the sentences of a remedy, and of what a semicolon separates."""
_JOINS: Final = re.compile(r"^(?:(?:or|and|else|but)|[Uu]ntil then) ")
_SENTENCE: Final = re.compile(r"[A-Z][a-z]*\b(?![_-])")
"""How a part begins that is a sentence of its own."""
_OR: Final = re.compile(r",? or |, (?=[a-z-]|[A-Z][A-Z0-9_]{3,60}=)")
_CONDITION: Final = re.compile(
    r"(?:If|Where|When|While|For|On|In|With|Until|After|Before|Once|Else if|else if|if|where|when|for|on) "
)
"""How a part begins whose first words up to a comma are a condition."""
BRACKETS: Final = re.compile(r"\([^()]{0,400}\)")
_VERBS: Final = frozenset(
    word
    for words in (
        "do use find pass set start install leave lower raise build choose take give name keep",
        "remove run check download compile let see look make add serve end write merge",
        "unset free divide copy read put mount delete try send stop update upgrade move",
        "clone report pull reset share reduce increase disable enable wait ask compare",
        "correct convert train test quantize rebuild reinstall restart uninstall load",
    )
    for word in words.split()
)
"""Verbs with which a remedy says what to do."""
_BEGINS: Final = re.compile(
    r"(?:an?|the|another|other|more|fewer|a|smaller|one) |--[a-z]|[A-Z][A-Z0-9_]{3,60}="
)
"""How an alternative begins that shares the verb of the one before it."""


def parts_of(remedy: str) -> list[str]:
    """Return the sentences of a remedy, divided at semicolons that stand in no brackets."""
    hidden = _hidden(remedy)
    ends = [0, *(found.end() for found in _PARTS.finditer(hidden)), len(remedy) + 1]
    return [remedy[begin : end - 1] for begin, end in pairwise(ends)]


def _hidden(text: str) -> str:
    """Return a text of the same length that has nothing in its brackets."""
    return BRACKETS.sub(lambda found: "_" * len(found[0]), text)


def joined(parts: Iterable[str]) -> str:
    """Return the parts that are left of a remedy as sentences."""
    kept = [each for each in parts if each]
    text: list[str] = []
    begins = True
    for at, part in enumerate(kept):
        said = _JOINS.sub("", part) if begins else part
        ends = at == len(kept) - 1 or _SENTENCE.match(kept[at + 1]) is not None
        said = f"{said[:-1]}." if ends and said.endswith((";", ",")) else said
        text.append(said[:1].upper() + said[1:] if begins else said)
        begins = said.endswith(".")
    return " ".join(text)


def alternatives(part: str) -> list[tuple[int, int]]:
    """Return where the alternatives of a part stand; one alone where it has no others.

    What does not begin like an alternative says more of the one before it.
    """
    hidden = _hidden(part)
    spans: list[tuple[int, int]] = []
    at = 0
    for found in _OR.finditer(hidden):
        condition = not spans and found[0] == ", " and _is_condition(part[: found.start()])
        if _is_alternative(hidden[found.end() :]) and not condition:
            spans.append((at, found.start()))
            at = found.end()
    end = len(part.rstrip(".;"))
    return [*spans, (at, end)] if at < end else spans


def _is_condition(text: str) -> bool:
    """Whether the beginning of a part says in which case the rest of it holds."""
    verbs = any(word.lower() in _VERBS for word in text.split(" ")[1:])
    return _CONDITION.match(text) is not None and ":" not in text and not verbs


def _is_alternative(text: str) -> bool:
    return text.split(" ", 1)[0].strip(",.;").lower() in _VERBS or _BEGINS.match(text) is not None


def keeping(part: str, kept: Iterable[tuple[int, int]]) -> str:
    """Return a part with some of its alternatives; empty for none.

    What stands before the verb of the first one is a condition of all of them, and so is what a colon ends.
    """
    spans = list(kept)
    if not spans:
        return ""
    words = [part[begin:end] for begin, end in spans]
    head, verb = _head(part[: alternatives(part)[0][1]])
    before = "" if spans[0][0] == 0 else head + ("" if _begins_with_verb(words[0]) else verb)
    end = part[len(part.rstrip(".;")) :]
    *others, last = words
    listed = f"{', '.join(others)}{',' if len(others) > 1 else ''} or {last}" if others else last
    return f"{before}{listed}{end}"


def _head(first: str) -> tuple[str, str]:
    """Return what the first alternative shares with all: what stands before its verb, and the verb."""
    if (colon := first.find(": ")) >= 0:
        return first[: colon + 2], ""
    at = 0
    for word in first.split(" "):
        if word.lower() in _VERBS:
            return first[:at], f"{word} "
        at += len(word) + 1
    return "", ""


def _begins_with_verb(text: str) -> bool:
    return text.split(" ", 1)[0].lower() in _VERBS
