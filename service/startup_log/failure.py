"""Finds how a start failed: the engine's own message, and the cause that it indicates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from service.startup_log.complaints import is_complaint, reports_failure
from service.startup_log.cut_tracebacks import last_frame, where_cut
from service.startup_log.engine_errors import ENGINE, engine_error, error_in_text
from service.startup_log.exceptions import (
    HEADINGS,
    MOST_CHAINED,
    QUIET,
    Raised,
    class_in,
    last_of_chain,
    raised_by_source,
    raised_in,
)
from service.startup_log.known_words import (
    KnownWords,
    known_words,
    over_two_lines,
    requests_beside_failures,
)
from service.startup_log.lines import LogLine
from service.startup_log.origins import (
    ASSERTED,
    NOWHERE,
    FailureOrigin,
    asserted_part,
    likely_origin,
    mentioned_part,
    origin_of,
    owner_of,
)
from service.startup_log.paraphrases import paraphrased_shortage
from service.startup_log.phrases import CAUSES, WRAPPERS, FailureCause
from service.startup_log.sentences import reasons, sentences
from service.startup_log.symptoms import Described, cause_of_words, described
from service.startup_log.templates import SentenceIndex, lines_containing
from service.startup_log.tracebacks import (
    Frame,
    frames_above,
    ignored_by_python,
    is_source,
    native_frames,
    of_collect_env,
)
from service.startup_log.whole_messages import MAX_MESSAGE, full_message, position_of_whole

_SHORTAGE: Final = next(cause for cause in CAUSES if cause.name == "kv_cache_smaller_than_one_request")
_PROSE: Final = tuple((cause, words) for cause in CAUSES for words in cause.prose)
_PROSE_WORDS: Final = SentenceIndex([words for _, words in _PROSE])
ANY_PART: Final = "*"
"""Stands for all causes: words that say nothing where any part, or any other words, show a cause."""
FAULT: Final = "engine_fault"
"""The cause of what the engine's own code does not expect: it names the place and not the reason."""
MOST_OF_TITLE: Final = 8
"""Lines of a text in which its title is looked for."""
HANDLERS: Final = "serving_"
"""Beginning of the names of the engine's files that answer requests: entrypoints/openai/serving_chat.py."""
IMPORTS: Final = frozenset({"ImportError", "ModuleNotFoundError"})
"""Classes of which a library's words alone do not say whether a package is absent or of another version."""
_CONFLICTS: Final = (", which is not installed.", " which is incompatible.")
"""Ends of lines in which pip lists packages that do not belong together, after it has installed its own."""
_OF_PYTHON: Final = (
    (" object has no attribute '", "AttributeError"),
    ("() got an unexpected keyword argument", "TypeError"),
    ("required positional argument", "TypeError"),
    (ASSERTED, ""),
)
"""Words of Python's errors that name a class or a function, with the errors' classes."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of a start."""

    type: str
    """Class of the exception; empty if the log does not state it."""
    message: str
    """The engine's own message, at most ``MAX_MESSAGE`` characters."""
    line: int
    """Number of its line in the log, counted from 1."""
    cause: FailureCause | None
    """``None`` if the message is unknown."""
    values: Mapping[str, float | str]
    """Values in the message, by name."""
    paraphrased: bool = False
    """The message was written by a person, not by the engine."""
    serving: bool = False
    """The engine had started and served when it failed."""
    follows: bool = False
    """The message only says that something else failed, and the log does not show what."""
    origin: FailureOrigin = NOWHERE
    """Where an exception whose words are not known was raised."""
    source: str = ""
    """Release, file and function of the engine that raise it, where its words alone show them."""

    frames: tuple[Frame, ...] = ()
    """Calls of its traceback, the innermost first."""
    request: bool = False
    """The engine logged it while it answered a request."""
    cut: bool = False
    """The text ends within its traceback, above the exception."""

    @property
    def refused(self) -> bool:
        """Whether a running engine refused a request, so that neither its start nor the engine failed."""
        return self.request if self.cause is None else self.cause.of_request

    @property
    def by_origin(self) -> bool:
        """Whether the cause is known by where the exception was raised, and not by its words."""
        return self.cause is not None and self.cause is self.origin.cause


def find_failure(lines: Sequence[LogLine]) -> Failure | None:
    """Return the root of a failure, or None if the log shows no failure."""
    found = _root_of(lines)
    if found is None or found.cause is None:
        return found
    vague = found.cause.name == FAULT or (found.by_origin and found.cause.name == "ray_actor_died")
    return _with_reason(found, lines) if vague else found


def _root_of(lines: Sequence[LogLine]) -> Failure | None:
    """Return the root of a failure, or None if the log shows no failure.

    In this order: the first message of a known cause that was raised or logged as an error, since later
    errors only follow from it (in workers, the engine's core, the server); such a message anywhere else, or
    over two lines; the first other exception; a message that follows from another failure; an exception in a
    person's sentence; a person's description of the failure.
    """
    raised = {each.at: each for each in raised_in(lines)}
    other = of_collect_env(raised, lines) | ignored_by_python(raised, lines)
    known = [each for each in known_words(lines) if each.at in raised or _may_be_said(each, lines)]
    known = [each for each in known if each.at not in other]
    requests = requests_beside_failures(known, lines)
    known = [each for each in known if each.at not in requests]
    raised = {at: each for at, each in raised.items() if at not in other}
    strong = [each for each in known if not each.cause.weak]
    weak = [each for each in known if each.cause.weak]
    errors = [each for each in strong if each.at in raised or lines[each.at].level]
    roots = [each for each in raised.values() if not (each.is_empty or is_wrapper(lines[each.at].text))]
    weakly = {each.at for each in weak} | requests
    certain = [each for each in errors if ANY_PART not in each.cause.parts]
    certain = certain or [each for each in strong if ANY_PART not in each.cause.parts]
    first = next(iter(certain or errors or strong), None) or next(over_two_lines(lines, other), None)
    if first is not None:
        if (found := _of_part(first.cause, errors, raised, lines)) is not None:
            return found
        root = _yielded(first, lines)
        return _of_known(root, [*strong, root], raised, lines)
    own = [each for each in roots if not each.in_prose and each.at not in weakly]
    if own:
        return _explained(_of_exception(last_of_chain(own, lines), lines), lines)
    if weak:
        # A cause without an exception of its own only says where something failed.
        best = next((each for each in weak if each.cause.type), weak[0])
        return _with_title(replace(_of_known(best, weak, raised, lines), follows=not best.cause.type), lines)
    return _of_people(roots, lines)


def _of_people(roots: Sequence[Raised], lines: Sequence[LogLine]) -> Failure | None:
    """Return a failure that a person describes, or what is left of a traceback that says more."""
    vague = all(each.type in HEADINGS for each in roots)
    words = _of_sentence(lines) or _in_words(lines) if vague else None
    if words is None and roots:
        words = _explained(_of_exception(roots[0], lines), lines)
    if words is not None and not words.paraphrased:
        return words
    left = _cut_off(lines, complains=words is not None)
    if words is None or words.cause is None or left is None:
        return left or words
    # What is left of a traceback says more than prose, or than a title that says only what happened.
    title = words.line <= next((line.number for line in lines if line.text), 0)
    return words if left.cause is None or ((title or not left.frames) and not words.follows) else left


def _may_be_said(known: KnownWords, lines: Sequence[LogLine]) -> bool:
    """Whether words count that are in no exception."""
    return not known.cause.raised and not is_source(known.at, lines)


def _of_part(
    cause: FailureCause, known: Sequence[KnownWords], raised: Mapping[int, Raised], lines: Sequence[LogLine]
) -> Failure | None:
    """Return the failure by the part that raised it, if that says more than words which many parts have."""
    same = [each.at for each in known if each.cause == cause and each.at in raised] if cause.parts else []
    for at in same[:MOST_CHAINED]:
        found = _of_exception(raised[at], lines)
        if found.cause is not None and cause.parts & {found.cause.name, ANY_PART}:
            return found
    return None


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
        request=_is_of_request(line),
    )


def _of_python(lines: Sequence[LogLine]) -> Failure | None:
    """Return a failure in the words of Python's or C++'s own errors, without their class."""
    for at, which in lines_containing([line.text for line in lines], [words for words, _ in _OF_PYTHON]):
        line, type_name = lines[at], _OF_PYTHON[which][1]
        if line.level in QUIET or is_wrapper(line.text):
            continue
        origin = owner_of(type_name, line.text) if type_name else asserted_part(line.text)
        if origin is not None:
            words = line.text[:MAX_MESSAGE]
            shown = class_in(type_name, words)
            return Failure(shown, words, line.number, origin.cause, {}, origin=origin)
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
    found = described(sentences(lines))
    if found is None or (found.cause is None and is_wrapper(found.sentence.line.text)):
        return None
    return _as_described(found)


def _with_reason(failure: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return a failure of which the place alone is known with the reason that a person gives for it."""
    found = described(reasons(sentences(lines)))
    if found is None or found.cause is None or found.general:
        return failure
    return replace(failure, cause=found.cause, paraphrased=True, origin=NOWHERE)


def _as_described(found: Described) -> Failure:
    line = found.sentence.line
    message = found.sentence.text[:MAX_MESSAGE]
    return Failure("", message, line.number, found.cause, {}, paraphrased=True, follows=found.general)


def _explained(failure: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return a failure, where its place does not say why, with what its words or the title are about."""
    vague = failure.cause is None or (failure.cause.name == FAULT and failure.type == "AssertionError")
    about = cause_of_words(failure.message) if vague and failure.type else None
    if about is not None:
        return replace(failure, cause=about, paraphrased=True, follows=False)
    return _with_title(failure, lines) if failure.cause is None else failure


def _with_title(failure: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return a failure whose words do not say why with the reason that the title of the text names."""
    found = described(sentences(lines[:MOST_OF_TITLE]), titles_only=True)
    if found is None or found.cause is None or found.general or found.sentence.line.number == failure.line:
        title = next((each.text for each in sentences(lines[:MOST_OF_TITLE]) if each.title), "")
        named = mentioned_part(title)
        return failure if named is None else replace(failure, cause=named.cause, follows=False, origin=named)
    return replace(failure, cause=found.cause, paraphrased=True, follows=False, origin=NOWHERE)


def _cut_off(lines: Sequence[LogLine], *, complains: bool) -> Failure | None:
    """Return what the frames of a traceback show that was cut off before its exception, else a wrapper.

    ``complains``: a person says that something failed, so that warnings count without a traceback too.
    """
    at = last_frame(lines)
    texts = ["" if line.level in QUIET else line.text for line in lines]
    wrapper = next((lines[each] for each, _ in lines_containing(texts, WRAPPERS)), None)
    quiet = (each for each in known_words(lines, quiet=True) if lines[each.at].level != "INFO")
    warned = next((each for each in quiet if each.cause.warned), None)
    if warned is not None and (complains or at is not None or wrapper is not None):
        return _of_known(warned, [warned], {}, lines)
    if at is None:
        return None if wrapper is None else _of_line(wrapper, NOWHERE)
    below = wrapper is not None and wrapper.number > lines[at].number
    if not below and (raised := raised_by_source(at, lines)) is not None:
        return _of_exception(raised, lines)
    origin, frames = where_cut(at, lines)
    return replace(_of_line(wrapper or lines[at], origin), frames=frames, cut=not below)


def _of_line(line: LogLine, origin: FailureOrigin) -> Failure:
    return Failure(
        "",
        line.text[:MAX_MESSAGE],
        line.number,
        origin.cause,
        {},
        follows=origin.cause is None,
        origin=origin,
        request=_is_of_request(line),
    )


def _is_of_request(line: LogLine) -> bool:
    return line.origin is not None and line.origin[0].rpartition("/")[2].startswith(HANDLERS)


def is_wrapper(text: str) -> bool:
    """Whether a text only says that something else failed."""
    return any(words in text for words in WRAPPERS)


def _yielded(first: KnownWords, lines: Sequence[LogLine]) -> KnownWords:
    """Return the cause from which another one follows, if the log has its words, as a warning too."""
    if not first.cause.yields_to:
        return first
    roots = {each.cause.name: each for each in reversed(list(known_words(lines, quiet=True)))}
    return next((roots[name] for name in first.cause.yields_to if name in roots), first)


def _of_known(
    root: KnownWords, others: Sequence[KnownWords], raised: Mapping[int, Raised], lines: Sequence[LogLine]
) -> Failure:
    """Return a known failure in the words of the exception, if the log has it too."""
    same = [each for each in others if each.cause == root.cause]
    shown = root.at
    if shown not in raised or raised[shown].in_prose:
        shown = next(
            (each.at for each in same if each.at in raised and not raised[each.at].in_prose),
            position_of_whole(root, same, lines),
        )
    exception, line = raised.get(shown), lines[shown]
    values = {**next((each.values for each in same if each.at == shown), {}), **root.values}
    if exception is None:
        words = line.text.strip("` ")[:MAX_MESSAGE]
        shown_type = class_in(root.cause.type, words)
        return Failure(shown_type, words, line.number, root.cause, values, frames=native_frames(shown, lines))
    message = full_message(exception.message, lines, shown)
    frames = (*native_frames(shown, lines), *frames_above(shown, lines))
    return Failure(exception.type, message, line.number, root.cause, values, frames=frames)


def _of_exception(root: Raised, lines: Sequence[LogLine]) -> Failure:
    """Return a failure whose words are not known, with where it was raised."""
    message = full_message(root.message, lines, root.at)
    frames, source = frames_above(root.at, lines), ""
    origin = likely_origin(root.type, message, frames)
    if origin.cause is None and (error := engine_error(root.type, message)) is not None:
        # The frames of a traceback that was cut begin far above the place where it was raised.
        raised_at = origin_of(root.type, (error.frame, *frames))
        unsure = error.package != ENGINE and error.type in IMPORTS
        source = error.source
        origin = replace(raised_at, cause=None) if unsure else raised_at
    line = lines[root.at]
    return Failure(
        root.type,
        message,
        line.number,
        origin.cause,
        {},
        origin=origin,
        source=source,
        frames=frames,
        request=_is_of_request(line),
    )
