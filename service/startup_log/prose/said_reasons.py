"""Finds the sentence in which a person says why something failed."""

import re
from collections.abc import Sequence
from typing import Final

from service.startup_log.catalogue.phrases import WRAPPERS
from service.startup_log.prose.labelled_parts import REASON, labelled
from service.startup_log.prose.sentences import MOST_OF_QUOTE, Quote, sentences
from service.startup_log.text.lines import LogLine

_WORDS: Final = (
    *("ause", "eason", "culprit", "due to", "traced", "urns out", "urned out", "means"),
    *("problem is", "issue is", "found that", "\u6839\u56e0", "\u539f\u56e0", "\u56e0\u4e3a", "\uc6d0\uc778"),
)
"""Parts of words of which one is in each such sentence."""
_SAYS_WHY: Final = re.compile(
    r"(?i)\b(?:this (?:usually|typically|mostly) means (?!nothing)|root cause(?! anal)|cause[*`]{0,3}:|"
    r"(?:is|was|are|were|been) (?:\w{1,12}ly |often |mostly )?(?:caused by|due to)|"
    r"the (?:actual |real |true |underlying |likely )?(?:cause|reason|culprit)\b.{0,40}\b(?:is|was)|"
    r"(?:so|and|that) the (?:problem|issue) is "
    r"(?!solved|fixed|resolved|still|gone|not|when|with|in\b|on\b|how)|"
    r"(?:upon|after|on) (?:closer |further |some )?(?:investigat|inspect|debugg|digg)\w{2,4},? "
    r"(?:i|we) found that|"
    r"(?:fail|crash)\w{0,3} because|traced (?:it |this )?(?:back )?to|turn(?:s|ed) out (?:to be|that))|"
    r"(?:\u6839\u56e0|\u539f\u56e0)[*`]{0,3}(?:\u662f|\u5728\u4e8e|\uff1a|: )|\u662f\u56e0\u4e3a|"
    r"\u539f\u56e0\u306f|\uc6d0\uc778\uc740"
)
"""What shows that a sentence says why."""
_OPEN: Final = re.compile(
    r"(?i)\b(?:not sure|unsure|unclear|unknown|(?:don't|do not) know|"
    r"(?:can't|cannot|couldn't|could not) find|find (?:the|out)|"
    r"identify|report(?:s|ed)? the same|"
    r"see (?:the )?(?:root|stack)|for (?:the )?root cause|no root cause|what|why|"
    r"which is|whether|how|if|maybe|suspect|isn't|wasn't|is not|was not|not the|would|should)\b|"
    r"\?$|[:\uff1a\uff0c\uff1f]$"
)
"""What shows that it asks for the reason, supposes one, denies it, or does not end with it."""


_NOT_KNOWN: Final = re.compile(
    r"(?i)\b(?:unknown|unclear|not (?:yet )?(?:known|found|identified|clear)|tbd|todo|under investigation|"
    r"pending|n/?a)\b"
)
"""What shows that the part under a label gives no reason."""
_ASKS: Final = re.compile(r"\?\s*$|\uff1f\s*$")


_ANNOUNCES: Final = re.compile(
    r"(?i)\b(?:found|identified|located|tracked down|know|here is|here's|got) (?:out )?"
    r"(?:the |a |its |my |our )?(?:likely |actual |real |true |possible )?(?:root cause|cause|reason|culprit)"
    r"(?: (?:of|for|behind) (?:this|the|my|it|that)(?: [a-z]{1,20}){0,3})?[.!\s]{0,4}$"
)
"""A sentence that only says that the reason is known; the next one gives it."""
_GOES_ON: Final = (":", "\uff1a")
"""Ends of a sentence that goes on in what is below it, such as code."""


def said_reason(lines: Sequence[LogLine]) -> Quote | None:
    """Return what a text says of why something failed, unchecked: a part with such a label, or a sentence."""
    part = labelled(lines, REASON)
    if part is not None and not _NOT_KNOWN.search(part[1]):
        return _with_what_follows(part[0].number, part[1], lines)
    return _said_in_sentence(lines)


def _with_what_follows(number: int, words: str, lines: Sequence[LogLine]) -> Quote:
    """Return a reason, and where it ends in code that is not shown, the sentence below the code."""
    below = next((each for each in sentences(lines) if each.line.number > number and not each.title), None)
    if not words.endswith(_GOES_ON) or below is None or below.text.endswith((*_GOES_ON, "?", "\uff1f")):
        return Quote(number, words[:MOST_OF_QUOTE])
    own = f"{words[:-1].rstrip()} ... {_plain(below.text)}"
    return Quote(number, own[:MOST_OF_QUOTE])


def _said_in_sentence(lines: Sequence[LogLine]) -> Quote | None:
    """Return the first sentence below the title that says why something failed."""
    if not any(word in line.text for line in lines if line.origin is None for word in _WORDS):
        return None
    announced = False
    for each in sentences(lines):
        follows, announced = announced, _ANNOUNCES.search(each.text) is not None
        if follows and not (announced or each.title or _ASKS.search(each.text)):
            return Quote(each.line.number, _plain(each.text)[:MOST_OF_QUOTE])
        if each.title or announced or not any(map(each.text.__contains__, _WORDS)):
            continue
        says = _SAYS_WHY.search(each.text) is not None and _OPEN.search(each.text) is None
        if says and not any(map(each.text.__contains__, WRAPPERS)):
            return Quote(each.line.number, _plain(each.text)[:MOST_OF_QUOTE])
    return None


def _plain(text: str) -> str:
    """Return a sentence without the marks of Markdown around and in it."""
    return text.replace("**", "").strip(" -*>#")
