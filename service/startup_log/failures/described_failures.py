"""Finds a failure in sentences: those of a person, and the program's without the class of an exception."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from service.startup_log.catalogue.engine_errors import error_in_text
from service.startup_log.catalogue.known_words import KnownWords, known_words
from service.startup_log.catalogue.origins import asserted_part, by_words, origin_of, owner_of
from service.startup_log.catalogue.phrases import CAUSES, FailureCause
from service.startup_log.catalogue.refused_answers import are_refusals, refused_answer
from service.startup_log.catalogue.templates import SentenceIndex, lines_containing
from service.startup_log.catalogue.whole_messages import MAX_MESSAGE
from service.startup_log.errors.exceptions import QUIET, class_in
from service.startup_log.errors.harmless_errors import is_harmless
from service.startup_log.errors.tracebacks import is_numbered_source
from service.startup_log.failures.logged_failure import Failure, is_of_request, is_wrapper, of_known
from service.startup_log.failures.titles import OF_PYTHON, as_described, beside
from service.startup_log.prose.complaints import (
    describes_change,
    is_complaint,
    is_titled_as_commit,
    reports_failure,
)
from service.startup_log.prose.general_texts import compares_engines
from service.startup_log.prose.labelled_parts import REASON, labelled
from service.startup_log.prose.misspelt import misspelt
from service.startup_log.prose.paraphrases import paraphrased_shortage
from service.startup_log.prose.sentences import LONGEST, Sentence, plain_words, sentences, title_of
from service.startup_log.prose.symptoms import Described, complains, described
from service.startup_log.text.lines import LogLine

_SHORTAGE: Final = next(cause for cause in CAUSES if cause.name == "kv_cache_smaller_than_one_request")
_PROSE: Final = tuple((cause, words) for cause in CAUSES for words in cause.prose)
_PROSE_WORDS: Final = SentenceIndex([words for _, words in _PROSE])
OF_OWNERS: Final = frozenset({"", "AttributeError"})
"""Classes of errors that say nothing where the class or the file that they name is not known."""
_CONFLICTS: Final = (", which is not installed.", " which is incompatible.")
"""Ends of lines in which pip lists packages that do not belong together, after it has installed its own."""


def of_sentence(lines: Sequence[LogLine]) -> Failure | None:
    """Return a failure whose own words stand in a line without the class of an exception: a title, a prose.

    Of these only such count as say by themselves where they were raised and what that means.
    """
    lines = [line for line in lines if not is_harmless(line)]
    found = error_in_text(
        [
            "" if line.level in QUIET or is_numbered_source(at, lines) else line.text
            for at, line in enumerate(lines)
        ]
    )
    if found is None:
        return _of_python(lines)
    at, error = found
    origin = origin_of(error.type, (error.frame,))
    if origin.cause is None:
        return _of_python(lines)
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
    for at, which in lines_containing([line.text for line in lines], [words for words, _ in OF_PYTHON]):
        if lines[at].level not in QUIET and not is_wrapper(lines[at].text):
            yield lines[at], OF_PYTHON[which][1]


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


def of_quoting_title(lines: Sequence[LogLine]) -> Failure | None:
    """Return Python's own error that the title quotes, for a log that has only what followed from it."""
    title = title_of(lines)
    if title is None or not any(words in title.text for words, _ in OF_PYTHON):
        return None
    found = _of_python([title.line])
    return Failure("", title.text[:MAX_MESSAGE], title.line.number, None, {}) if found is None else found


def in_words(lines: Sequence[LogLine]) -> Failure | None:
    """Return a failure that a person describes, or one of which the log only says that it happened."""
    lines = [line for line in lines if not (line.text.endswith(_CONFLICTS) or is_harmless(line))]
    said = sentences(lines)
    if describes_change(lines):
        return None
    shortage = paraphrased_shortage(lines)
    if shortage is not None:
        line, sizes = shortage
        return Failure("", line.text[:MAX_MESSAGE], line.number, _SHORTAGE, sizes, paraphrased=True)
    if (named := _in_prose(lines, said)) is not None:
        return named
    found = _by_label(described(said, counts=beside(lines)), lines)
    unowned = _of_unowned(lines) if found is None or found.general else None
    if unowned is not None:
        return unowned
    if (found is None or found.cause is None) and (complains(said) or are_refusals(lines)):
        answer = refused_answer(lines)
        if answer is not None:
            return of_known(KnownWords(*answer, {}), (), {}, lines)
    says_nothing = found is None or (
        found.cause is None
        and (
            is_wrapper(found.sentence.line.text)
            or is_titled_as_commit(lines)
            or compares_engines(found.sentence)
        )
    )
    return None if found is None or says_nothing else _with_quoted_class(as_described(found))


def _with_quoted_class(failure: Failure) -> Failure:
    """Return a failure that a person only complains of with the class of Python's error that they quote."""
    type_name = next((name for words, name in OF_PYTHON if words in failure.message and name), "")
    return failure if failure.cause or not type_name else replace(failure, type=type_name, follows=False)


def _by_label(found: Described | None, lines: Sequence[LogLine]) -> Described | None:
    """Return what the part says that is labelled as the reason, where the title does not show the cause."""
    if found is not None and found.sentence.title and found.cause is not None and not found.general:
        return found
    part = labelled(lines, REASON)
    if part is None:
        return found
    line, words = part
    reason = Sentence(line, plain_words(words[:LONGEST]), words[:LONGEST], title=True)
    said = described([reason], counts=beside(lines))
    return found if said is None or said.cause is None or said.general else said


def _complains_of(line: LogLine, cause: FailureCause, complaints: dict[LogLine, bool]) -> bool:
    """Whether a person says on a line that something failed, and why; each line is looked at once."""
    if line not in complaints:
        complaints[line] = is_complaint(line)
    return complaints[line] and not any(map(line.text.__contains__, cause.unless))


def _in_prose(lines: Sequence[LogLine], said: Sequence[Sentence]) -> Failure | None:
    """Return a failure in people's words that stand for one cause."""
    failing = any(map(reports_failure, lines))
    complaints: dict[LogLine, bool] = {}
    texts = [line.text.casefold() if line.level not in QUIET else "" for line in lines]
    for at, which in _PROSE_WORDS.pairs(texts):
        line, cause = lines[at], _PROSE[which][0]
        # Cells of one row have one number.
        near = [
            *(each for each in lines[max(0, at - 2) : at] if each.number == line.number),
            *lines[at : at + 2],
        ]
        complains = failing or any(_complains_of(each, cause, complaints) for each in near)
        if complains:
            return Failure("", line.text[:MAX_MESSAGE], line.number, cause, {}, paraphrased=True)
    found = misspelt(said, [words for _, words in _PROSE])
    if found is None:
        return None
    sentence, cause = found[0], _PROSE[found[1]][0]
    return Failure("", sentence.text[:MAX_MESSAGE], sentence.line.number, cause, {}, paraphrased=True)
