"""Leaves out of a remedy what the start was given already, so that it cannot help."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from service.startup_log.log import StartupLog

_PARTS: Final = re.compile(r"(?<=[;.]) (?=[A-Za-z-])")
"""Ends of the sentences of a remedy, and of what a semicolon separates."""
_ACTION: Final = re.compile(
    r"(?:(?i:(?<=pass )|(?<=try )|(?<=set )|(?<=use ))|(?<=or )|(?<=and )|(?<=, ))"
    r"(--[a-z][a-z0-9-]{2,60}(?: [A-Z][A-Z0-9_]{2,40}| (?:auto|fp8|bfloat16|float16|triton|ray|mp)\b)?|"
    r"[A-Z][A-Z0-9_]{3,60}=[\w./]{1,40})(?! shows)"
)
"""What a remedy says to pass or to set, with a value that is a name."""


def without_given(remedy: str, log: StartupLog) -> str:
    """Return a remedy without the flags and variables that the start had, or that were tried in vain."""
    given = _given(log)
    left: list[str] = []
    dropped: list[str] = []
    for part in _PARTS.split(remedy):
        actions = [each[1] for each in _ACTION.finditer(part)]
        vain = [each for each in actions if _is_given(each, given, log.around.given)]
        dropped.extend(each for each in vain if each not in dropped)
        if not vain:
            left.append(part)
        elif len(vain) < len(actions) and (shorter := _without(part, vain)) is not None:
            left.append(shorter)
    if not dropped:
        return remedy
    named = " and ".join(dropped)
    said = f"{named} {'are' if len(dropped) > 1 else 'is'} given here already, or did not help."
    return " ".join((*_sentences(left), said))


def _sentences(parts: Sequence[str]) -> Iterator[str]:
    """Yield the parts that are left of a remedy as sentences."""
    begins = True
    for at, part in enumerate(parts):
        last = at == len(parts) - 1
        text = f"{part[:-1]}." if last and part.endswith(";") else part
        yield text[:1].upper() + text[1:] if begins else text
        begins = text.endswith(".")


def _without(part: str, vain: Sequence[str]) -> str | None:
    """Return a part without some of its alternatives; ``None`` where they are not alternatives."""
    for each in vain:
        for words in (f"{each} or ", f" or {each}", f"{each}, "):
            if words in part:
                part = part.replace(words, "", 1)
                break
        else:
            return part
    return part


def _given(log: StartupLog) -> Mapping[str, Any]:
    """Return the flags of the start as they are typed, with their values; of some only the name is known."""
    flags = {**log.resolved, **log.flags}
    typed = {f"--{name.replace('_', '-')}": value for name, value in flags.items()}
    return {**{f"--{name.replace('_', '-')}": True for name in log.unmodelled}, **typed}


def _is_given(action: str, given: Mapping[str, Any], tried: Sequence[str]) -> bool:
    if action in tried:
        return True
    flag, _, value = action.partition(" ")
    if flag not in given:
        return flag in tried and not value
    return str(given[flag]).lower() == value.lower() if value else given[flag] is True
