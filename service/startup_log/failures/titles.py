"""Finds the reason of a failure in the title of a text, and in the words of its message."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from service.startup_log.catalogue.known_words import shows_death
from service.startup_log.catalogue.origins import ASSERTED, NOWHERE, mentioned_part
from service.startup_log.catalogue.phrases import CAUSES, MILESTONES, FailureCause
from service.startup_log.catalogue.templates import any_contains
from service.startup_log.catalogue.whole_messages import END_OF_TITLE, MAX_MESSAGE
from service.startup_log.errors.exceptions import PYTHON_WORDS, is_check
from service.startup_log.failures.logged_failure import Failure, Said
from service.startup_log.prose.sentences import MOST_OF_TITLE, reasons, sentences, title_of
from service.startup_log.prose.symptoms import HANG, Described, cause_of_words, described
from service.startup_log.text.lines import LogLine

FAULT: Final = "engine_fault"
"""The cause of what the engine's own code does not expect: it names the place and not the reason."""
SETTINGS: Final = "settings_refused"
"""The cause of a check that names the rule in its message."""
NOTHING: Final = "'NoneType' object"
"""What Python's own errors call a value that is not there."""
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
_OF_CODE: Final = re.compile(r"\w\.(?:shape|dtype|ndim)\b|\bshape \[|\w_\w+ is (?:not )?None\b")
"""What a check of tensors or of arguments names in its message: variables, whose names are no words."""
_LOADED: Final = (
    "Graph capturing finished",
    *(says for each in MILESTONES if each.name in {"profiling", "cache", "capture"} for says in each.says),
)
"""Messages behind the loading of the model."""
_QUOTES_ERROR: Final = re.compile(r"\b[A-Z][a-z]\w{1,60}(?:Error|Exception)\b|\bSIG[A-Z]{3,5}\b", re.ASCII)
"""What shows that a person's sentence quotes the program's error."""
OF_TESTS: Final = next(cause for cause in CAUSES if cause.name == "test_not_passed")
_TESTS: Final = re.compile(r" (?:tests?|ci|pytest)(?: [a-z]{1,12}){0,3} fail(?:s|ing|ed|ure|ures)? ")
OF_PYTHON: Final = (*PYTHON_WORDS, (ASSERTED, ""))
"""Words of Python's and C++'s errors, with the errors' classes."""


def quotes_error(text: str) -> bool:
    """Whether a person's sentence holds an error's class or words of Python's own errors."""
    return _QUOTES_ERROR.search(text) is not None or any(words in text for words, _ in OF_PYTHON)


def as_described(found: Described) -> Failure:
    """Return a failure in the sentence that describes it."""
    line = found.sentence.line
    message = found.sentence.text[:MAX_MESSAGE]
    return Failure(
        "",
        message,
        line.number,
        found.cause,
        {},
        paraphrased=True,
        follows=found.general,
        part_alone=found.part_alone,
    )


def said_by(found: Described, cause: FailureCause) -> Said:
    """Return a cause that a sentence gives beside the program's own message."""
    return Said(cause, found.sentence.text[:MAX_MESSAGE], found.sentence.line.number)


def with_reason(failure: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return a failure of which the place alone is known with the reason that a person gives for it."""
    said = (each for each in reasons(sentences(lines)) if failure.message[:END_OF_TITLE] not in each.text)
    found = described(tuple(said))
    if found is None or found.cause is None or found.general:
        return failure
    return replace(failure, cause=found.cause, paraphrased=True, origin=NOWHERE)


def explained(failure: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return a failure, where its place does not say why, with what its words or the title are about."""
    vague = failure.cause is None or (failure.cause.name == FAULT and failure.type == "AssertionError")
    if vague and failure.type == "AssertionError" and not failure.frames and _is_of_tests(lines):
        return replace(failure, cause=OF_TESTS, origin=NOWHERE)
    said = bool(failure.type) and not (is_check(failure.message) or _OF_CODE.search(failure.message))
    about = cause_of_words(failure.message) if vague and said else None
    # What has no value is a state of the code, and not what a request asked for.
    if about is not None and not (about.of_request and NOTHING in failure.message):
        return replace(failure, cause=about, paraphrased=True, follows=False)
    return with_title(failure, lines) if failure.cause is None else failure


def _is_of_tests(lines: Sequence[LogLine]) -> bool:
    """Whether the title says that tests fail."""
    title = title_of(lines)
    return title is not None and _TESTS.search(title.words) is not None


def with_title(failure: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return a failure whose words do not say why with the reason that the title of the text names.

    An exception of the program is shown as it is, and the reason beside it as a person's; only a message that
    follows from another failure gives way to it.
    """
    if _explains_itself(failure):
        return failure
    found = described(sentences(lines[:MOST_OF_TITLE]), titles_only=True, counts=beside(lines))
    own = _is_own(failure)
    if found is not None and found.cause is not None and own and not found.general:
        own = failure.cause is None or found.cause.name not in HANGING
    if found is not None and found.cause is not None and own and not found.general:
        quotes = quotes_error(found.sentence.text)
        return failure if quotes else replace(failure, said=said_by(found, found.cause))
    same = found is not None and found.sentence.line.number == failure.line
    if (
        found is None
        or found.cause is None
        or found.general
        or (same and not (failure.type and _is_end(failure)))
    ):
        title = title_of(lines)
        named = mentioned_part("" if title is None else title.text)
        return failure if named is None else replace(failure, cause=named.cause, follows=False, origin=named)
    return replace(failure, cause=found.cause, paraphrased=True, follows=False, origin=NOWHERE)


def _explains_itself(failure: Failure) -> bool:
    """Whether the program's message names the rule that it applies, so that no title says more."""
    return failure.cause is not None and failure.cause.name == SETTINGS and not failure.follows


def _is_end(failure: Failure) -> bool:
    """Whether a failure says only that a process ended."""
    return failure.cause is not None and failure.cause.name in ENDED


def _is_own(failure: Failure) -> bool:
    """Whether a failure is the program's own exception, and not only the end of a process."""
    if failure.cause is None:
        return bool(failure.type) or not failure.follows
    return not (failure.follows or _is_end(failure))


def beside(lines: Sequence[LogLine]) -> Callable[[FailureCause], bool]:
    """Return whether a text allows a cause: the engine has not died, and was there to log something.

    Ranks that have loaded the model have exchanged data.
    """
    died, runs = shows_death(lines), any(line.origin is not None for line in lines)
    texts = [line.text for line in lines]
    loaded = any_contains(texts, _LOADED)

    def counts(cause: FailureCause) -> bool:
        late = loaded and cause.name == "ranks_hang_in_exchange"
        return not (late or (died and cause.of_request) or (runs and cause.name in BEFORE_THE_ENGINE))

    return counts
