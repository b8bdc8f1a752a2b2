"""Finds a failure in what a person says of it, and in what is left of a traceback that was cut off."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from service.startup_log.complaints import FAILING, is_complaint, reports_failure
from service.startup_log.cut_tracebacks import last_frame, where_cut
from service.startup_log.engine_errors import error_in_text
from service.startup_log.exceptions import (
    HEADINGS,
    PYTHON_WORDS,
    QUIET,
    Raised,
    class_in,
    class_in_task,
    is_check,
    message_above,
    raised_by_source,
)
from service.startup_log.known_words import KnownWords, known_words, shows_death
from service.startup_log.lines import LogLine
from service.startup_log.logged_failure import (
    Failure,
    Said,
    is_of_request,
    is_wrapper,
    of_exception,
    of_known,
    of_line,
)
from service.startup_log.origins import (
    ASSERTED,
    NOWHERE,
    FailureOrigin,
    asserted_part,
    by_words,
    in_other_package,
    innermost_part,
    likely_origin,
    mentioned_part,
    origin_of,
    owner_of,
)
from service.startup_log.paraphrases import paraphrased_shortage
from service.startup_log.phrases import CAUSES, MILESTONES, WRAPPERS, FailureCause
from service.startup_log.refused_answers import refused_answer
from service.startup_log.sentences import reasons, sentences
from service.startup_log.symptoms import HANG, Described, cause_of_words, complains, described, says_hang
from service.startup_log.templates import SentenceIndex, lines_containing
from service.startup_log.whole_messages import END_OF_TITLE, MAX_MESSAGE

_SHORTAGE: Final = next(cause for cause in CAUSES if cause.name == "kv_cache_smaller_than_one_request")
_OF_PROGRAM: Final = next(cause for cause in CAUSES if cause.name == "program_fault")
_PROSE: Final = tuple((cause, words) for cause in CAUSES for words in cause.prose)
_PROSE_WORDS: Final = SentenceIndex([words for _, words in _PROSE])
BEFORE_THE_ENGINE: Final = frozenset(
    {"install_failed", "image_not_pulled", "pod_not_scheduled", "container_not_created", "unit_not_started"}
)
"""Causes that a title names and that the calls of a running engine contradict."""
ENDED: Final = frozenset(
    {"ray_actor_died", "engine_died_serving", "process_killed", "process_crashed", "bus_error"}
)
"""Causes that say that a process ended, which one that hangs does not."""
HANGING: Final = frozenset({HANG, "ranks_hang_in_exchange"})
"""Causes that say that a process hangs."""
OF_OWNERS: Final = frozenset({"", "AttributeError"})
"""Classes of errors that say nothing where the class or the file that they name is not known."""
OF_NO_DEVICE: Final = frozenset({"no_gpu_visible", "driver_library_not_found"})
"""Causes that say that no device was found, as the engine logs it of each kind that it looks for."""
_FOUND: Final = "detected platform "
"""vLLM 0.7.0 to 0.33.0, platforms/__init__.py: a kind that was found."""
FAULT: Final = "engine_fault"
"""The cause of what the engine's own code does not expect: it names the place and not the reason."""
_LOADED: Final = (
    "Graph capturing finished",
    *(says for each in MILESTONES if each.name in {"profiling", "cache", "capture"} for says in each.says),
)
"""Messages behind the loading of the model."""
MOST_OF_TITLE: Final = 8
"""Lines of a text in which its title is looked for."""
_CONFLICTS: Final = (", which is not installed.", " which is incompatible.")
"""Ends of lines in which pip lists packages that do not belong together, after it has installed its own."""
_QUOTES_ERROR: Final = re.compile(r"\b[A-Z][a-z]\w{1,60}(?:Error|Exception)\b|\bSIG[A-Z]{3,5}\b", re.ASCII)
"""What shows that a person's sentence quotes the program's error."""
SETTINGS: Final = "settings_refused"
"""The cause of a check whose reason its calls do not show."""
_OF_PYTHON: Final = (*PYTHON_WORDS, (ASSERTED, ""))
"""Words of Python's and C++'s errors, with the errors' classes."""


def of_people(roots: Sequence[Raised], lines: Sequence[LogLine]) -> Failure | None:
    """Return a failure that a person describes, or what is left of a traceback that says more."""
    vague = all(each.type in HEADINGS for each in roots)
    words = _of_sentence(lines) or _in_words(lines) if vague else None
    if words is None and roots:
        words = with_cut_calls(of_exception(roots[0], lines), lines)
    if words is not None and not words.paraphrased and words.cause is not None:
        return words
    left = _cut_off(lines, complains=words is not None)
    if words is None or left is None:
        return left or words
    return _surer(words, left, lines)


def _surer(words: Failure, left: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return what a person says, or what is left of the program's own words where that is the surer."""
    if not words.paraphrased and words.type:
        return _with_calls(words, left)
    if words.paraphrased and (beside := _program_s_own(words, left, lines)) is not None:
        return beside
    if left.type and left.cause is not None:
        # The source below the last call raises an exception by its class.
        return left
    if words.cause is None:
        only_ended = left.cause is None or left.cause.name in ENDED
        return words if only_ended and is_wrapper(left.message) and _quotes_error(words.message) else left
    # What is left of a traceback says more than prose, or than a title that says only what happened.
    title = words.line <= next((line.number for line in lines if line.text), 0)
    title = title and not (words.cause.weak or words.cause.name in BEFORE_THE_ENGINE)
    if left.cause is None or ((title or not left.frames) and not words.follows):
        return replace(words, cut=bool(left.frames) and left.cut)
    return left


def _program_s_own(words: Failure, left: Failure, lines: Sequence[LogLine]) -> Failure | None:
    """Return what the program says, where it comes before a person's words; ``None`` where it does not.

    So do messages that decide, the front end's error, and calls beside words that are only those of a model's
    name, of a hang in which the program logged an error, or of what a running engine does where they show how
    one failed.
    """
    quotes = _quotes_error(words.message)
    decides = left.cause is not None and left.cause.decides
    follows = left.cause is None and is_wrapper(left.message) and not quotes
    if not words.type and (decides or follows):
        return _beside_words(left, lines)
    if words.cause is None or not left.frames or quotes:
        return None
    beside = _beside_words(left, lines)
    hangs = words.cause.name in HANGING and left.cause is None and _is_error(left, lines)
    called = left.cause if left.cause is left.origin.cause else None
    if words.cause.of_request and called is not None and not (called.weak or called.name == SETTINGS):
        return beside
    return beside if hangs or (beside.said is None and (left.cause is not None or left.cut)) else None


def _quotes_error(text: str) -> bool:
    """Whether a person's sentence holds an error's class or words of Python's own errors."""
    return _QUOTES_ERROR.search(text) is not None or any(words in text for words, _ in _OF_PYTHON)


def _is_error(failure: Failure, lines: Sequence[LogLine]) -> bool:
    """Whether the program logs what is left of its traceback as an error; a dump of a stack is none."""
    return any(line.level in FAILING for line in lines if line.number == failure.line)


def _beside_words(failure: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return what the program says, with the cause that a person describes; the name of a model is none."""
    found = described(sentences(lines), counts=_beside(lines), in_names=False)
    if found is None or found.cause is None or found.general:
        return failure
    return replace(failure, said=_said(found, found.cause))


def _said(found: Described, cause: FailureCause) -> Said:
    return Said(cause, found.sentence.text[:MAX_MESSAGE], found.sentence.line.number)


def of_hang(found: Failure | None, lines: Sequence[LogLine]) -> Failure | None:
    """Return a failure with whether the engine hangs, as a person says.

    A process that hangs raises nothing: what a log under such a title reports as an error, without an
    exception, did not end it.
    """
    if found is None or found.type or found.cause is None:
        return found
    return found if found.cause.name in ENDED or _is_cut(found) else _of_hang(found, found.cause, lines)


def _is_cut(failure: Failure) -> bool:
    """Whether a failure is only what is left of a traceback."""
    return failure.cut and not failure.paraphrased


def _of_hang(found: Failure, cause: FailureCause, lines: Sequence[LogLine]) -> Failure:
    if not says_hang(sentences(lines)):
        return replace(found, hangs=cause.name in HANGING)
    title = described(sentences(lines[:MOST_OF_TITLE]), titles_only=True)
    logged = next(line for line in lines if line.number == found.line)
    if found.paraphrased and logged.level and title is not None:
        line = title.sentence.line
        return replace(found, message=title.sentence.text[:MAX_MESSAGE], line=line.number, hangs=True)
    if found.paraphrased and cause.of_request:
        return found
    if found.paraphrased or cause.name in HANGING:
        return replace(found, hangs=True)
    if logged.level != "ERROR" or title is None or title.cause is None or title.cause.name != HANG:
        return found
    return replace(_as_described(title), hangs=True)


def with_cut_calls(failure: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return a failure with what its words are about, or what the calls of another, cut traceback show."""
    found = explained(failure, lines)
    if found.cause is None and not failure.frames and (at := last_frame(lines)) is not None:
        origin, frames = where_cut(at, lines)
        found = _with_calls(failure, replace(of_line(lines[at], origin), frames=frames))
    if found.cause is None and (cause := by_words(found.type, found.message)) is not None:
        own = cause.name == FAULT and in_other_package(found.frames)
        cause = _OF_PROGRAM if own else cause
        return replace(found, cause=cause, origin=FailureOrigin(found.origin.part, cause))
    return found


def by_cut_calls(failure: Failure, lines: Sequence[LogLine]) -> Failure | None:
    """Return a process that ended with what the calls of a cut traceback below show, if they show a cause."""
    at = last_frame(lines)
    if at is None or lines[at].number < failure.line:
        return None
    origin, frames = where_cut(at, lines)
    if origin.cause is None:
        return None
    return replace(failure, cause=origin.cause, origin=origin, frames=frames, follows=False)


def decided_by_message(lines: Sequence[LogLine]) -> Failure | None:
    """Return the failure that a message of a level which reports none decides; ``None`` without any."""
    found = _deciding(list(known_words(lines, quiet=True)), lines)
    return None if found is None else of_known(found, [found], {}, lines)


def _with_calls(named: Failure, left: Failure) -> Failure:
    """Return an exception that a person names, with the cause that the calls of its cut traceback show."""
    origin = likely_origin(named.type, named.message, left.frames)
    if origin.cause is None:
        return named if left.cause is None else replace(named, cause=left.cause, origin=left.origin)
    return replace(named, cause=origin.cause, origin=origin, frames=left.frames)


def of_quoting_title(lines: Sequence[LogLine]) -> Failure | None:
    """Return Python's own error that the title quotes, for a log that has only what followed from it."""
    title = next((each for each in sentences(lines[:MOST_OF_TITLE]) if each.title), None)
    if title is None or not any(words in title.text for words, _ in _OF_PYTHON):
        return None
    found = _of_python([title.line])
    return Failure("", title.text[:MAX_MESSAGE], title.line.number, None, {}) if found is None else found


def _of_sentence(lines: Sequence[LogLine]) -> Failure | None:
    """Return a failure whose own words stand in a line without the class of an exception: a title, a prose.

    Of these only such count as say by themselves where they were raised and what that means.
    """
    found = error_in_text(["" if line.level in QUIET else line.text for line in lines])
    if found is None:
        return _of_python(lines)
    at, error = found
    origin = origin_of(error.type, (error.frame,))
    if origin.cause is None:
        return None
    line = lines[at]
    return Failure(
        class_in(error.type, line.text),
        line.text[:MAX_MESSAGE],
        line.number,
        origin.cause,
        {},
        origin=origin,
        source=error.source,
        request=is_of_request(line),
    )


def _python_words(lines: Sequence[LogLine]) -> Iterator[tuple[LogLine, str]]:
    """Yield the lines with words of Python's or C++'s own errors, with the class of each."""
    for at, which in lines_containing([line.text for line in lines], [words for words, _ in _OF_PYTHON]):
        if lines[at].level not in QUIET and not is_wrapper(lines[at].text):
            yield lines[at], _OF_PYTHON[which][1]


def _of_python(lines: Sequence[LogLine]) -> Failure | None:
    """Return a failure in the words of Python's or C++'s own errors, about code that is known."""
    for line, type_name in _python_words(lines):
        origin = owner_of(type_name, line.text) if type_name else asserted_part(line.text)
        if origin is not None:
            words = line.text[:MAX_MESSAGE]
            shown = class_in(type_name, words)
            return Failure(shown, words, line.number, origin.cause, {}, origin=origin)
    return None


def _of_unowned(lines: Sequence[LogLine]) -> Failure | None:
    """Return a failure in the same words about code that is not known, where they alone show a cause."""
    for line, type_name in _python_words(lines):
        if type_name in OF_OWNERS:
            continue
        known = next(known_words([LogLine(1, f"{type_name}: {line.text}", None)]), None)
        cause = by_words(type_name, line.text) if known is None else known.cause
        if cause is not None:
            said = not (line.level or line.origin)
            return Failure("", line.text[:MAX_MESSAGE], line.number, cause, {}, paraphrased=said)
    return None


def _in_words(lines: Sequence[LogLine]) -> Failure | None:
    """Return a failure that a person describes, or one of which the log only says that it happened."""
    lines = [line for line in lines if not line.text.endswith(_CONFLICTS)]
    shortage = paraphrased_shortage(lines)
    if shortage is not None:
        line, sizes = shortage
        return Failure("", line.text[:MAX_MESSAGE], line.number, _SHORTAGE, sizes, paraphrased=True)
    failing = any(map(reports_failure, lines))
    texts = [line.text.casefold() if line.level not in QUIET else "" for line in lines]
    for at, which in _PROSE_WORDS.pairs(texts):
        line, cause = lines[at], _PROSE[which][0]
        if failing or is_complaint(line, cause):
            return Failure("", line.text[:MAX_MESSAGE], line.number, cause, {}, paraphrased=True)
    said = sentences(lines)
    found = described(said, counts=_beside(lines))
    unowned = _of_unowned(lines) if found is None or found.general else None
    if unowned is not None:
        return unowned
    if found is None or found.cause is None:
        answer = refused_answer(lines) if complains(said) else None
        if answer is not None:
            return of_known(KnownWords(*answer, {}), (), {}, lines)
    if found is None or (found.cause is None and is_wrapper(found.sentence.line.text)):
        return None
    return _as_described(found)


def with_reason(failure: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return a failure of which the place alone is known with the reason that a person gives for it."""
    said = (each for each in reasons(sentences(lines)) if failure.message[:END_OF_TITLE] not in each.text)
    found = described(tuple(said))
    if found is None or found.cause is None or found.general:
        return failure
    return replace(failure, cause=found.cause, paraphrased=True, origin=NOWHERE)


def _as_described(found: Described) -> Failure:
    line = found.sentence.line
    message = found.sentence.text[:MAX_MESSAGE]
    return Failure("", message, line.number, found.cause, {}, paraphrased=True, follows=found.general)


def explained(failure: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return a failure, where its place does not say why, with what its words or the title are about."""
    vague = failure.cause is None or (failure.cause.name == FAULT and failure.type == "AssertionError")
    said = bool(failure.type) and not is_check(failure.message)
    about = cause_of_words(failure.message) if vague and said else None
    if about is not None:
        return replace(failure, cause=about, paraphrased=True, follows=False)
    return with_title(failure, lines) if failure.cause is None else failure


def with_title(failure: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return a failure whose words do not say why with the reason that the title of the text names.

    An exception of the program is shown as it is, and the reason beside it as a person's; only a message that
    follows from another failure gives way to it.
    """
    found = described(sentences(lines[:MOST_OF_TITLE]), titles_only=True, counts=_beside(lines))
    own = _is_own(failure)
    if found is not None and found.cause is not None and own and not found.general:
        own = failure.cause is None or found.cause.name not in HANGING
    if found is not None and found.cause is not None and own and not found.general:
        same = found.sentence.line.number == failure.line
        if same or not _quotes_error(found.sentence.text):
            return replace(failure, said=_said(found, found.cause))
    same = found is not None and found.sentence.line.number == failure.line
    if (
        found is None
        or found.cause is None
        or found.general
        or (same and not (failure.type and _is_end(failure)))
    ):
        title = next((each.text for each in sentences(lines[:MOST_OF_TITLE]) if each.title), "")
        named = mentioned_part(title)
        return failure if named is None else replace(failure, cause=named.cause, follows=False, origin=named)
    return replace(failure, cause=found.cause, paraphrased=True, follows=False, origin=NOWHERE)


def _is_end(failure: Failure) -> bool:
    """Whether a failure says only that a process ended."""
    return failure.cause is not None and failure.cause.name in ENDED


def _is_own(failure: Failure) -> bool:
    """Whether a failure is the program's own exception, and not only the end of a process."""
    if failure.cause is None:
        return bool(failure.type) or not failure.follows
    return not (failure.follows or _is_end(failure))


def _beside(lines: Sequence[LogLine]) -> Callable[[FailureCause], bool]:
    """Return whether a text allows a cause: the engine has not died, and was there to log something.

    Ranks that have loaded the model have exchanged data.
    """
    died, runs = shows_death(lines), any(line.origin is not None for line in lines)
    texts = [line.text for line in lines]
    loaded = bool(lines_containing(texts, _LOADED))

    def counts(cause: FailureCause) -> bool:
        late = loaded and cause.name == "ranks_hang_in_exchange"
        return not (late or (died and cause.of_request) or (runs and cause.name in BEFORE_THE_ENGINE))

    return counts


def _warning(quiet: Sequence[KnownWords], lines: Sequence[LogLine]) -> KnownWords | None:
    """Return the warning that explains a failure, else a message that decides, of whatever level it is.

    A kind of device that was not found says nothing where another one was.
    """
    warned = (each for each in quiet if each.cause.warned and lines[each.at].level != "INFO")
    return next(warned, None) or _deciding(quiet, lines)


def _deciding(quiet: Sequence[KnownWords], lines: Sequence[LogLine]) -> KnownWords | None:
    found = any(_FOUND in line.text for line in lines)
    return next(
        (each for each in quiet if each.cause.decides and not (found and each.cause.name in OF_NO_DEVICE)),
        None,
    )


def _cut_off(lines: Sequence[LogLine], *, complains: bool) -> Failure | None:
    """Return what the frames of a traceback show that was cut off before its exception, else a wrapper.

    ``complains``: a person says that something failed, so that warnings count without a traceback too.
    """
    at = last_frame(lines)
    texts = ["" if line.level in QUIET else line.text for line in lines]
    wrappers = [lines[each] for each, _ in lines_containing(texts, WRAPPERS)]
    # The statement that raises one has its words too.
    wrapper = next(
        (line for line in wrappers if not line.text.startswith("raise ")), next(iter(wrappers), None)
    )
    warned = _warning(list(known_words(lines, quiet=True)), lines)
    if warned is not None and (complains or at is not None or wrapper is not None):
        return of_known(warned, [warned], {}, lines)
    if at is None:
        return None if wrapper is None else _of_task(of_line(wrapper, NOWHERE))
    below = wrapper is not None and wrapper.number > lines[at].number
    if not below and (raised := raised_by_source(at, lines)) is not None:
        return of_exception(raised, lines)
    origin, frames = where_cut(at, lines)
    if (headed := message_above(at, lines)) is not None and not is_wrapper(headed.message):
        return _with_calls(of_exception(headed, lines), replace(of_line(lines[at], origin), frames=frames))
    return _of_task(replace(of_line(wrapper or lines[at], origin), frames=frames, cut=not below))


def _of_task(failure: Failure) -> Failure:
    """Return a failure of which only Ray's heading is left with the class that this names."""
    named = class_in_task(failure.message)
    if not named or failure.cause is not None:
        return failure
    said = next(known_words([LogLine(1, named, None)]), None)
    cause = innermost_part(named, ()).cause if said is None else said.cause
    return replace(failure, type=named, cause=cause, follows=cause is None)
