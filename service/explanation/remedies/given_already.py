"""Leaves out of a remedy what the start was given already, or what was tried, so that it cannot help."""

import re
from typing import Final

from service.explanation.remedies.remedy_parts import BRACKETS, alternatives, joined, keeping, parts_of
from service.explanation.remedies.start_facts import StartFacts
from service.startup_log.environment.host_facts import ACTIONS

_VALUE: Final = r"[A-Z][A-Z0-9_]{2,40}|[a-z][a-z0-9_]{1,30}(?=[.,;)]|$| \(| or | and )|\d{1,6}\b"
_ACTION: Final = re.compile(
    r"(?:(?i:(?<=pass )|(?<=try )|(?<=set )|(?<=use )|(?<=with ))|(?<=or )|(?<=and )|(?<=, )|(?<=: )|^)"
    rf"(--[a-z][a-z0-9-]{{2,60}}(?: (?:{_VALUE}))?|"
    r"[A-Z][A-Z0-9_]{3,60}=[\w./]{1,40})(?! shows)"
)
"""What a remedy says to pass or to set, with a value that is a name or a number."""
_AVOIDS: Final = re.compile(r"(?i)\b(?:remove|leave|leave out|without|unset|not|no longer|drop) [^,;]{0,30}$")
"""What stands before a flag that is to be left out."""
_AVOIDS_ALL: Final = re.compile(r"(?i)^(?:start |serve )?(?:without|leave out|remove|drop)\b[^;]*$")
"""The beginning of a sentence that lists what is to be left out."""


def without_given(remedy: str, facts: StartFacts) -> str:
    """Return a remedy without the flags and variables that the start had, or that were tried in vain."""
    left: list[str] = []
    dropped: list[str] = []
    for part in parts_of(remedy):
        spans = alternatives(part)
        vain = {span: each for span in spans if (each := _in_vain(part, span, facts))}
        dropped.extend(each for each in vain.values() if each not in dropped)
        left.append(keeping(part, [each for each in spans if each not in vain]) if vain else part)
    if not dropped:
        return remedy
    named = " and ".join(dropped)
    verb = "are" if len(dropped) > 1 else "is"
    said = f"{named[:1].upper()}{named[1:]} {verb} given here already, or did not help."
    return " ".join(filter(None, (joined(left), said)))


def _in_vain(part: str, span: tuple[int, int], facts: StartFacts) -> str:
    """Return what an alternative proposes that cannot help; empty for one that can."""
    text = part[span[0] : span[1]]
    bare = BRACKETS.sub("", text)
    text = bare if _ACTION.search(bare) else text
    before = part[: span[0]]
    actions = [
        each[1]
        for each in _ACTION.finditer(text)
        if not _AVOIDS.search(said := text[: each.start()]) and not _AVOIDS_ALL.search(f"{before}{said}")
    ]
    given = [each for each in actions if _is_given(each, facts)]
    if actions and len(given) == len(actions):
        return given[0]
    said = text.lower()
    tried = (name for name in sorted(facts.tried) if any(map(said.__contains__, ACTIONS[name]["remedy"])))
    return "" if len(actions) > 1 else next(tried, "")


def _is_given(action: str, facts: StartFacts) -> bool:
    if action in facts.given:
        return True
    flag, _, value = action.partition(" ")
    name = flag.removeprefix("--").replace("-", "_")
    if name not in facts.flags and name not in facts.passed:
        return flag in facts.given and not value
    had = facts.flags.get(name, True)
    return str(had).lower() == value.lower() if value else had is True
