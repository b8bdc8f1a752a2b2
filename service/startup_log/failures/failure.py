"""Finds how a start failed: the engine's own message, and the cause that it indicates."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby
from typing import Final

from service.startup_log.catalogue.known_words import (
    KnownWords,
    SearchedLines,
    known_words,
    over_two_lines,
)
from service.startup_log.catalogue.origins import NOWHERE
from service.startup_log.catalogue.phrases import CAUSES, FailureCause
from service.startup_log.environment.drivers import needed_for, read_driver
from service.startup_log.errors.exceptions import (
    FRAME,
    HEADINGS,
    MOST_CHAINED,
    Raised,
    last_of_chain,
)
from service.startup_log.errors.tracebacks import HEADER, frames_above
from service.startup_log.failures.checking_part import with_checking_part
from service.startup_log.failures.client_connections import as_client_connection
from service.startup_log.failures.counted_lines import RESTARTS, counted_lines
from service.startup_log.failures.described_failures import in_words, of_quoting_title
from service.startup_log.failures.diverged_ranks import as_diverged
from service.startup_log.failures.errors_above import with_error_above
from service.startup_log.failures.failed_builds import with_first_error
from service.startup_log.failures.forms import with_form
from service.startup_log.failures.inspections import with_inspected
from service.startup_log.failures.left_of_tracebacks import by_cut_calls, decided_by_message, with_cut_calls
from service.startup_log.failures.loaded_drafts import with_draft
from service.startup_log.failures.loaded_weights import with_loaded_weights
from service.startup_log.failures.logged_failure import (
    Failure,
    is_wrapper,
    of_exception,
    of_known,
)
from service.startup_log.failures.lost_peers import of_lost_peer, of_silent_worker
from service.startup_log.failures.named_files import with_named_file
from service.startup_log.failures.named_variables import with_variable
from service.startup_log.failures.native_backtraces import of_backtrace
from service.startup_log.failures.nccl_reasons import with_nccl_reason
from service.startup_log.failures.newer_pythons import of_newer_python
from service.startup_log.failures.noted_errors import of_note
from service.startup_log.failures.notes_apart import notes_apart
from service.startup_log.failures.printed_lines import printed_lines
from service.startup_log.failures.refused_requests import as_refused_request
from service.startup_log.failures.said_failures import UNANSWERED, of_hang, of_people
from service.startup_log.failures.shown_usages import of_usage
from service.startup_log.failures.stated_rules import with_part_of_check
from service.startup_log.failures.titles import ENDED, FAULT, with_reason, with_title
from service.startup_log.failures.unloaded_extension import of_unloaded_extension
from service.startup_log.failures.which_traceback import (
    below_heading,
    first_raised,
    handled_before,
    in_connector,
    titled_first,
    with_calls_below,
    without_other_title,
)
from service.startup_log.prose.kinds_of_texts import LEAST_ROWS
from service.startup_log.prose.reports import WhatCounts, decide, telling_lines
from service.startup_log.text.lines import LogLine

DIED: Final = "engine_died_serving"
"""The cause that says only that the engine's process ended."""
OF_OTHERS: Final = frozenset({"ray_actor_died", DIED})
"""Causes that say only that another process failed, so that an exception in a person's words says more."""
CRASHED: Final = frozenset({"process_crashed", "bus_error"})
"""Causes of a process that ended in compiled code; frames beside them only say where it was."""
DEADLY: Final = frozenset({"media_longer_than_encoder_cache"})
"""Causes of refused requests that can end the engine too, as texts of 2026 report: the encoder's cache has
no room for the item (vLLM 0.19.0, v1/core/encoder_cache_manager.py)."""
KILLED: Final = "process_killed"
"""The cause of a process that its shell or its supervisor saw ended with SIGKILL."""
_NOT_LOADED: Final = "kernel image is invalid"
"""CUDA, cudaErrorInvalidKernelImage: of an old driver, or of a build without kernels for this GPU."""
_DRIVER: Final = next(cause for cause in CAUSES if cause.name == "driver_too_old")
CONNECTION_LOST: Final = frozenset({"ConnectionResetError", "BrokenPipeError"})
"""Classes of exceptions that mostly follow from the end of another process of the engine."""
OF_TRANSPORT: Final = frozenset({"ConnectError", "ConnectTimeout", "ConnectionRefusedError"})
"""httpcore, _exceptions.py, and Python: a connection that was not made; a client's library says what for."""
NOT_REACHED: Final = "server_not_reached"
"""The cause of a client that no server answered."""
OF_WRAPPERS: Final = ("DiedError", "DeadError", "ActorError", "TaskError")
"""Ends of classes that say no more."""
WARNING: Final = "WARNING"
"""The level of what the engine goes on without."""
ANY_PART: Final = "*"
"""Stands for all causes: words that say nothing where any part, or any other words, show a cause."""


def find_failure(lines: Sequence[LogLine]) -> Failure | None:
    """Return the root of a failure, or None if the log shows no failure."""
    lines = SearchedLines(lines)
    printed = printed_lines(lines)
    decision = decide(lines, printed)
    no_report = decision.counts is WhatCounts.NOTHING
    if decision.counts not in {WhatCounts.ALL, WhatCounts.NOTHING}:
        quoted = {printed[each.at].number for each in printed.known}
        lines = SearchedLines(telling_lines(lines, decision, quoted))
        printed = printed_lines(lines)
    found = None if no_report else of_hang(_root_of(printed), printed)
    found = None if found is None else with_error_above(found, printed)
    if found is None or found.paraphrased:
        noted = None if no_report else of_note(lines, beside=found)
        found = noted or found or (None if no_report else _noted_alone(lines))
    if found is None or (found.cause is None and found.paraphrased and found.follows):
        if no_report:
            return found
        extension = of_unloaded_extension(printed)
        left = of_lost_peer(printed) or of_usage(printed)
        return left or (found if extension is None else with_form(extension, lines))
    found = as_diverged(with_draft(found, lines), lines)
    found = with_named_file(_with_cut_end(with_checking_part(found), lines), lines)
    found = of_newer_python(with_variable(found, lines), lines)
    if found.cause is None:
        return of_silent_worker(found, printed) or found
    if (older := _of_driver(found, lines)) is not None:
        return older
    vague = found.cause.name == FAULT or (found.by_origin and found.cause.name == "ray_actor_died")
    found = as_client_connection(with_loaded_weights(as_refused_request(found)), lines)
    found = with_part_of_check(with_inspected(with_first_error(found, lines), lines))
    found = with_nccl_reason(found, lines)
    return with_form(with_reason(found, lines) if vague else found, lines)


def _noted_alone(lines: Sequence[LogLine]) -> Failure | None:
    """Return the failure of a text that says nothing but notes of failures: rows and comments."""
    notes = notes_apart(lines)
    found = None if notes is None else _root_of(printed_lines(notes))
    if found is None or notes is None or _differ(notes):
        return None
    return replace(found, paraphrased=True)


def _differ(notes: Sequence[LogLine]) -> bool:
    """Whether rows of a table note failures of several kinds, as of several models: none is the one."""
    # A row's cells are lines of one number.
    rows = [list(row) for _, row in groupby(notes, key=lambda line: line.number)]
    roots = [_root_of(printed_lines(row)) for row in rows if len(row) > 1]
    kinds = ["" if root.cause is None else root.cause.name for root in roots if root is not None]
    return len(kinds) >= LEAST_ROWS and len({*kinds}) > 1


def _with_cut_end(found: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return the end of another process, with whether the text stops where its error begins."""
    last = next((line.text for line in reversed(lines) if line.text.strip("`~ ")), "")
    ends = last.rstrip(": ").endswith(HEADER)
    return replace(found, cut=True) if ends and found.cause and found.cause.name in OF_OTHERS else found


def _of_driver(failure: Failure, lines: Sequence[LogLine]) -> Failure | None:
    """Return a kernel that an older driver could not load, as the text shows, as a fault of that."""
    driver = read_driver(lines) if _NOT_LOADED in failure.message else None
    lags = driver is not None and needed_for(failure.message, driver).lags
    return replace(failure, cause=_DRIVER) if lags else None


def _root_of(lines: Sequence[LogLine]) -> Failure | None:
    """Return the root of a failure, or None if the log shows no failure.

    In this order: the first message of a known cause that was raised or logged as an error, since later
    errors only follow from it (in workers, the engine's core, the server); such a message anywhere else, or
    over two lines; the first other exception; a message that follows from another failure; an exception in a
    person's sentence; a person's description of the failure. What the program says comes before what a person
    says of it, even where it does not show the cause.
    """
    counted = counted_lines(lines)
    raised, strong, weak = counted.raised, counted.strong, counted.weak
    errors = [each for each in strong if each.at in raised or lines[each.at].level]
    certain = [each for each in errors if ANY_PART not in each.cause.parts]
    certain = certain or [each for each in strong if ANY_PART not in each.cause.parts]
    certain = titled_first(without_other_title(certain, lines), strong, lines)
    first = next(iter(certain or errors or strong), None) or next(over_two_lines(lines, counted.other), None)
    if first is not None:
        first = with_calls_below(below_heading(first, certain, raised, lines), certain, raised, lines)
        if (handled := handled_before(first, certain, raised, lines)) is not None:
            return with_cut_calls(of_exception(handled, lines), lines)
        if (found := _of_part(first.cause, errors, raised, lines)) is not None:
            return found
        return _of_root(first, strong, raised, lines)
    roots = [each for each in raised.values() if not (each.is_empty or _only_wraps(each, lines))]
    weakly = {each.at for each in weak} | counted.requests
    own = [each for each in roots if not each.in_prose and each.at not in weakly]
    # What is logged as a warning was overcome, where something else was not.
    if own := [each for each in own if lines[each.at].level != WARNING] or own:
        ended_in = _end_of_chain(own[0], roots, weak, lines)
        return _of_own(own, lines) if ended_in is None else of_known(ended_in, [ended_in], raised, lines)
    if weak:
        of_parts = (
            _of_part(cause, weak, raised, lines)
            for cause in {each.cause.name: each.cause for each in weak}.values()
        )
        found = next(filter(None, of_parts), None) or _of_weak(weak, roots, raised, lines)
        return _with_its_request(found, counted.asked, raised, lines)
    native = of_backtrace(lines)
    described = of_people(roots, lines) if native is None else of_lost_peer(lines) or native
    return None if described is None else _after_yielding(described, lines)


def _of_own(own: Sequence[Raised], lines: Sequence[LogLine]) -> Failure:
    """Return the first of the program's exceptions whose words are not known, or the end of its chain."""
    root = first_raised(last_of_chain(own, lines), own, lines)
    return _after_yielding(with_cut_calls(of_exception(root, lines), lines), lines)


def _end_of_chain(
    root: Raised, roots: Sequence[Raised], weak: Sequence[KnownWords], lines: Sequence[LogLine]
) -> KnownWords | None:
    """Return the weak words of the exception with which a chain ends; ``None`` where it ends in others.

    What was raised while the first one was handled says what failed, but for the end of a process.
    """
    if root.type in OF_TRANSPORT:
        return next((each for each in weak if each.at > root.at and each.cause.name == NOT_REACHED), None)
    end = last_of_chain([root, *(each for each in roots if each.at > root.at)], lines)
    said = next((each for each in weak if each.at == end.at), None)
    return None if said is None or said.cause.name in OF_OTHERS | ENDED | {UNANSWERED} else said


def _only_wraps(each: Raised, lines: Sequence[LogLine]) -> bool:
    """Whether an exception only follows from another one; a connection that a connector lost does not."""
    # A person's sentence names the wrapper beside what it wraps.
    text = f"{each.type}: {each.message}" if each.in_prose else lines[each.at].text
    return is_wrapper(text) and not (each.type in CONNECTION_LOST and in_connector(each, lines))


def _of_weak(
    weak: Sequence[KnownWords],
    roots: Sequence[Raised],
    raised: Mapping[int, Raised],
    lines: Sequence[LogLine],
) -> Failure:
    """Return what words that follow from another failure tell, with what the rest of the text says of it."""
    if (decided := decided_by_message(lines)) is not None:
        return decided
    # A cause without an exception of its own only says where something failed.
    typed = [each for each in weak if each.cause.type]
    raises = (each for each in typed if each.at in raised and each.cause.name not in OF_OTHERS)
    best = with_calls_below(next(raises, (typed or weak)[0]), weak, raised, lines)
    if lines[best.at].text.startswith(FRAME) or best.cause.name in OF_OTHERS:
        best = next((each for each in weak if each.cause.name in CRASHED), best)
    if best.cause.name == DIED:
        # What another process raised, or that it ended, says more than that the engine ended.
        ended = (
            each for each in weak if each.cause is best.cause and best.cause.form_of(lines[each.at].text)
        )
        raised_by_another = (each for each in weak if each.at in raised and each.cause is not best.cause)
        killed = (each for each in weak if each.cause.name == KILLED)
        best = next(chain(raised_by_another, ended, killed), best)
    named = next((each for each in roots if each.in_prose and each.type not in HEADINGS), None)
    if named is not None and best.cause.name in OF_OTHERS and not named.type.endswith(OF_WRAPPERS):
        return with_cut_calls(of_exception(named, lines), lines)
    if best.cause.name in ENDED and (quoted := of_quoting_title(lines)) is not None:
        return quoted
    if _is_said_alone(best, lines) and (said := _of_people_alone(roots, lines)) is not None:
        return said
    found = replace(of_known(best, weak, raised, lines), follows=not best.cause.type)
    unsaid = best.cause.name in OF_OTHERS | {UNANSWERED} and best.cause.form_of(found.message) is None
    called = by_cut_calls(found, lines) if unsaid else None
    if called is not None and called.cause is not best.cause:
        return with_title(called, lines) if called.cause is None else called
    # A message of a form of its own says why.
    return found if best.cause.form_of(found.message) is not None else with_title(found, lines)


def _is_said_alone(ended: KnownWords, lines: Sequence[LogLine]) -> bool:
    """Whether the words of an end are such that what a person says of its reason comes before them.

    So are those of a container that ended again and again, and of an end that only a sentence quotes.
    """
    quoted = ended.cause.name == DIED and not any(line.is_logged for line in lines)
    return ended.cause.name == RESTARTS or quoted


def _of_people_alone(roots: Sequence[Raised], lines: Sequence[LogLine]) -> Failure | None:
    """Return the cause that a person describes by its reason; ``None`` where nobody says why."""
    logged = any(line.is_logged for line in lines)
    said = of_people(roots, lines) if logged else in_words(lines) or of_people(roots, lines)
    reason = said is not None and said.paraphrased and not said.follows and said.cause is not None
    return said if reason else None


def _with_its_request(
    found: Failure, asked: Sequence[KnownWords], raised: Mapping[int, Raised], lines: Sequence[LogLine]
) -> Failure:
    """Return the end of an engine with the request that was refused above it, where nothing else says why."""
    asked = [each for each in asked if each.cause.name in DEADLY]
    number = min((lines[each.at].number for each in asked), default=found.line)
    if found.cause is None or found.cause.name not in OF_OTHERS or number >= found.line:
        return found
    return replace(of_known(asked[0], asked, raised, lines), ended=True, serving=True)


def _of_part(
    cause: FailureCause, known: Sequence[KnownWords], raised: Mapping[int, Raised], lines: Sequence[LogLine]
) -> Failure | None:
    """Return the failure by the part that raised it, if that says more than words which many parts have."""
    same = [each.at for each in known if each.cause == cause and each.at in raised] if cause.parts else []
    # In a title it stands without the calls that show the part.
    for at in sorted(same[:MOST_CHAINED], key=lambda at: not frames_above(at, lines)):
        found = of_exception(raised[at], lines)
        if found.cause is not None and cause.parts & {found.cause.name, ANY_PART}:
            return found
    return None


def _of_root(
    first: KnownWords, strong: Sequence[KnownWords], raised: Mapping[int, Raised], lines: Sequence[LogLine]
) -> Failure:
    """Return the failure of the first known words, or of the cause from which they follow."""
    root = _yielded(first, lines)
    if root.cause.raised and (first.at in raised or root.at not in raised):
        # The words of such a root only tell which of several causes the failure has.
        return replace(of_known(first, strong, raised, lines), cause=root.cause)
    return of_known(root, [*strong, root], raised, lines)


def _after_yielding(found: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return an exception whose words are not known with the cause from which its own follows."""
    if found.cause is None or not found.cause.yields_to:
        return found
    cause = _yielded(KnownWords(0, found.cause, {}), lines).cause
    return found if cause is found.cause else replace(found, cause=cause, origin=NOWHERE)


def _yielded(first: KnownWords, lines: Sequence[LogLine]) -> KnownWords:
    """Return the cause from which another one follows, if the log has its words, as a warning too."""
    if not first.cause.yields_to:
        return first
    roots = {each.cause.name: each for each in reversed(list(known_words(lines, quiet=True)))}
    return next((roots[name] for name in first.cause.yields_to if name in roots), first)
