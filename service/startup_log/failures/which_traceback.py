"""Says which of several tracebacks, and messages above them, shows the root of a failure."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

from service.startup_log.catalogue.known_words import KnownWords
from service.startup_log.errors.exceptions import MOST_CHAINED, Raised
from service.startup_log.errors.tracebacks import (
    BELOW_A_CHAIN,
    HANDLING,
    HEADER,
    MOST_LINES,
    Frame,
    frames_above,
)
from service.startup_log.failures.logged_failure import is_wrapper
from service.startup_log.failures.titles import BEFORE_THE_ENGINE
from service.startup_log.text.lines import LogLine

ERROR: Final = "ERROR"
"""The level of what the engine reports as an error."""
EXECUTORS: Final = ("/vllm/v1/executor/", "/vllm/executor/")
"""Files of the executor, which raises again what a worker raised."""
ENGINE: Final = ("/vllm/", "/vllm_")
"""Parts of the paths of an installed engine."""
OF_DEVICES: Final = frozenset(
    {
        *("illegal_memory_access", "illegal_instruction", "device_side_assert", "cuda_error"),
        *("gpu_fault", "rocm_fault"),
        *("gpu_not_ready", "graph_capture_not_permitted"),
    }
)
"""Causes that a device reports of whatever ran on it before, at the next call."""
CONNECTORS: Final = ("/lmcache/", "/nixl/", "/mooncake/", "/kv_transfer/kv_connector/")
"""Parts of the paths of libraries that move the KV cache."""
NOT_INSTALLED: Final = "vllm_not_installed"
"""The cause that says that Python does not find the engine."""
NEAREST: Final = 4
"""Innermost calls among which the library's own is looked for."""
OF_BUILDS: Final = ("/setup.py", "/pip-", "/build/")
"""Parts of the paths of what runs while a package is built."""


def first_raised(root: Raised, others: Sequence[Raised], lines: Sequence[LogLine]) -> Raised:
    """Return an exception where it was first raised, if the calls above it only raise it again."""
    root = _without_heading(root, others)
    if not frames_above(root.at, lines):
        return _with_calls(root, others, lines)
    if not _is_raised_again(root, lines):
        return root
    same = (each for each in others if (each.type, each.message) == (root.type, root.message))
    beside = (each for each in islice(same, MOST_CHAINED) if each.at != root.at)
    return next((each for each in beside if _is_in_worker(each, lines)), root)


def _with_calls(root: Raised, others: Sequence[Raised], lines: Sequence[LogLine]) -> Raised:
    """Return an exception that stands without calls, as in a title, where a traceback below ends in it."""
    same = (each for each in others if each.type == root.type and each.at > root.at and each.message)
    below = [each for each in islice(same, MOST_CHAINED) if frames_above(each.at, lines)]
    said = next((each for each in below if each.message.startswith(root.message)), None)
    if said is not None or root.in_prose or lines[root.at].level:
        return said or root
    # A library reports by itself what it goes on without, such as a folder for its settings.
    return next((each for each in below if lines[each.at].level == ERROR), root)


def _without_heading(root: Raised, others: Sequence[Raised]) -> Raised:
    """Return the exception that another one of its class repeats behind words of its own.

    So vLLM 0.6 raises an error of a step anew (worker/model_runner_base.py), with the name of a dump or not.
    """
    for each in islice(others, MOST_CHAINED):
        if each.at > root.at and each.type == root.type and each.message:
            return each if root.message.endswith(f": {each.message}") else root
    return root


def _is_raised_again(raised: Raised, lines: Sequence[LogLine]) -> bool:
    frames = frames_above(raised.at, lines)
    return bool(frames) and _is_of_executor(frames[0])


def _is_in_worker(raised: Raised, lines: Sequence[LogLine]) -> bool:
    frames = frames_above(raised.at, lines)
    return bool(frames) and not _is_of_executor(frames[0])


def _is_of_executor(frame: Frame) -> bool:
    return any(each in f"/{frame.path}" for each in EXECUTORS)


def in_connector(raised: Raised, lines: Sequence[LogLine]) -> bool:
    """Whether a library that moves the KV cache between engines raised an exception."""
    frames = frames_above(raised.at, lines)[:NEAREST]
    return any(part in f"/{frame.path}" for frame in frames for part in CONNECTORS)


def without_contradicted(
    known: Sequence[KnownWords], raised: Mapping[int, Raised], lines: Sequence[LogLine]
) -> list[KnownWords]:
    """Return known words without those of an installation that failed, where the engine's code ran below.

    A program that asks whether the engine is installed, and then installs it, has the engine's lines below.
    """
    if any(each.cause.name == NOT_INSTALLED for each in known):
        by_engine = (at for at in range(len(lines) - 1, -1, -1) if lines[at].origin and lines[at].level)
        logged = next(by_engine, -1)
        known = [each for each in known if each.at > logged or each.cause.name != NOT_INSTALLED]
    if all(each.cause.name not in BEFORE_THE_ENGINE for each in known):
        return list(known)
    last = islice(sorted(raised, reverse=True), MOST_CHAINED)
    ran = next((at for at in last if any(map(_is_of_engine, frames_above(at, lines)))), -1)
    return [each for each in known if each.at > ran or each.cause.name not in BEFORE_THE_ENGINE]


def _is_of_engine(frame: Frame) -> bool:
    path = f"/{frame.path}"
    return any(map(path.__contains__, ENGINE)) and not any(map(path.__contains__, OF_BUILDS))


def without_other_title(known: list[KnownWords], lines: Sequence[LogLine]) -> list[KnownWords]:
    """Return known words without those of a title that no line below has, where a log below shows others.

    A text below the title of a thread is often about another error than the thread began with.
    """
    title = next((at for at, line in enumerate(lines) if line.text), 0)
    if not known or known[0].at != title or lines[title].level:
        return known
    logged = [each for each in known[1:] if lines[each.at].level == ERROR]
    if not logged or any(each.cause is known[0].cause for each in known[1:]):
        return known
    return known[1:]


def titled_first(
    certain: list[KnownWords], known: Sequence[KnownWords], lines: Sequence[LogLine]
) -> list[KnownWords]:
    """Return known words with those first that the title of the text quotes too, where an error has them.

    A text often tells beside its own error how other values of a setting fail.
    """
    title = next((at for at, line in enumerate(lines) if line.text), 0)
    quoted = next((each for each in known if each.at == title), None)
    if quoted is None or lines[title].is_logged or not certain or certain[0].cause is quoted.cause:
        return certain
    return sorted(certain, key=lambda each: each.cause is not quoted.cause)


def handled_before(
    first: KnownWords,
    known: Sequence[KnownWords],
    raised: Mapping[int, Raised],
    lines: Sequence[LogLine],
) -> Raised | None:
    """Return the exception during whose handling a device failed; ``None`` for any other failure.

    What a device reports then follows from what was handled, mostly where memory is freed.
    """
    if first.cause.name not in OF_DEVICES:
        return None
    same = (each.at for each in known if each.cause is first.cause and each.at in raised)
    above = (_handled_above(at, raised, lines) for at in islice(same, MOST_CHAINED))
    return next((each for each in above if each is not None), None)


def _handled_above(end: int, raised: Mapping[int, Raised], lines: Sequence[LogLine]) -> Raised | None:
    at = max((each for each in raised if each < end), default=None)
    if at is None or raised[at].is_empty or raised[at].in_prose or is_wrapper(lines[at].text):
        return None
    between = (line.text for line in lines[at + 1 : at + 1 + BELOW_A_CHAIN])
    return raised[at] if any(HANDLING in text for text in between) else None


def below_heading(
    first: KnownWords,
    certain: Sequence[KnownWords],
    raised: Mapping[int, Raised],
    lines: Sequence[LogLine],
) -> KnownWords:
    """Return what a traceback ends in that known words head which are no exception themselves.

    They say what was done, and the exception says why it failed.
    """
    if first.at in raised:
        return first
    below = lines[first.at + 1 : first.at + 1 + MOST_LINES]
    heading = next((at for at, line in enumerate(below, first.at + 1) if HEADER in line.text), None)
    end = None if heading is None else min((at for at in raised if at > heading), default=None)
    if end is None or not frames_above(end, lines):
        return first
    return next((each for each in certain if each.at == end), first)


def with_calls_below(
    first: KnownWords,
    certain: Sequence[KnownWords],
    raised: Mapping[int, Raised],
    lines: Sequence[LogLine],
) -> KnownWords:
    """Return an error of the same cause that ends a traceback below one which stands alone.

    A library reports by itself what it goes on without, such as a folder for its settings.
    """
    if lines[first.at].level or frames_above(first.at, lines):
        return first
    later = (each for each in certain if each.at > first.at and each.cause is first.cause)
    ended = (each for each in islice(later, MOST_CHAINED) if _ends_process(each.at, raised, lines))
    return next((each for each in ended if raised[each.at].message not in lines[first.at].text), first)


def _ends_process(at: int, raised: Mapping[int, Raised], lines: Sequence[LogLine]) -> bool:
    return at in raised and lines[at].level == ERROR and bool(frames_above(at, lines))
