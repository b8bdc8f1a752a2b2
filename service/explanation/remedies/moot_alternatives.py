"""Leaves out of a remedy what this start cannot do: a size below the least one, a flag that is not set."""

import re
from typing import Final

from service.engines.arguments.effects import effect_of
from service.explanation.remedies.remedy_parts import joined, parts_of
from service.explanation.remedies.start_facts import StartFacts

_SMALLER: Final = re.compile(
    r"(?:use |pass |with )?(?:a )?(?:smaller|lower) --((?:tensor|pipeline|data)-parallel-size)[^,;.]{0,120}",
    re.IGNORECASE,
)
_REMOVED: Final = re.compile(
    r"(?P<verb>remove|leave out|start without) (?P<flag>--[a-z][a-z0-9-]{2,60})(?![\w-])"
    r"(?:=[\w.]{1,40})?(?: (?!only|as|from|or|and|at)[\w.]{2,40}(?=[,.;]|$))?(?! if)",
    re.IGNORECASE,
)
_OR: Final = re.compile(r",? or |, ")
_EXPLAINS: Final = re.compile(r", (?:which|so that|since|because|to) ")
"""What says more of the alternative before it."""


def without_moot(remedy: str, facts: StartFacts) -> str:
    """Return a remedy without alternatives that are none for this start.

    Where the text does not hold the whole command, a flag to remove is named with its condition.
    """
    return joined(_possible(part, facts) for part in parts_of(remedy))


def _possible(part: str, facts: StartFacts) -> str:
    """Return one part of a remedy as far as it is possible; empty for nothing."""
    for found in _SMALLER.finditer(part):
        if _size(found[1], facts) == 1:
            return _possible(_without(part, found), facts)
    for found in _REMOVED.finditer(part):
        given = _is_set(found["flag"], facts)
        if given is False:
            return _possible(_without(part, found), facts)
        if given is None and not found["verb"].lower().startswith("start"):
            return f"{part[: found.end()]} if it is set{_possible(part[found.end() :], facts)}"
    return part


def _size(flag: str, facts: StartFacts) -> int | None:
    """Return a number of ranks of the start; ``None`` where the text does not say it."""
    name = flag.replace("-", "_")
    given = facts.flags.get(name)
    if given is None:
        return 1 if facts.whole_command else None
    return given if isinstance(given, int) else None


def _is_set(flag: str, facts: StartFacts) -> bool | None:
    """Whether a flag is among those of the start; ``None`` where the text does not hold its command."""
    name = flag.removeprefix("--").replace("-", "_")
    if name in facts.passed or flag in facts.given:
        return True
    # Of a flag that only older releases have, a command is read without it.
    return False if facts.whole_command and effect_of(name) is not None else None


def _without(part: str, found: re.Match[str]) -> str:
    """Return a part without one of its alternatives; empty where it is the only one."""
    before, after = part[: found.start()], part[found.end() :]
    joined = list(_OR.finditer(before))
    if joined and joined[-1].end() == len(before):
        before = before[: joined[-1].start()]
        if " or " in joined[-1][0] and (comma := before.rfind(", ")) >= 0 and after[:1] != ",":
            before = f"{before[:comma]}, or {before[comma + 2 :]}"
        return before + after
    follows = _OR.match(after)
    if follows is None or _EXPLAINS.match(after):
        return ""
    return f"{before}{after[follows.end() :]}"
