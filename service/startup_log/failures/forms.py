"""Says which form of its cause a failure has: by its message, its traceback and the rest of the log."""

from collections.abc import Sequence
from dataclasses import replace

from service.startup_log.catalogue.origins import frames_mentioned, gives_reason
from service.startup_log.catalogue.phrases import CauseForm, FailureCause
from service.startup_log.catalogue.places import form_by_place
from service.startup_log.errors.tracebacks import Frame
from service.startup_log.failures.advice import facts_in
from service.startup_log.failures.checking_part import checking_place
from service.startup_log.failures.logged_failure import Failure
from service.startup_log.failures.stated_rules import (
    has_many_reasons,
    said_pair,
    stated_before,
    stated_form,
)
from service.startup_log.failures.weight_shapes import form_of_shapes
from service.startup_log.text.lines import LogLine


def with_form(failure: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return a failure with the form of its cause: the first that fits the log, else that of its place."""
    if failure.cause is None:
        return failure
    texts = [line.text.lower() for line in lines]
    fits = (form for form in failure.cause.forms if _fits(form, failure, texts))
    form = next(fits, None) or form_of_shapes(failure.cause.name, failure.message)
    if form is None and failure.type and not failure.paraphrased:
        form = _by_message(failure, failure.cause)
    if form is None and failure.paraphrased:
        form = said_pair(failure.cause, failure.message)
    if form is None:
        form = form_by_place(failure.cause.name, _calls(failure))
    return replace(failure, form=form, facts=facts_in(texts))


def _by_message(failure: Failure, cause: FailureCause) -> CauseForm | None:
    """Return the form that the rule in a message makes; ``None`` where it states none."""
    place = checking_place(failure)
    form = stated_form(cause, failure.message, place)
    vague = failure.by_origin or has_many_reasons(cause)
    if form is not None or not vague or not gives_reason(failure.type, failure.message):
        return form
    return stated_before(cause, failure.message, place)


def _calls(failure: Failure) -> Sequence[Frame]:
    """Return where it was raised, the innermost first; of people's words the places that they name."""
    if failure.paraphrased and not failure.frames:
        return frames_mentioned(failure.message)
    return failure.frames if failure.raised_in is None else (failure.raised_in, *failure.frames)


def _fits(form: CauseForm, failure: Failure, texts: Sequence[str]) -> bool:
    if not form.is_of(f"{failure.type}: {failure.message}"):
        return False
    if form.within and not any(part in f"/{frame.path}" for frame in failure.frames for part in form.within):
        return False
    if any(words in text for text in texts for words in form.unless):
        return False
    return not form.beside or any(words in text for text in texts for words in form.beside)
