"""Splits a log into the starts that it holds, and finds how each of them ended."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from service.startup_log.catalogue.known_words import known_words, shows_death
from service.startup_log.catalogue.origins import OF_ENGINE, is_starting
from service.startup_log.catalogue.phrases import BEGINNINGS, CAUSES, DEATHS, GONE, MILESTONES, STOPS
from service.startup_log.catalogue.refused_answers import POSTED
from service.startup_log.catalogue.templates import lines_containing
from service.startup_log.environment.compose_services import bounds, by_service
from service.startup_log.errors.exceptions import QUIET, class_in, raises
from service.startup_log.errors.tracebacks import HEADER, frame_of, frames_above
from service.startup_log.failures.failure import DIED, KILLED, NOT_REACHED, find_failure
from service.startup_log.failures.forms import with_form
from service.startup_log.failures.inspections import says_no_reason
from service.startup_log.failures.logged_failure import Failure, is_of_request
from service.startup_log.failures.refused_requests import refused_answers
from service.startup_log.failures.said_failures import DUMPED
from service.startup_log.failures.stopped_servers import unless_stopped
from service.startup_log.failures.titles import FAULT, with_reason
from service.startup_log.failures.which_traceback import NOT_INSTALLED
from service.startup_log.served import had_started
from service.startup_log.text.lines import LogLine

SERVING: Final = MILESTONES[-1].name
_SERVES: Final = MILESTONES[-1].says
"""Messages of a server that came up."""
CAME_UP: Final = frozenset({"cache", "capture", SERVING})
"""Milestones of a start that is past the refusals of the engine; earlier failures are not its own."""
MAX_STARTS: Final = 64
"""Starts of a log that are kept apart; of more, the last ones."""
MOST_OF_HEADING: Final = 300
"""Lines above the first start that can be what a person says of it."""
_TITLE: Final = re.compile(r"# |\[(?:Bug|Usage|Installation|Performance|Feature|New Model)\]")
"""The beginning of the title of an issue."""
BEFORE_A_DEATH: Final = 300
"""Lines before the message of an engine's death in which its reason is looked for."""
BELOW_AN_ANSWER: Final = 300
"""Lines below an answer that failed in which its traceback ends."""
_NATIVE_ERROR: Final = re.compile(
    r"(?:\[rank\d{1,4}\]:)?\[[EF]\d{3,4} \d\d:\d\d:\d\d[.\d]{0,12} \S{1,80}:\d{1,6}\] ", re.ASCII
)
"""Head of an error that PyTorch's C++ code logs: `[rank3]:[E716 19:47:26.324588983 shim_common.cpp:523] `.

Source: PyTorch, c10/util/Logging.cpp MessageLogger.
"""
_OF_UVICORN: Final = "Exception in ASGI application"
"""uvicorn, protocols/http/httptools_impl.py RequestResponseCycle.run_asgi: heads a request's traceback."""
_OF_CURL: Final = "curl: ("
"""Begins an error message of the client."""
_OF_KILLS: Final = ("Killed", "killed", "SIGKILL")
"""Words of which shells and supervisors write one where a process was ended so."""
_OF_ANSWERS: Final = ('HTTP/1.1" 200',)
"""uvicorn, logging.py AccessFormatter: an answer."""
_DIED: Final = next(cause for cause in CAUSES if cause.name == DIED)
_FAILED_REQUEST: Final = next(cause for cause in CAUSES if cause.name == "request_failed")
_ANSWERED: Final = re.compile(
    r'"(?:POST|GET) /\S{1,200} HTTP/[\d.]{1,4}" \d{3}\b|Generated response (?:chatcmpl|cmpl)-'
)
"""How the logs of uvicorn and of the engine write that a request was answered."""
_FEW: Final = 8
"""Changes of the time that an export must have before its order is judged."""
_MOST_OF: Final = 0.8


@dataclass(frozen=True, slots=True)
class LoggedStart:
    """One start of an engine."""

    lines: Sequence[LogLine]
    milestone: str
    """The last milestone that it reached; empty before the first."""
    failure: Failure | None
    stopped_on: int | None
    """Line on which it was asked to stop; ``None`` if it was not."""
    begun: bool = True
    """The log holds its first message."""


def in_order(lines: Sequence[LogLine]) -> tuple[Sequence[LogLine], bool]:
    """Return the lines oldest first, and whether they were newest first, as some log viewers export them.

    Those of several engines of Docker Compose are kept together.
    """
    times = [line.time for line in lines if line.time]
    changes = [later < earlier for earlier, later in pairwise(times) if later != earlier]
    reverse = len(changes) >= _FEW and sum(changes) >= _MOST_OF * len(changes)
    return by_service(lines[::-1] if reverse else lines), reverse


def split_starts(lines: Sequence[LogLine]) -> tuple[LoggedStart, ...]:
    """Return the starts of a log, oldest first; lines before the first one are a start only if it failed."""
    texts = [line.text for line in lines]
    banners = [at for at, _ in lines_containing(texts, BEGINNINGS)]
    begins = sorted({*banners, *bounds(lines), *_of_other_programs(lines, texts, banners)})[-MAX_STARTS:]
    ends = [0, *(at for at in begins if at), len(lines)]
    starts: list[LoggedStart] = []
    begun_at, begun = 0, False
    for begin, end in pairwise(ends):
        begun = begun or begin in begins
        heading = begin if begun_at == 0 and 0 < begin == ends[1] <= MOST_OF_HEADING else 0
        start = _start(lines[begin - heading : end], begun=begun)
        if end < len(lines) and not start.milestone and _shows_no_failure(start):
            # Nothing happened before the next banner, so that both belong to one start.
            continue
        if len(starts) == 1 and (headed := _under_heading(starts[0], start)) is not None:
            begun_at = 0
            starts.clear()
            start = headed
        starts.append(replace(start, lines=lines[begun_at:end]))
        begun_at, begun = end, False
    return tuple(starts)


def _of_other_programs(
    lines: Sequence[LogLine], texts: Sequence[str], banners: Sequence[int]
) -> Iterator[int]:
    """Yield the places below a front end's last words from which another engine goes on that then serves.

    Two programs wrote into one file: the banner of the second stands above the end of the first.
    """
    gone = [at for at, _ in lines_containing(texts, GONE)]
    served = [at for at, _ in lines_containing(texts, _SERVES)] if gone else []
    of_engine: dict[int, bool] = {}
    for at in gone:
        place, banner = bisect_right(served, at), bisect_right(banners, at)
        end = banners[banner] if banner < len(banners) else len(lines)
        if place == len(served) or served[place] >= end:
            continue
        reached = served[place]
        if reached not in of_engine:
            of_engine[reached] = not _is_of_another_server(reached, lines)
        if of_engine[reached]:
            yield at + 1


def _shows_no_failure(start: LoggedStart) -> bool:
    """Whether no line of the engine shows a failure; what a person says of it is about the start below.

    What it logs as a warning or below it went on without; an engine that is said not to be installed was
    there when it logged its banner.
    """
    failure = start.failure
    if failure is None or failure.paraphrased:
        return True
    if failure.cause is not None and failure.cause.name == NOT_INSTALLED:
        return True
    return any(line.number == failure.line and line.level in QUIET for line in start.lines)


def _under_heading(before: LoggedStart, start: LoggedStart) -> LoggedStart | None:
    """Return a start whose failure the lines before the first banner only quote; ``None`` for another one.

    Where the log below a title, or below nothing but a person's words, does not show the failure that they
    name, it is cut off before it.
    """
    if before.begun or before.milestone or before.failure is None:
        return None
    if start.failure is not None and start.failure.cut and start.failure.cause is None:
        # What the text above the log quotes is the error that is cut off below.
        return replace(start, failure=replace(before.failure, serving=start.failure.serving))
    if start.failure is not None and before.failure.type and says_no_reason(start.failure):
        # The title quotes the exception of which the log below only says that it was raised.
        return replace(start, failure=replace(before.failure, serving=start.failure.serving))
    if start.failure is not None:
        same = before.failure.cause is not None and before.failure.cause == start.failure.cause
        return start if same else None
    if start.milestone in CAME_UP or not all(map(_is_of_person, before.lines)):
        title = next((line for line in before.lines if line.text), None)
        if title is None or title.number != before.failure.line or not _is_of_person(title):
            return None
    return replace(start, failure=replace(before.failure, serving=start.milestone == SERVING))


def _is_of_person(line: LogLine) -> bool:
    """Whether a line has nothing that a log puts before a message, and is no line of a traceback."""
    return not (line.is_logged or HEADER in line.text) and frame_of(line) is None


def _start(lines: Sequence[LogLine], *, begun: bool) -> LoggedStart:
    texts = [line.text for line in lines]
    reached = _milestones(texts)
    if SERVING in reached and _is_of_another_server(reached[SERVING], lines):
        del reached[SERVING]
    stopped = next((lines[at].number for at, _ in lines_containing(texts, STOPS)), None)
    if SERVING not in reached:
        milestone = next((each.name for each in reversed(MILESTONES) if each.name in reached), "")
        return LoggedStart(
            lines, milestone, unless_stopped(_failure(lines, milestone), lines, stopped), stopped, begun
        )
    failure = _death(lines, texts, reached[SERVING]) or _titled(lines) or _failed_request(lines)
    failure = failure or _logged_later(lines, reached[SERVING]) or _complained(lines)
    failure = failure or _dumped(lines, reached[SERVING])
    if failure is None and (refused := refused_answers(lines)) is not None:
        failure = with_form(refused, lines)
    return LoggedStart(lines, SERVING, unless_stopped(failure, lines, stopped), stopped, begun)


def _is_of_another_server(served: int, lines: Sequence[LogLine]) -> bool:
    """Whether a server that came up is not the engine's, whose front end had ended before it.

    A wrapper can start another program then, which writes the same words: both use uvicorn.
    """
    for at in range(served, -1, -1):
        text = lines[at].text
        if at < served and raises(text):
            calls = () if text.startswith(GONE) else frames_above(at, lines)
            return text.startswith(GONE) or any(OF_ENGINE in f"/{each.path}" for each in calls)
        if lines[at].origin is not None:
            return False
    return False


def _failure(lines: Sequence[LogLine], milestone: str) -> Failure | None:
    """Return the failure of a log without the message that a server is ready; it can be a piece of one."""
    failure = find_failure(lines)
    if failure is None or failure.refused:
        return failure
    if not had_started(lines, milestone):
        return replace(failure, starting=_is_starting(lines, failure))
    return replace(failure, serving=True, answers=_answers(lines, failure.line))


def _is_starting(lines: Sequence[LogLine], failure: Failure) -> bool:
    """Whether the calls near a failure, in the tracebacks of all processes, are those of a start."""
    at = next((at for at, line in enumerate(lines) if line.number == failure.line), 0)
    near = lines[max(0, at - BEFORE_A_DEATH) : at + BELOW_AN_ANSWER]
    return is_starting([frame for line in near if (frame := frame_of(line)) is not None])


def _answers(lines: Sequence[LogLine], failed_on: int) -> bool:
    """Whether the server went on to answer below a failure, and no line shows that its engine ended."""
    answered = any(
        (line.number > failed_on and _ANSWERED.search(line.text) is not None)
        or (line.number == failed_on and is_of_request(line))
        for line in lines
    )
    return answered and not shows_death(lines)


def _milestones(texts: Sequence[str]) -> dict[str, int]:
    """Return the position of the first message of each milestone."""
    words = [(each.name, sentence) for each in MILESTONES for sentence in each.says]
    reached: dict[str, int] = {}
    for at, which in lines_containing(texts, [sentence for _, sentence in words]):
        reached.setdefault(words[which][0], at)
    return reached


def _titled(lines: Sequence[LogLine]) -> Failure | None:
    """Return the failure that the title of an issue names, whose log shows only that the engine served."""
    title = _first_said(lines)
    if not title or not (_TITLE.match(title[0].text) or _stands_alone(title[0], lines)):
        return None
    failure = find_failure(title)
    if failure is None or failure.cause is None:
        return None
    return failure if failure.refused else replace(failure, serving=True)


def _stands_alone(title: LogLine, lines: Sequence[LogLine]) -> bool:
    """Whether an empty line is below a line, as below a title; what a client prints is none."""
    at = lines.index(title) + 1
    return at < len(lines) and not lines[at].text and _OF_CURL not in title.text


def _complained(lines: Sequence[LogLine]) -> Failure | None:
    """Return what a running engine does wrong, as a person says in the first line above its log."""
    title = _first_said(lines)
    if not title:
        return None
    failure = find_failure(title)
    if failure is not None and failure.refused and failure.paraphrased:
        return failure
    return _unreached(lines) if _TITLE.match(title[0].text) is not None else None


def _dumped(lines: Sequence[LogLine], served: int) -> Failure | None:
    """Return the failure of a step whose input the engine dumped, where the text ends before its error.

    The title, where there is one, can quote the error.
    """
    at = next((at for at in range(served, len(lines)) if DUMPED in lines[at].text), None)
    failure = None if at is None else find_failure([*_first_said(lines), *lines[at:]])
    return None if failure is None or failure.refused else replace(failure, serving=True)


def _first_said(lines: Sequence[LogLine]) -> Sequence[LogLine]:
    """Return the first line with words, alone, where a person wrote it."""
    first = next((line for line in lines if line.text), None)
    return [first] if first is not None and _is_of_person(first) else []


def _unreached(lines: Sequence[LogLine]) -> Failure | None:
    """Return what a client says, as a person shows above the log, of a server that came up."""
    said = next((at for at, line in enumerate(lines[:MOST_OF_HEADING]) if not _is_of_person(line)), 0)
    if not any(_OF_CURL in line.text for line in lines[:said]):
        return None
    failure = find_failure(lines[:said])
    client = failure is not None and failure.cause is not None and failure.cause.name == NOT_REACHED
    return replace(with_form(failure, lines), serving=True) if failure is not None and client else None


def _logged_later(lines: Sequence[LogLine], served: int) -> Failure | None:
    """Return the exception that an engine which has served logs as an error, without a word of its end."""
    errors = (at for at in range(served, len(lines)) if _is_logged_error(lines[at]))
    if (at := next(errors, None)) is None:
        return None
    # The older engine logs the exception above its traceback.
    headed = at > served and lines[at - 1].level == "ERROR" and lines[at - 1].origin == lines[at].origin
    failure = find_failure(lines[at - headed :])
    if failure is None or failure.paraphrased or failure.cause is None:
        return None
    if failure.refused:
        return failure if failure.type else None
    return replace(failure, serving=True, answers=_answers(lines, failure.line))


def _is_logged_error(line: LogLine) -> bool:
    """Whether the engine logs a traceback as an error, or PyTorch's C++ code logs an error of its own."""
    if line.level == "ERROR" and (HEADER in line.text or _OF_UVICORN in line.text):
        return True
    return _NATIVE_ERROR.match(line.text) is not None


def _failed_request(lines: Sequence[LogLine]) -> Failure | None:
    """Return the first request that a running server answered with 500, with the exception beside it."""
    for at, line in enumerate(lines):
        answer = POSTED.search(line.text) if " 500" in line.text else None
        if answer is not None and answer[1] == "500":
            return _raised_beside(at, lines) or Failure(
                "", line.text, line.number, _FAILED_REQUEST, {}, follows=True, request=True
            )
    return None


def _raised_beside(at: int, lines: Sequence[LogLine]) -> Failure | None:
    """Return the exception of a failed request; the server writes it above the answer's line or below it."""
    failure = find_failure(lines[max(0, at - BEFORE_A_DEATH) : at + BELOW_AN_ANSWER])
    if failure is None or failure.paraphrased or failure.follows or not failure.type:
        return None
    return failure if failure.refused else replace(failure, serving=True, answers=not shows_death(lines))


def _death(lines: Sequence[LogLine], texts: Sequence[str], served: int) -> Failure | None:
    """Return how an engine that had served ended; ``None`` if the log does not show its end."""
    found = lines_containing(texts[served:], DEATHS)
    at = served + found[0][0] if found else _kill(lines, texts, served)
    if at is None:
        return None
    failure = find_failure(lines[max(served, at - BEFORE_A_DEATH) :])
    if failure is not None and failure.cause is not None and failure.cause.name == FAULT:
        # A person says above the log in which case it happens.
        failure = with_reason(failure, lines)
    if failure is None or (failure.cause is None and failure.follows):
        line = lines[at] if failure is None else next(each for each in lines if each.number == failure.line)
        type_name = class_in(_DIED.type, line.text)
        return Failure(type_name, line.text, line.number, _DIED, {}, serving=True, follows=True)
    return replace(failure, cause=failure.cause or _DIED, serving=True)


def _kill(lines: Sequence[LogLine], texts: Sequence[str], served: int) -> int | None:
    """Return the place where a shell or a supervisor writes that it saw a process ended with SIGKILL.

    A server that answers below it goes on: the process was another one.
    """
    answered = max((at for at, _ in lines_containing(texts[served:], _OF_ANSWERS)), default=-1)
    killed = (at for at, _ in lines_containing(texts[served:], _OF_KILLS) if at > answered)
    places = dict.fromkeys(served + at for at in killed)
    return next(
        (at for at in places if any(each.cause.name == KILLED for each in known_words([lines[at]]))), None
    )
