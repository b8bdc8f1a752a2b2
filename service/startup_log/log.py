"""A startup log, read: which engine, which model, which flags, which numbers, which end."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from packaging.version import Version

from service.startup_log.arguments import (
    Arguments,
    command_arguments,
    logged_arguments,
    logged_config,
)
from service.startup_log.failure import Failure, find_failure
from service.startup_log.lines import LogLine, read_lines
from service.startup_log.phrases import (
    BEGINNINGS,
    MILESTONES,
    OF_RANKS,
    STATEMENTS,
    TEMPLATES,
)
from service.startup_log.templates import Template, lines_saying

MAX_READINGS: Final = 4096
"""Values that are kept: ranks and restarts repeat them."""


@dataclass(frozen=True, slots=True)
class LogReading:
    """One value that the engine logged."""

    name: str
    value: float | str
    line: int
    """Counted from 1 in the log."""


@dataclass(frozen=True, slots=True)
class StartupLog:
    """What a log says of its last start."""

    lines: int
    """Lines that were read."""
    release: str | None
    """As the log names it, with whatever a build appends."""
    releases: tuple[Version, ...]
    """Releases whose statements stand on the lines that the log names, newest last."""
    model: str | None
    flags: Mapping[str, Any]
    """Flags that were given, by the names of ``ServeFlags``; fit for nothing until they are checked."""
    resolved: Mapping[str, Any]
    """What the engine's own configuration made of flags."""
    flags_logged: bool
    """The log holds the command or its arguments: a flag that is not among them was left at its default."""
    unmodelled: tuple[str, ...]
    """Names of flags that were given and that are not modelled."""
    readings: tuple[LogReading, ...]
    milestone: str
    """The last point that the start reached; empty before the first."""
    failure: Failure | None
    """Why it ended, or that it did; ``None`` for a start that the log does not see fail."""
    named: Mapping[str, LogReading] = field(default_factory=dict)
    """The value that counts of each name."""

    def number(self, name: str) -> float | None:
        """Return a value that is a number, ``None`` where the log has none."""
        reading = self.named.get(name)
        return reading.value if reading is not None and isinstance(reading.value, float) else None

    def word(self, name: str) -> str | None:
        """Return a value that is a word, ``None`` where the log has none."""
        reading = self.named.get(name)
        return reading.value if reading is not None and isinstance(reading.value, str) else None


def read_log(log: str) -> StartupLog:
    """Read a log; of several starts the last. Any text has an answer, if an empty one."""
    lines = read_lines(log)
    start = _last_start(lines)
    specified = command_arguments(lines)
    logged = logged_arguments(start) or logged_arguments(lines)
    config = logged_config(start)
    readings = tuple(islice(_readings(start), MAX_READINGS))
    milestone = _milestone(start)
    failure = find_failure(start)
    named = _named((*readings, *_of_failure(failure)))
    release = named.get("release")
    model = named.get("model")
    return StartupLog(
        lines=len(lines),
        release=str(release.value) if release else None,
        releases=_releases(start),
        model=_first(logged, specified, config) or (str(model.value) if model else None),
        flags={**(specified.flags if specified else {}), **(logged.flags if logged else {})},
        resolved=config.flags if config else {},
        flags_logged=specified is not None or logged is not None,
        unmodelled=(logged or specified or Arguments(None, {}, ())).unmodelled,
        readings=readings,
        milestone=milestone,
        failure=None if milestone == MILESTONES[-1].name else failure,
        named=named,
    )


def _first(*places: Arguments | None) -> str | None:
    return next((place.model for place in places if place is not None and place.model), None)


def _last_start(lines: Sequence[LogLine]) -> Sequence[LogLine]:
    """Return the lines from where the last start begins."""
    started = lines_saying([line.text for line in lines], BEGINNINGS)
    return lines[started[-1][0] :] if started else lines


def _readings(lines: Sequence[LogLine]) -> Iterator[LogReading]:
    for line, template in _said(lines):
        for values in template.find(line.text):
            yield from (LogReading(name, value, line.number) for name, value in values.items())


def _said(lines: Sequence[LogLine]) -> Iterator[tuple[LogLine, Template]]:
    starts = [template.start for template in TEMPLATES]
    for at, which in lines_saying([line.text for line in lines], starts):
        yield lines[at], TEMPLATES[which]


def _of_failure(failure: Failure | None) -> Iterator[LogReading]:
    if failure is not None:
        yield from (LogReading(name, value, failure.line) for name, value in failure.values.items())


def _named(readings: Iterable[LogReading]) -> dict[str, LogReading]:
    """Return the reading that counts of each name: the tightest rank's, else the last."""
    named: dict[str, LogReading] = {}
    for reading in readings:
        before = named.get(reading.name)
        if before is None or _counts(reading, before):
            named[reading.name] = reading
    return named


def _counts(reading: LogReading, before: LogReading) -> bool:
    if not isinstance(reading.value, float) or not isinstance(before.value, float):
        return True
    match OF_RANKS.get(reading.name):
        case "min":
            return reading.value < before.value
        case "max":
            return reading.value > before.value
        case _:
            return True


def _milestone(lines: Sequence[LogLine]) -> str:
    words = [(each.name, said) for each in MILESTONES for said in each.says]
    reached = {
        words[which][0] for _, which in lines_saying([line.text for line in lines], [w for _, w in words])
    }
    return next((each.name for each in reversed(MILESTONES) if each.name in reached), "")


def _releases(lines: Sequence[LogLine]) -> tuple[Version, ...]:
    """Return the releases that agree with most of the lines whose statement the log names."""
    statements = {
        (template.start, line.origin[0].rpartition("/")[2], line.origin[1])
        for line, template in _said(lines)
        if line.origin is not None
    }
    votes = Counter(release for statement in statements for release in STATEMENTS.get(statement, ()))
    most = max(votes.values(), default=0)
    return tuple(sorted(release for release, count in votes.items() if count == most))
