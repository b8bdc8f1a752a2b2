"""Writes the explanation of a log as text."""

from collections.abc import Iterable, Iterator
from typing import Final

from service.application.text.cause_words import cause_in_words
from service.application.text.compared_values import Listed, compared
from service.application.text.flags_read import flags_read
from service.application.text.headline import headline
from service.application.text.layout import WIDTH, wrapped
from service.application.text.words import (
    MOST_OF_A_MESSAGE,
    basis_words,
    change_words,
    cut,
    printable,
    with_type,
)
from service.calibration.from_logs import StoredLog
from service.explanation.explanation_types import (
    Agreement,
    Assumption,
    CauseBasis,
    Diagnosis,
    Explanation,
    SaidCause,
)
from service.explanation.wanted_lines import BELOW, OF_ENGINE

ADDED: Final = {
    "model": "--model ORG/NAME or --config FILE",
    "gpus": "--gpu",
    "engine.version": "--engine-version",
}
"""Options that give what a log does not say."""
COMMAND: Final = "  vllm serve "
MOST_OF_SAID: Final = 160
"""Characters of a person's sentence that are shown."""
OF_OFFER: Final = {"unknown_argument": "from the releases' arguments"}
"""Where offers come from that the figures of a log do not show, by the cause."""
MOST_LINES: Final = 24
"""Lines of an explanation; of longer ones fewer compared values, and no flags, are written out."""
NOT_NAMED: Final = " No catalogued cause has these words, so the failure is shown, not named."


def render_explanation(explanation: Explanation, stored: StoredLog | None = None, width: int = WIDTH) -> str:
    """Return an explanation as text, and what was stored of the log; the command is not wrapped."""
    for listed, flags in (*((each, True) for each in Listed), (Listed.DIFFERING, False)):
        lines = (*_lines(explanation, listed, flags=flags), *(() if stored is None else _stored(stored)))
        fitted = [each for line in lines for each in _wrapped(line, width)]
        if len(fitted) <= MOST_LINES:
            break
    return printable("".join(f"{line}\n" for line in fitted))


def _lines(explanation: Explanation, listed: Listed, *, flags: bool) -> Iterator[str]:
    """Yield what happened, why, and what to do first; then what was planned and compared."""
    request = explanation.request
    yield headline(explanation)
    if explanation.ending is not None:
        yield from _ending(explanation.ending)
    yield ""
    yield _log_in_words(explanation)
    if request is not None:
        what = "Compared with" if explanation.findings else "Nothing to compare with"
        taken = {each.field for each in explanation.assumptions if not each.certain}
        release = _marked(request.engine.version, assumed="engine.version" in taken)
        yield f"{what} the plan of vLLM {release} on {_marked(request.gpus[0].id, assumed='gpu' in taken)}:"
        yield f"  {explanation.command}"
    if _plan_can_show(explanation):
        yield from _assumed("assumed", explanation.assumptions)
        for missing in explanation.missing:
            yield f"  Cannot plan: {missing.why}.{_remedy(missing)}"
    if request is None and flags:
        yield from flags_read(explanation.log)
    if explanation.findings:
        failed = explanation.ending is not None
        yield from compared(explanation.findings, Listed.DIFFERING if failed else listed)
    for each in explanation.unmodelled:
        flag, _, why = each.partition(": ")
        yield f"Not counted: --{flag.replace('_', '-')} ({why})"
    for note in explanation.notes if explanation.ending is None else ():
        yield f"! {note}"


def _plan_can_show(explanation: Explanation) -> bool:
    """Return whether a plan tells of how the start ended: of its failure, or of a figure that differs.

    A plan has no stage for causes such as a missing library or a lost peer; lines of no start have no plan.
    """
    ending, log = explanation.ending, explanation.log
    shows_start = bool(log.milestone or log.flags or log.release or log.model)
    return (
        (shows_start and (ending is None or ending.cause is None))
        or (ending is not None and bool(ending.stage))
        or any(finding.agreement is Agreement.DIFFERS for finding in explanation.findings)
    )


def _marked(value: str, *, assumed: bool) -> str:
    """Return a value, marked where the log does not say it."""
    return f"{value} (assumed)" if assumed else value


def _remedy(missing: Assumption) -> str:
    return f" Add {ADDED[missing.field]}." if missing.field in ADDED else ""


def _log_in_words(explanation: Explanation) -> str:
    log = explanation.log
    release, model = (
        log.release or log.around.release or "of an unnamed release",
        log.model or "no model named",
    )
    starts = f"; {log.starts} starts" if log.starts > 1 else ""
    order = "; newest line first" if log.newest_first else ""
    unread = (
        f"; {log.unread_lines:,} lines in the middle searched for failures alone" if log.unread_lines else ""
    )
    lines = "1 line" if log.lines == 1 else f"{log.lines:,} lines"
    return f"Read: {lines}{unread}{starts}{order}; vLLM {release}; {model}"


def _stored(stored: StoredLog) -> Iterator[str]:
    yield ""
    if stored.digest is None:
        yield f"Not stored: {stored.why}"
        return
    yield f"Stored as evidence for later plans: {stored.digest[:12]}" if stored.new else "Stored before."
    if stored.why:
        yield f"  {stored.why}"


def _assumed(title: str, assumptions: Iterable[Assumption]) -> Iterator[str]:
    for each in assumptions:
        taken = f" = {each.taken}" if each.taken else ""
        yield f"  {title}: {each.field}{taken}: {each.why}"


def _ending(ending: Diagnosis) -> Iterator[str]:
    message = with_type(ending.type, ending.message)
    yield f"  {cut(message, MOST_OF_A_MESSAGE)}"
    if ending.part:
        yield f"  {_where(ending)}"
    if ending.means:
        yield f"{_heading(ending)}: {ending.means}"
    if ending.basis == "plan":
        yield "  The log does not say why; this is the plan's reason."
    for each in ending.works:
        yield f"The text says on line {each.line} with what it works: {cut(each.words, MOST_OF_SAID)}"
    yield from _to_do(ending)
    if ending.wanted:
        yield ending.wanted
    if ending.said is not None:
        yield from _said(ending.said)
    if ending.planned is not None and ending.foreseen is not None:
        words = "The plan refuses too" if ending.foreseen else "The plan refuses with other words"
        refusal = f"{ending.planned.type} ({ending.planned.stage}): {ending.planned.message}"
        yield f"  {words}: {cut(refusal, MOST_OF_A_MESSAGE)}"
        if ending.planned.detail:
            yield f"  {ending.planned.detail}"
    elif ending.foreseen is False:
        yield "  The plan does not fail here: check what it assumes below."


def _said(said: SaidCause) -> Iterator[str]:
    """Yield what the text says beside the program's own message, and what would help then."""
    yield f"The text says on line {said.line}: {cut(said.words, MOST_OF_SAID)}"
    yield f"  No message of the program shows it. If it is so: {cause_in_words(said.cause)}. {said.remedy}"


def _where(ending: Diagnosis) -> str:
    """Return in which part a failure was raised, and what is not known of it."""
    if ending.cause is None and ending.wanted == OF_ENGINE:
        return "These are the calls of the server alone; the error is the engine's, above this text."
    if ending.cause is None and ending.wanted == BELOW:
        return f"It failed in {ending.part}; the error itself is below the end of this text."
    return f"Raised in {ending.part}.{'' if ending.cause else NOT_NAMED}"


def _heading(ending: Diagnosis) -> str:
    """Return what stands before the meaning of a failure: how surely it is known."""
    if ending.cause is None:
        return "In general"
    if ending.basis is CauseBasis.PARAPHRASED:
        return "What is known" if ending.part_alone else "Why, as far as these words tell"
    if ending.basis is CauseBasis.ORIGIN:
        if not ending.by_place:
            return "Why"
        if not ending.part:
            return "Why, as far as its class tells"
        return _place_words(is_cut=ending.wanted == BELOW)
    return "Why"


def _place_words(*, is_cut: bool) -> str:
    """Return what stands before the meaning of a failure of which only the place is known."""
    if is_cut:
        return "The text ends before the error. What mostly fails at this place"
    return "The message does not say why. Failures of this class there mostly mean"


def _to_do(ending: Diagnosis) -> Iterator[str]:
    yield from (f"  {note}" for note in ending.notes)
    for fix in ending.fixes:
        yield f"Do ({basis_words(fix)}): {change_words(fix)}"
    if not ending.fixes:
        for offer in ending.offers:
            yield f"Do ({OF_OFFER.get(ending.cause or '', 'from the log')}): {offer}"
    if ending.remedy:
        yield f"{_to_do_heading(ending)}: {ending.remedy}"


def _to_do_heading(ending: Diagnosis) -> str:
    if ending.fixes or ending.offers:
        return "In general"
    return "What can help" if ending.by_place else "Do"


def _wrapped(text: str, width: int) -> Iterator[str]:
    if text.startswith(COMMAND):
        yield text
    else:
        yield from wrapped(text, width)
