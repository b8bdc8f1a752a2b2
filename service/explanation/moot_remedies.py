"""Leaves out of a remedy what this start cannot do: a size below the least one, a flag that is not set."""

import re
from collections.abc import Iterator
from typing import Final

from service.engines.arguments.effects import effect_of
from service.startup_log.log import StartupLog

_PARTS: Final = re.compile(r"(?<=[;.]) (?=[A-Za-z-])")
"""Ends of the sentences of a remedy, and of what a semicolon separates."""
_SMALLER: Final = re.compile(
    r"(?:use |pass |with )?(?:a )?(?:smaller|lower) --((?:tensor|pipeline|data)-parallel-size)[^,;.]{0,120}",
    re.IGNORECASE,
)
_REMOVED: Final = re.compile(
    r"(?P<verb>remove|leave out|start without) (?P<flag>--[a-z][a-z0-9-]{2,60})(?![\w-])(?! if)",
    re.IGNORECASE,
)
_OR: Final = re.compile(r",? or |, ")
_EXPLAINS: Final = re.compile(r", (?:which|so that|since|because|to) ")
"""What says more of the alternative before it."""
_JOINS: Final = re.compile(r"^(?:or|and) ")


def without_moot(remedy: str, log: StartupLog) -> str:
    """Return a remedy without alternatives that are none for this start.

    Where the text does not hold the whole command, a flag to remove is named with its condition.
    """
    kept = (each for part in _PARTS.split(remedy) if (each := _possible(part, log)))
    return " ".join(_sentences(kept))


def _possible(part: str, log: StartupLog) -> str:
    """Return one part of a remedy as far as it is possible; empty for nothing."""
    for found in _SMALLER.finditer(part):
        if _size(found[1], log) == 1:
            return _possible(_without(part, found), log)
    for found in _REMOVED.finditer(part):
        given = _is_set(found["flag"], log)
        if given is False:
            return _possible(_without(part, found), log)
        if given is None and not found["verb"].lower().startswith("start"):
            return f"{part[: found.end()]} if it is set{_possible(part[found.end() :], log)}"
    return part


def _size(flag: str, log: StartupLog) -> int | None:
    """Return a number of ranks of the start; ``None`` where the text does not say it."""
    name = flag.replace("-", "_")
    given = log.flags.get(name, log.resolved.get(name))
    if given is None:
        return 1 if log.flags_logged else None
    return given if isinstance(given, int) else None


def _is_set(flag: str, log: StartupLog) -> bool | None:
    """Whether a flag is among those of the start; ``None`` where the text does not hold its command."""
    name = flag.removeprefix("--").replace("-", "_")
    if name in log.flags or name in log.unmodelled or flag in log.around.given:
        return True
    # Of a flag that only older releases have, a command is read without it.
    return False if log.flags_logged and effect_of(name) is not None else None


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


def _sentences(parts: Iterator[str]) -> Iterator[str]:
    begins = True
    kept = list(parts)
    for at, part in enumerate(kept):
        text = _JOINS.sub("", part) if begins else part
        text = f"{text[:-1]}." if at == len(kept) - 1 and text.endswith(";") else text
        yield text[:1].upper() + text[1:] if begins else text
        begins = text.endswith(".")
