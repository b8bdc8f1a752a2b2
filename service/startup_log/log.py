"""StartupLog: the facts in a startup log, such as release, model, flags, memory figures and failure."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from typing import Any, Final

from packaging.version import Version

from service.startup_log.catalogue.phrases import (
    CAUSES,
    ENDS,
    HANGS,
    OF_RANKS,
    STATEMENTS,
    TEMPLATES,
    WAITS,
    WAITS_FOR,
)
from service.startup_log.catalogue.templates import Template, lines_containing
from service.startup_log.catalogue.whole_messages import MAX_MESSAGE
from service.startup_log.environment.arguments import (
    Arguments,
    command_arguments,
    logged_arguments,
    logged_config,
)
from service.startup_log.environment.measured_service import (
    MeasuredService,
    ServedCache,
    benchmark_results,
    engine_metrics,
    served_cache,
)
from service.startup_log.environment.snippets import snippet_arguments
from service.startup_log.environment.surroundings import NOTHING, Surroundings, read_surroundings
from service.startup_log.errors.shown_code import without_script
from service.startup_log.failures.forms import with_form
from service.startup_log.failures.loaded_drafts import with_draft
from service.startup_log.failures.logged_failure import Failure
from service.startup_log.served import had_started
from service.startup_log.starts import CAME_UP, SERVING, LoggedStart, in_order, split_starts
from service.startup_log.text.lines import LogLine, read_lines
from service.startup_log.text.long_logs import CondensedLog

MAX_READINGS: Final = 4096
"""Values that are stored at most; ranks and restarts repeat them."""
MOST_OF_BANNER: Final = 2000
"""Lines in which the banner of a server is looked for."""
UNFINISHED: Final = frozenset({"loading", "profiling"})
"""Milestones after which a whole log that simply stops shows an engine that was ended."""
OFTEN: Final = 3
"""Times that a process says that another one does not answer, each after a minute, when one hangs."""
LAST: Final = 8
"""Lines at the end of a log that show what it was doing."""
_HUB_FILE: Final = re.compile(
    r"https?://[\w.:-]{3,80}/(?:api/models/)?([\w.-]{1,96}/[\w.-]{1,96})/(?:resolve|raw|tree|revision)/"
)
"""The address of a file of a model."""
_BY_NAME: Final = {cause.name: cause for cause in CAUSES}
_LASTING: Final = (*HANGS, *WAITS_FOR)
"""Of what a process waits for in vain, so that it says it last."""
_STOPS: Final = _BY_NAME["ends_without_a_word"]


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
    """Number of lines of the log."""
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
    starts: int = 1
    """Number of starts that the log holds."""
    failed_start: int | None = None
    """Which of them failed, counted from 1; of several the last. ``None`` if none did."""
    failed_after: str = ""
    """The last milestone that the failed start reached; empty before the first."""
    earlier: Failure | None = None
    """The failure of that start, if a later start came up; ``failure`` is ``None`` then."""
    unread_lines: int = 0
    """Lines in the middle of a long log that were searched for failures alone."""
    newest_first: bool = False
    """The log was exported with its newest line first."""
    server: bool = True
    """Whether a server was started, and not the offline class ``LLM``, whose defaults differ."""
    around: Surroundings = NOTHING
    """What the text says beside the engine's own lines."""
    ended_on: int | None = None
    """Line on which the process of the server ended in order; ``None`` if it did not."""
    failed_named: Mapping[str, LogReading] | None = None
    """The readings of the start that failed, by name, where ``named`` holds those of another start."""
    stopped_on: int | None = None
    """Line on which the engine was asked to stop; ``None`` if it was not."""
    waits: LogReading | None = None
    """What a start that neither failed nor came up waits for at the end of the log."""
    measured: tuple[MeasuredService, ...] = ()
    """Speeds that a benchmark or the engine's metrics state."""
    served_cache: ServedCache | None = None
    """The cache that the engine's metrics state."""
    engine_lines: int = 0
    """Lines that state the file of the engine that logged them."""
    packed: str = ""
    """The program that compressed what was given, which is no text then; empty for a text."""
    answering: bool = False
    """The log shows requests that an engine answers, without the start before them."""

    @property
    def at_failure(self) -> "StartupLog":
        """The log with the readings of the start that failed."""
        return self if self.failed_named is None else replace(self, named=self.failed_named)

    def number(self, name: str) -> float | None:
        """Return the number of this name; ``None`` if the log has none."""
        reading = self.named.get(name)
        return reading.value if reading is not None and isinstance(reading.value, float) else None

    @property
    def found_compiled(self) -> bool:
        """Whether the start loads the compiled model from the cache."""
        return "compiled_model" in self.named or "compiled_load_s" in self.named

    def word(self, name: str) -> str | None:
        """Return the word of this name; ``None`` if the log has none."""
        reading = self.named.get(name)
        return reading.value if reading is not None and isinstance(reading.value, str) else None


def read_log(log: str | CondensedLog) -> StartupLog:
    """Return the facts in a log about its last start. Missing facts are None or empty."""
    read = read_lines(log)
    lines, newest_first = in_order(read)
    starts = split_starts(without_script(lines))
    which, failed = _explained(starts)
    start, milestone = starts[which].lines, starts[which].milestone
    failure = _silent(starts[which]) if failed is None else _as_logged(starts[failed])
    came_up = failed is not None and failed != which and starts[which].milestone in CAME_UP
    command = command_arguments(lines)
    logged = logged_arguments(start) or logged_arguments(lines)
    if logged is None:
        command = _with_snippet(command, log if isinstance(log, str) else log.beginning)
    config = logged_config(start)
    readings = tuple(islice(_readings(start), MAX_READINGS))
    named = _named((*readings, *_failure_readings(failure)))
    around = read_surroundings(lines)
    release = named.get("release")
    model = named.get("model")
    return StartupLog(
        lines=read[-1].number if read else 0,
        release=str(release.value) if release else _only_release(starts),
        releases=_releases(start),
        model=_first(logged, command, config) or (str(model.value) if model else _of_hub(failure)),
        flags={**(command.flags if command else {}), **(logged.flags if logged else {})},
        resolved=config.flags if config else {},
        flags_logged=command is not None or logged is not None,
        unmodelled=(logged or command or Arguments(None, {}, ())).unmodelled,
        readings=readings,
        milestone=milestone,
        failure=None if came_up else failure,
        failed_after=starts[which if failed is None else failed].milestone,
        earlier=failure if came_up else None,
        named=named,
        starts=len(starts),
        failed_start=None if failure is None else 1 + (which if failed is None else failed),
        unread_lines=_unread(read),
        newest_first=newest_first,
        around=around,
        server=any("API server" in line.text or "api_server" in line.text for line in lines[:MOST_OF_BANNER]),
        stopped_on=starts[which].stopped_on,
        waits=_waits(starts[which]),
        ended_on=next((line.number for line in lines for words in ENDS if words in line.text), None),
        failed_named=_failed_named(starts[failed]) if failed is not None and failed != which else None,
        measured=(*benchmark_results(read), *_served(read)),
        served_cache=served_cache(read),
        engine_lines=sum(line.origin is not None for line in read),
        answering=had_started(lines, milestone),
        packed="" if isinstance(log, str) else log.packed,
    )


def _only_release(starts: Sequence[LoggedStart]) -> str | None:
    """Return the release that the starts of a text name, if they name one alone."""
    if len(starts) == 1:
        return None
    found = {str(each.value) for start in starts for each in _readings(start.lines) if each.name == "release"}
    return found.pop() if len(found) == 1 else None


def _served(lines: Sequence[LogLine]) -> Iterator[MeasuredService]:
    found = engine_metrics(lines)
    if found is not None:
        yield found


def _with_snippet(command: Arguments | None, log: str) -> Arguments | None:
    """Return the start of a command, or of a file or a program beside the log where that says more."""
    if command is not None and command.model is not None and "${" not in log:
        return command
    snippet = snippet_arguments(log)
    if snippet is None or command is None or command.model is None:
        return snippet or command
    if snippet.model != command.model:
        return command
    # The values of variables stand in the snippet alone.
    return replace(command, flags={**snippet.flags, **command.flags})


def _first(*places: Arguments | None) -> str | None:
    """Return the first name of a model; what has no letter or digit is a rest of a quoted command."""
    names = (each.model for each in places if each is not None and each.model and "[" not in each.model)
    return next((name for name in names if any(map(str.isalnum, name))), None)


def _of_hub(failure: Failure | None) -> str | None:
    """Return the model whose file the Hub refused, by the address in its message."""
    found = None if failure is None else _HUB_FILE.search(failure.message)
    return None if found is None else found[1]


def _unread(lines: Sequence[LogLine]) -> int:
    """Return how many numbers of lines are missing between those that were read."""
    pairs = pairwise(lines)
    return sum(max(0, later.number - earlier.number - 1) for earlier, later in pairs)


def _explained(starts: Sequence[LoggedStart]) -> tuple[int, int | None]:
    """Return the start whose values are read, and the start whose failure is explained; ``None`` without any.

    The last start is read. If it neither failed nor came up, an earlier one that failed is: the log of a
    crash loop ends somewhere. If it shows only that something failed, or came up, an earlier failure is
    explained.
    """
    last = len(starts) - 1
    roots = [at for at, start in enumerate(starts) if start.failure is not None and not start.failure.follows]
    ending = starts[last].failure
    if ending is not None and (not ending.follows or not roots):
        return last, last
    if not roots:
        failed = [at for at, start in enumerate(starts) if start.failure is not None]
        return last, failed[-1] if failed else None
    if ending is None and starts[last].milestone not in CAME_UP:
        return roots[-1], roots[-1]
    return last, roots[-1]


def _silent(start: LoggedStart) -> Failure | None:
    """Return the failure of a start whose log stops in its middle; ``None`` for any other.

    Waiting is none, but for what does not come by itself.
    """
    if (hangs := _hangs(start)) is not None:
        return hangs
    if (waits := _waits(start)) is not None:
        words = str(waits.value)
        known = next((_BY_NAME[cause] for says, cause in WAITS_FOR.items() if says in words), None)
        said = Failure("", words[:MAX_MESSAGE], waits.line, known, {})
        return None if known is None else with_form(said, start.lines)
    if not start.begun or start.milestone not in UNFINISHED or start.stopped_on is not None:
        return None
    line = next((each for each in reversed(start.lines) if each.text), None)
    stops = None if line is None else Failure("", line.text, line.number, _STOPS, {}, follows=True)
    return None if stops is None else with_draft(stops, start.lines)


def _as_logged(start: LoggedStart) -> Failure | None:
    """Return a described failure in the program's words, where the program logs that it waits for this."""
    failure = start.failure
    if failure is None or failure.cause is None or not failure.paraphrased:
        return failure
    says = [words for words, cause in WAITS_FOR.items() if cause == failure.cause.name]
    line = next((line for line in reversed(start.lines) if any(map(line.text.__contains__, says))), None)
    if line is None:
        return failure
    message = line.text[:MAX_MESSAGE]
    return replace(failure, message=message, line=line.number, paraphrased=False, hangs=True)


def _hangs(start: LoggedStart) -> Failure | None:
    """Return the failure of an engine that says to the end that a process does not answer."""
    if start.failure is not None or start.stopped_on is not None:
        return None
    last = list(islice((line for line in reversed(start.lines) if line.text), LAST))
    logged = next((line for line in last if line.origin), None)
    for words, cause in HANGS.items():
        said = [line for line in last if words in line.text]
        if len(said) >= OFTEN and said[0] is logged:
            serving = start.milestone == SERVING or had_started(start.lines, start.milestone)
            line = said[0]
            message = line.text[:MAX_MESSAGE]
            return Failure("", message, line.number, _BY_NAME[cause], {}, serving=serving, hangs=True)
    return None


def _waits(start: LoggedStart) -> LogReading | None:
    """Return what a start waits for where its log ends; waiting is no failure until the log shows an end."""
    if start.failure is not None or start.milestone == SERVING:
        return None
    last = list(islice((line for line in reversed(start.lines) if line.text), LAST))
    logged = next((at for at, line in enumerate(last) if line.origin), LAST)
    said = (
        line
        for at, line in enumerate(last)
        if any(map(line.text.__contains__, WAITS))
        and (at <= logged or not any(map(line.text.__contains__, _LASTING)))
    )
    return next((LogReading("waits", line.text, line.number) for line in said), None)


def _readings(lines: Sequence[LogLine]) -> Iterator[LogReading]:
    for line, template in _matches(lines):
        for values in template.find(line.text):
            yield from (LogReading(name, _plain(value), line.number) for name, value in values.items())


def _plain(value: float | str) -> float | str:
    """Return a value without the enumeration that some releases print before it, or a mark behind it."""
    return value.removeprefix("AttentionBackendEnum.").rstrip("`") if isinstance(value, str) else value


def _matches(lines: Sequence[LogLine]) -> Iterator[tuple[LogLine, Template]]:
    starts = [template.start for template in TEMPLATES]
    for at, which in lines_containing([line.text for line in lines], starts):
        yield lines[at], TEMPLATES[which]


def _failure_readings(failure: Failure | None) -> Iterator[LogReading]:
    if failure is not None:
        yield from (LogReading(name, value, failure.line) for name, value in failure.values.items())


def _failed_named(start: LoggedStart) -> Mapping[str, LogReading]:
    readings = islice(_readings(start.lines), MAX_READINGS)
    return _named((*readings, *_failure_readings(start.failure)))


def _named(readings: Iterable[LogReading]) -> dict[str, LogReading]:
    """Return the reading that is used for each name: that of the rank with the least room, else the last."""
    named: dict[str, LogReading] = {}
    for reading in readings:
        before = named.get(reading.name)
        if before is None or _replaces(reading, before):
            named[reading.name] = reading
    return named


def _replaces(reading: LogReading, before: LogReading) -> bool:
    if OF_RANKS.get(reading.name) == "first":
        return False
    if not isinstance(reading.value, float) or not isinstance(before.value, float):
        return True
    match OF_RANKS.get(reading.name):
        case "min":
            return reading.value < before.value
        case "max":
            return reading.value > before.value
        case _:
            return True


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
