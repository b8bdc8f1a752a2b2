"""Keeps the lines of several engines apart that Docker Compose writes into one log."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from service.startup_log.catalogue.phrases import MILESTONES
from service.startup_log.text.lines import LogLine

LEAST: Final = 2
"""Engines in one log that are kept apart."""
_SERVES: Final = MILESTONES[-1].says
"""Messages of a server that is ready."""


def by_service(lines: Sequence[LogLine]) -> Sequence[LogLine]:
    """Return the lines of each engine together, those of engines that serve first; others as they are.

    Compose writes the lines of all services as they come, each behind the name of its service.
    """
    services = _services(lines)
    engines = [each for each in services.values() if any(line.origin is not None for line in each)]
    if len(engines) < LEAST:
        return lines
    others = [each for each in services.values() if not any(line.origin is not None for line in each)]
    ordered = (*others, *sorted(engines, key=lambda each: not _serves(each)))
    return [line for each in ordered for line in each]


def bounds(lines: Sequence[LogLine]) -> Sequence[int]:
    """Return where the lines of each next engine begin, if those of each are together; empty otherwise."""
    found: list[int] = []
    seen: set[str] = set()
    name = ""
    for at, line in enumerate(lines):
        if not line.service or line.service == name:
            continue
        if line.service in seen:
            return ()
        name = line.service
        seen.add(name)
        found.append(at)
    parts = pairwise([*found, len(lines)])
    engines = [begin for begin, end in parts if any(line.origin is not None for line in lines[begin:end])]
    return engines if len(engines) >= LEAST else ()


def _services(lines: Sequence[LogLine]) -> Mapping[str, list[LogLine]]:
    """Return the lines of each service; a line without a name is of the service above it."""
    found: dict[str, list[LogLine]] = {}
    name = ""
    for line in lines:
        name = line.service or name
        found.setdefault(name, []).append(line)
    return found


def _serves(lines: Sequence[LogLine]) -> bool:
    return any(words in line.text for line in lines for words in _SERVES)
