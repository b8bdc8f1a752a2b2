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
    *("\u6839\u56e0", "\u539f\u56e0", "\u56e0\u4e3a", "\uc6d0\uc778"),
)
"""Parts of words of which one is in each such sentence."""
_SAYS_WHY: Final = re.compile(
    r"(?i)\b(?:this (?:usually|typically|mostly) means (?!nothing)|root cause(?! anal)|cause[*`]{0,3}:|"
    r"(?:is|was|are|were|been) (?:caused by|due to)|"
    r"the (?:actual |real |true |underlying |likely )?(?:cause|reason|culprit)\b.{0,40}\b(?:is|was)|"
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
    r"which is|whether|how|if|maybe|isn't|wasn't|is not|was not|not the|would|should)\b|"
    r"\?$|[:\uff1a\uff0c\uff1f]$"
)
"""What shows that it asks for the reason, supposes one, denies it, or does not end with it."""


_NOT_KNOWN: Final = re.compile(
    r"(?i)\b(?:unknown|unclear|not (?:yet )?(?:known|found|identified|clear)|tbd|todo|under investigation|"
    r"pending|n/?a)\b"
)
"""What shows that the part under a label gives no reason."""


def said_reason(lines: Sequence[LogLine]) -> Quote | None:
    """Return what a text says of why something failed, unchecked: a part with such a label, or a sentence."""
    part = labelled(lines, REASON)
    if part is not None and not _NOT_KNOWN.search(part[1]):
        return Quote(part[0].number, part[1][:MOST_OF_QUOTE])
    return _said_in_sentence(lines)


def _said_in_sentence(lines: Sequence[LogLine]) -> Quote | None:
    """Return the first sentence below the title that says why something failed."""
    if not any(word in line.text for line in lines if line.origin is None for word in _WORDS):
        return None
    for each in sentences(lines):
        if each.title or not any(map(each.text.__contains__, _WORDS)):
            continue
        says = _SAYS_WHY.search(each.text) is not None and _OPEN.search(each.text) is None
        if says and not any(map(each.text.__contains__, WRAPPERS)):
            words = each.text.replace("**", "").strip(" -*>#")
            return Quote(each.line.number, words[:MOST_OF_QUOTE])
    return None
