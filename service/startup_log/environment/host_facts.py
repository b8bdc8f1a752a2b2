"""Reads on which host the engine ran, and which actions a person tried in vain."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from service.bundled_toml import read_toml
from service.startup_log.text.lines import LogLine

_TABLES: Final = read_toml("service.startup_log.environment", "host_facts.toml")
_HOSTS: Final[Mapping[str, Mapping[str, Sequence[str]]]] = _TABLES["host"]
ACTIONS: Final[Mapping[str, Mapping[str, Sequence[str]]]] = _TABLES["action"]
"""Words of each action, by its name: in a remedy, and in a person's sentence."""
_HINTS: Final = (
    *("tried", "trying", "even ", "still ", "same ", "help", "effect", "luck", "differen", "regardless"),
    *(
        "persist",
        "did not",
        "didn't",
        "does not",
        "doesn't",
        "also ",
        "success",
        "change",
        "nothing",
        "both ",
    ),
    *("\u4e0d\u884c", "\u8bd5", "\u65e0\u6548", "\u6ca1\u7528"),
)
"""Words of which one is in each sentence that says what did not help."""
IN_VAIN: Final = re.compile(
    r"\b(?:tried|trying|even (?:with|when|after|on|if|in|though)|"
    r"still (?:fail(?:s|ed|ing)?|crash\w*|gets?|getting|hangs?|the same|happens?|occurs?|there|see(?:ing)?|"
    r"persists?|ooms?|broken)|"
    r"(?:same|identical) (?:error|issue|problem|result|crash|failure|behaviou?r|exception|traceback)|"
    r"(?:did|does|do)(?:n't| not) (?:help|work|fix|solve|change|resolve|make a difference|affect)|"
    r"no (?:effect|luck|difference|help|change)|without success|not help|persists?|regardless|did nothing|"
    r"also (?:fails?|crash\w*|happens?|occurs?|hangs?|reproduces?|tried|affect\w*)|affected)\b|"
    r"\u4e5f\u4e0d\u884c|\u8bd5\u8fc7|\u5c1d\u8bd5|\u65e0\u6548|\u6ca1\u7528"
)
"""What shows that a person's sentence names what did not help."""
HELPED: Final = re.compile(
    r"\b(?:works? (?:with|when|if|after|fine|around)|fixed|solved|resolved|lets? it|only with|have to|had to|"
    r"workaround|helps|helped|worked|(?:does|did)(?:n't| not) (?:happen|occur|crash|fail))\b"
)
ENDS: Final = re.compile(r"(?<=[.!?]) |(?<=[\u3002\uff01])")
MOST_SAID: Final = 1500
"""Lines at either end of a text in which a person's sentences are looked for."""
MOST_OF_SENTENCE: Final = 400
"""Characters in which words are looked for."""


def host_facts(lines: Sequence[LogLine]) -> frozenset[str]:
    """Return which facts of the host a text tells."""
    text = "\n".join(line.text for line in lines).lower()
    return frozenset(
        name
        for name, each in _HOSTS.items()
        if any(map(text.__contains__, each["says"]))
        and not any(map(text.__contains__, each.get("unless", ())))
    )


def tried_actions(lines: Sequence[LogLine]) -> frozenset[str]:
    """Return the names of the actions that a person tried in vain."""
    found: set[str] = set()
    for line in lines if len(lines) <= 2 * MOST_SAID else (*lines[:MOST_SAID], *lines[-MOST_SAID:]):
        if line.origin is not None or line.level or not line.text:
            continue
        text = line.text.lower()
        if any(map(text.__contains__, _HINTS)) and IN_VAIN.search(text):
            for sentence in ENDS.split(text):
                found.update(_actions_in(sentence[:MOST_OF_SENTENCE]))
        if len(found) == len(ACTIONS):
            break
    return frozenset(found)


def _actions_in(sentence: str) -> set[str]:
    if not IN_VAIN.search(sentence) or HELPED.search(sentence):
        return set()
    return {name for name, words in ACTIONS.items() if _is_named(words, sentence)}


def _is_named(words: Mapping[str, Any], sentence: str) -> bool:
    said = any(map(sentence.__contains__, words["said"]))
    return said and ("both" not in words or any(map(sentence.__contains__, words["both"])))
