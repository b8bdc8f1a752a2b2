"""StartupLog: the facts in a startup log, such as release, model, flags, memory figures and failure."""

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
from service.startup_log.templates import Template, lines_containing

MAX_READINGS: Final = 4096
"""Values that are stored at most; ranks and restarts repeat them."""


@dataclass(frozen=True, slots=True)
class LogReading:
    """One value that the engine logged."""

    name: str
    value: float | str
    line: int
    """Counted from 1 in the log."""


@dataclass(frozen=True, slots=True)
class StartupLog:
    """The facts that a log states about its last start."""

    lines: int
    """Number of lines that were read."""
    release: str | None
    """The release as the log names it, with the suffix of a build."""
    releases: tuple[Version, ...]
    """Releases whose source has the log statements on the line numbers in the log, newest last."""
    model: str | None
    flags: Mapping[str, Any]
    """Flags that were passed, by the names of ``ServeFlags``. They are not validated."""
    resolved: Mapping[str, Any]
    """Values of flags in the engine's own resolved configuration."""
    flags_logged: bool
    """The log contains the command or its arguments, so a flag that is not among them had its default."""
    unmodelled: tuple[str, ...]
    """Names of flags that were passed and that are not modelled."""
    readings: tuple[LogReading, ...]
    milestone: str
    """The last milestone that the start reached; empty before the first."""
    failure: Failure | None
    """The failure of the start; ``None`` if the log shows none."""
    named: Mapping[str, LogReading] = field(default_factory=dict)
    """The reading that is used for each name, if there are several."""

    def number(self, name: str) -> float | None:
        """Return the number of this name; ``None`` if the log has none."""
        reading = self.named.get(name)
        return reading.value if reading is not None and isinstance(reading.value, float) else None

    def word(self, name: str) -> str | None:
        """Return the word of this name; ``None`` if the log has none."""
        reading = self.named.get(name)
        return reading.value if reading is not None and isinstance(reading.value, str) else None


def read_log(log: str) -> StartupLog:
    """Return the facts in a log about its last start. Missing facts are None or empty."""
    lines = read_lines(log)
    start = _last_start(lines)
    command = command_arguments(lines)
    logged = logged_arguments(start) or logged_arguments(lines)
    config = logged_config(start)
    readings = tuple(islice(_readings(start), MAX_READINGS))
    milestone = _milestone(start)
    failure = find_failure(start)
    named = _named((*readings, *_failure_readings(failure)))
    release = named.get("release")
    model = named.get("model")
    return StartupLog(
        lines=len(lines),
        release=str(release.value) if release else None,
        releases=_releases(start),
        model=_first(logged, command, config) or (str(model.value) if model else None),
        flags={**(command.flags if command else {}), **(logged.flags if logged else {})},
        resolved=config.flags if config else {},
        flags_logged=command is not None or logged is not None,
        unmodelled=(logged or command or Arguments(None, {}, ())).unmodelled,
        readings=readings,
        milestone=milestone,
        failure=None if milestone == MILESTONES[-1].name else failure,
        named=named,
    )


def _first(*places: Arguments | None) -> str | None:
    return next((place.model for place in places if place is not None and place.model), None)


def _last_start(lines: Sequence[LogLine]) -> Sequence[LogLine]:
    """Return the lines from the beginning of the last start on."""
    started = lines_containing([line.text for line in lines], BEGINNINGS)
    return lines[started[-1][0] :] if started else lines


def _readings(lines: Sequence[LogLine]) -> Iterator[LogReading]:
    for line, template in _matches(lines):
        for values in template.find(line.text):
            yield from (LogReading(name, value, line.number) for name, value in values.items())


def _matches(lines: Sequence[LogLine]) -> Iterator[tuple[LogLine, Template]]:
    starts = [template.start for template in TEMPLATES]
    for at, which in lines_containing([line.text for line in lines], starts):
        yield lines[at], TEMPLATES[which]


def _failure_readings(failure: Failure | None) -> Iterator[LogReading]:
    if failure is not None:
        yield from (LogReading(name, value, failure.line) for name, value in failure.values.items())


def _named(readings: Iterable[LogReading]) -> dict[str, LogReading]:
    """Return the reading that is used for each name: that of the rank with the least room, else the last."""
    named: dict[str, LogReading] = {}
    for reading in readings:
        before = named.get(reading.name)
        if before is None or _replaces(reading, before):
            named[reading.name] = reading
    return named


def _replaces(reading: LogReading, before: LogReading) -> bool:
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
    words = [(each.name, sentence) for each in MILESTONES for sentence in each.says]
    reached = {
        words[which][0] for _, which in lines_containing([line.text for line in lines], [w for _, w in words])
    }
    return next((each.name for each in reversed(MILESTONES) if each.name in reached), "")


def _releases(lines: Sequence[LogLine]) -> tuple[Version, ...]:
    """Return the releases whose source agrees with most of the log statements' line numbers."""
    statements = {
        (template.start, line.origin[0].rpartition("/")[2], line.origin[1])
        for line, template in _matches(lines)
        if line.origin is not None
    }
    votes = Counter(release for statement in statements for release in STATEMENTS.get(statement, ()))
    most = max(votes.values(), default=0)
    return tuple(sorted(release for release, count in votes.items() if count == most))
