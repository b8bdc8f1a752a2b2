"""What in a log counts for its failure: exceptions and known words, without those of others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from service.startup_log.catalogue.known_words import (
    KnownWords,
    known_words,
    requests_beside_failures,
    shows_death,
)
from service.startup_log.catalogue.phrases import CAUSES
from service.startup_log.catalogue.refused_answers import is_refusal
from service.startup_log.errors.conditional_errors import compared
from service.startup_log.errors.exceptions import Raised, raised_in
from service.startup_log.errors.harmless_errors import harmless, of_commands, of_other_platforms
from service.startup_log.errors.shown_text import of_no_program, without_devices
from service.startup_log.errors.tracebacks import (
    frames_above,
    ignored_by_python,
    is_source,
    of_collect_env,
)
from service.startup_log.failures.logged_failure import is_of_request, is_wrapper
from service.startup_log.failures.mended_errors import mended
from service.startup_log.failures.which_traceback import without_contradicted
from service.startup_log.text.lines import LogLine
from service.startup_log.text.pytest_reports import repeated_in_summary

STICKY: Final = frozenset({"illegal_memory_access", "illegal_instruction", "device_side_assert"})
"""Errors of a kernel that CUDA reports at each later call, so that even a destructor's exception, which
Python ignores, shows them."""
OF_CLIENTS: Final = frozenset({"APIStatusError", "BadRequestError", "UnprocessableEntityError"})
"""Exceptions of the package openai, with which a client says what the server answered."""
_REFUSED: Final = "Error code: 4"
"""openai, _exceptions.py and _client.py: the beginning of the message, with the answer's status."""
GENERAL: Final = frozenset({"feature_not_supported", "settings_refused", "engine_fault", "call_not_known"})
"""Causes of a start whose words an answer has too; others say of a request what is wrong with it."""
_REQUEST: Final = next(cause for cause in CAUSES if cause.name == "request_refused")
RESTARTS: Final = "crash_loop"
"""The cause that says only that a container ended."""
MOST_QUOTED: Final = 64
"""Exceptions with the words of a title above which calls are looked for."""
QUOTES: Final = "\"'`.\u2026"
"""Ends of a title behind the words that it quotes."""


@dataclass(frozen=True, slots=True)
class CountedLines:
    """What counts for the failure of a log; places are positions of lines."""

    raised: Mapping[int, Raised]
    """Exceptions by their place."""
    strong: Sequence[KnownWords]
    """Known words that show a cause wherever they stand."""
    weak: Sequence[KnownWords]
    """Known words that count where nothing stronger does."""
    requests: frozenset[int]
    """Places of words of refused requests, beside which something else failed."""
    asked: Sequence[KnownWords]
    """Those of them that are exceptions."""
    other: frozenset[int]
    """Places of what does not count."""


def counted_lines(lines: Sequence[LogLine]) -> CountedLines:
    """Return what counts: not what others printed, what was overcome, and what only repeats another line."""
    everything = {each.at: each for each in raised_in(lines)}
    summary = repeated_in_summary(everything, lines)
    raised = {at: each for at, each in everything.items() if at not in summary}
    known = [each for each in known_words(lines) if each.at in raised or _may_be_said(each, lines)]
    other = _of_others(raised, known, lines) | summary
    other |= _repeated_above(raised, other, lines)
    other |= without_devices(lines) if raised.keys() - other else set()
    if any(each.cause.name == RESTARTS for each in known):
        other |= of_commands(raised, lines)
    other |= mended({*raised, *(each.at for each in known)} - other, lines)
    counting = (each for each in _of_messages(known, raised, lines) if each.at not in other)
    known = [_of_client(each, raised, lines) for each in counting]
    counted = without_contradicted(known, raised, lines)
    other |= {each.at for each in known} - {each.at for each in counted}
    known = counted
    requests = requests_beside_failures(known, lines)
    other |= _of_requests(raised, lines)
    failed = [each for each in known if each.at not in requests and each.at not in other]
    return CountedLines(
        {at: each for at, each in raised.items() if at not in other},
        [each for each in failed if not each.cause.weak],
        [each for each in failed if each.cause.weak],
        frozenset(requests),
        [each for each in known if each.at in requests and each.at in raised],
        frozenset(other),
    )


def _of_others(
    raised: Mapping[int, Raised], known: Sequence[KnownWords], lines: Sequence[LogLine]
) -> set[int]:
    """Return the places of what no failing program printed, or what ended nothing."""
    printed = {at for at, each in raised.items() if not each.in_prose}
    said = {*raised, *(each.at for each in known)} - printed
    sticky = {each.at for each in known if each.cause.name in STICKY}
    return {
        *(ignored_by_python(raised, lines) - sticky),
        *of_collect_env(raised, lines),
        *_quoting_titles(raised, lines),
        *of_no_program(lines, raised.keys()),
        *of_other_platforms(lines),
        *harmless(raised, lines),
        *(compared(said, lines) if printed else ()),
    }


def _quoting_titles(raised: Mapping[int, Raised], lines: Sequence[LogLine]) -> set[int]:
    """Return the position of a title that quotes an exception which the text has below, with its calls.

    A title may be nothing but a class, or have more words than the message.
    """
    at = next((at for at, line in enumerate(lines) if line.text), None)
    title = None if at is None else raised.get(at)
    if at is None or title is None or lines[at].level or lines[at].origin:
        return set()
    below = (each for each in raised.values() if each.at != at and each.type == title.type and each.message)
    if not title.message:
        return {at} if any(below) else set()
    quoted = (each for each in below if _quotes(title.message, each))
    return {at} if any(frames_above(each.at, lines) for each in islice(quoted, MOST_QUOTED)) else set()


def _quotes(title: str, exception: Raised) -> bool:
    """Whether a title has the message of an exception, or its beginning, within quotes or not."""
    words = title.rstrip(QUOTES)
    return exception.message in title or (bool(words) and exception.message.startswith(words))


def _repeated_above(raised: Mapping[int, Raised], other: set[int], lines: Sequence[LogLine]) -> set[int]:
    """Return the position of a title that quotes an exception which ended nothing."""
    at = next((at for at, line in enumerate(lines) if line.text), None)
    title = None if at is None else raised.get(at)
    if title is None or lines[title.at].level:
        return set()
    quoted = (raised[each] for each in other if each in raised and each != title.at)
    return {title.at} if any(each.message and each.message in title.message for each in quoted) else set()


def _of_requests(raised: Mapping[int, Raised], lines: Sequence[LogLine]) -> set[int]:
    """Return the positions of exceptions of requests, if the engine itself raised one and ended with it."""
    requests = {at for at in raised if is_of_request(lines[at])}
    own = (
        at
        for at in raised
        if at not in requests and lines[at].level == "ERROR" and not is_wrapper(lines[at].text)
    )
    return requests if requests and shows_death(lines) and next(own, None) is not None else set()


def _of_messages(
    known: Sequence[KnownWords], raised: Mapping[int, Raised], lines: Sequence[LogLine]
) -> Sequence[KnownWords]:
    """Return known words without those that stand beside an exception in a sentence, and not in its message.

    That holds for words that count in an exception alone; what the message itself says takes their place.
    """
    beside = [
        raised[each.at]
        for each in known
        if each.cause.raised and each.at in raised and _is_within(raised[each.at], lines[each.at].text)
    ]
    if not beside:
        return known
    messages = [replace(lines[each.at], text=f"{each.type}: {each.message}") for each in beside]
    said = {beside[each.at].at: replace(each, at=beside[each.at].at) for each in known_words(messages)}
    replaced = {each.at for each in beside}
    kept = (said.get(each.at) if each.at in replaced else each for each in known)
    return [each for each in kept if each is not None]


def _of_client(known: KnownWords, raised: Mapping[int, Raised], lines: Sequence[LogLine]) -> KnownWords:
    """Return known words; in an answer, or a client's exception, they say why a server refused a request."""
    exception = raised.get(known.at)
    refused = exception is not None and exception.type in OF_CLIENTS and _REFUSED in exception.message
    refused = refused or (known.cause.name in GENERAL and is_refusal(lines[known.at].text))
    return known if not refused or known.cause.of_request else replace(known, cause=_REQUEST)


def _is_within(exception: Raised, text: str) -> bool:
    """Whether a line has a sentence around an exception."""
    return bool(exception.message) and not text.rstrip("` ").endswith(exception.message.rstrip("` "))


def _may_be_said(known: KnownWords, lines: Sequence[LogLine]) -> bool:
    """Whether words count that are in no exception."""
    said = not known.cause.raised or is_refusal(lines[known.at].text)
    return said and not is_source(known.at, lines)
