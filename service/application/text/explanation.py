"""Writes the explanation of a log as text."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from service.application.text.layout import WIDTH, wrapped
from service.application.text.words import basis_words, change_words, place_words, printable, with_type
from service.calibration.from_logs import StoredLog
from service.explanation.explanation_types import (
    Agreement,
    Assumption,
    CauseBasis,
    Diagnosis,
    Explanation,
    Finding,
    SaidCause,
)
from service.explanation.wanted_lines import BELOW, LINES
from service.startup_log.failures.said_failures import INTERRUPTED
from service.startup_log.log import LogReading, StartupLog
from service.startup_log.starts import SERVING

ADDED: Final = {
    "model": "--model ORG/NAME or --config FILE",
    "gpus": "--gpu",
    "engine.version": "--engine-version",
}
"""Options that give what a log does not say."""
PASTE: Final = f"To have a failure explained, {LINES}"
BETWEEN: Final = (
    "These lines are vLLM's and show no failure; they hold neither the first nor the last steps of a start."
)
ASKED: Final = (
    "What a model needs, and whether it fits a GPU, is answered by `dryserve plan MODEL --gpu GPU`."
)
"""What answers a question that is no failure."""
COMMAND: Final = "  vllm serve "
MOST_OF_A_MESSAGE: Final = 420
"""Characters of a message that are shown; JSON has all of it."""
MOST_OF_SAID: Final = 160
"""Characters of a person's sentence that are shown."""
FEW_FINDINGS: Final = 8
"""Of more findings without a comparison than this, only the number is written."""
OF_KERNELS_AT_WORK: Final = frozenset(
    {
        *("illegal_memory_access", "illegal_instruction", "device_side_assert", "gpu_fault", "cuda_error"),
        "collective_timed_out",
        *("request_not_checked", "weights_not_transferred"),
    }
)
"""Causes that a start and a running engine have alike: a piece of a log does not tell which failed."""
OF_OFFER: Final = {"unknown_argument": "from the releases' arguments"}
"""Where offers come from that the figures of a log do not show, by the cause."""
STOPS: Final = "ends_without_a_word"
"""The cause of a log that stops in the middle of a start."""
DIED: Final = "engine_died_serving"
"""The cause of which a text says only that the engine ended."""
OF_THE_PROGRAM: Final = "program_fault"
OF_CLIENTS: Final = frozenset({"server_not_reached", "client_timed_out", "client_keyword_unknown"})
"""Causes of a client that got no answer, which is no request that the engine refused."""
NOT_NAMED: Final = " No catalogued cause has these words, so the failure is shown, not named."
MARKS: Final = {
    Agreement.AGREES: "=",
    Agreement.WITHIN: "~",
    Agreement.DIFFERS: "X",
    Agreement.NOT_COMPARED: "?",
}

UNITS: Final = {"_gib": " GiB", "_pct": " %"}
"""Units by the ends of names."""
_ORDER: Final = (Agreement.DIFFERS, Agreement.AGREES, Agreement.WITHIN, Agreement.NOT_COMPARED)


def render_explanation(explanation: Explanation, stored: StoredLog | None = None, width: int = WIDTH) -> str:
    """Return an explanation as text, and what was stored of the log; the command is not wrapped."""
    lines = (*_lines(explanation), *(() if stored is None else _stored(stored)))
    fitted = (each for line in lines for each in _wrapped(line, width))
    return printable("".join(f"{line}\n" for line in fitted))


def _lines(explanation: Explanation) -> Iterator[str]:
    """Yield what happened, why, and what to do first; then what was planned and compared."""
    request = explanation.request
    yield headline(explanation)
    if explanation.ending is not None:
        yield from _ending(explanation.ending)
    yield ""
    yield _log_in_words(explanation)
    if request is not None:
        yield f"Compared with the plan of vLLM {request.engine.version} on {request.gpus[0].id}:"
        yield f"  {explanation.command}"
    yield from _assumed("assumed", explanation.assumptions)
    for missing in explanation.missing:
        yield f"  Cannot plan: {missing.why}.{_remedy(missing)}"
    if explanation.findings:
        yield from _compared(explanation.findings, failed=explanation.ending is not None)
    for each in explanation.unmodelled:
        flag, _, why = each.partition(": ")
        yield f"Not counted: --{flag.replace('_', '-')} ({why})"
    for note in explanation.notes if explanation.ending is None else ():
        yield f"! {note}"


def _remedy(missing: Assumption) -> str:
    return f" Add {ADDED[missing.field]}." if missing.field in ADDED else ""


def headline(explanation: Explanation) -> str:
    """Return in one sentence what happened."""
    log, ending = explanation.log, explanation.ending
    if ending is None:
        return _without_failure(explanation)
    cause = (ending.cause or "a cause that is not known").replace("_", " ")
    if ending.basis is CauseBasis.PARAPHRASED:
        if ending.type:
            return f"The failure on line {ending.line} is, by its words alone: {cause}."
        which = "hang" if ending.hangs else "failure"
        lacks = "message or its reason; the nearest known cause" if ending.part_alone else "message"
        return f"The text describes a {which} on line {ending.line}, without the program's {lacks}: {cause}."
    if ending.hangs:
        return _of_a_hang(ending, cause)
    if ending.cause == OF_THE_PROGRAM or ending.refused or ending.serving:
        return _of_a_running_engine(log, ending, cause)
    return _of_a_start(log, ending, cause)


def _of_a_hang(ending: Diagnosis, cause: str) -> str:
    which = "The engine started and hangs" if ending.serving else "The engine hangs"
    return f"{which}, as line {ending.line} shows: {cause}."


def _of_a_start(log: StartupLog, ending: Diagnosis, cause: str) -> str:
    which = f"start {ending.start} of {log.starts}" if ending.start is not None else "the start"
    if ending.earlier:
        return f"The last start came up, but {which} failed on line {ending.line}: {cause}."
    if log.waits is not None and log.waits.line == ending.line:
        return f"The start waits where the log ends, on line {ending.line}: {cause}."
    piece = not (log.milestone or log.flags_logged or log.release)
    if (ending.cause in OF_KERNELS_AT_WORK and piece) or (ending.cause == DIED and ending.start is None):
        return f"The engine failed on line {ending.line}: {cause}."
    if not ending.of_start and ending.start is None:
        return f"The text shows a failure on line {ending.line}: {cause}."
    after = f" after '{ending.reached}'" if ending.reached else ""
    if ending.cause == STOPS:
        return f"The log stops in the middle of {which}, on line {ending.line}{after}, and shows no error."
    return f"{which[0].upper()}{which[1:]} failed on line {ending.line}{after}: {cause}."


def _of_a_running_engine(log: StartupLog, ending: Diagnosis, cause: str) -> str:
    if ending.cause == OF_THE_PROGRAM:
        return f"The program that calls the engine failed on line {ending.line}, not the engine."
    started = log.milestone == SERVING and ending.start is None
    if ending.cause in OF_CLIENTS:
        engine = "The engine started and serves; a client" if started else "A client"
        return f"{engine} reports a failure on line {ending.line}: {cause}."
    if ending.refused and started:
        return f"The engine started and serves; it refused a request, on line {ending.line}: {cause}."
    if ending.refused:
        return f"The engine runs and refused a request, on line {ending.line}: {cause}."
    if ending.cause == INTERRUPTED and ending.serving:
        return f"A signal stopped the engine while it ran, on line {ending.line}."
    ended = "failed at a request" if ending.answers else "died later"
    return f"The engine started and {ended}, on line {ending.line}: {cause}."


def _without_failure(explanation: Explanation) -> str:
    log = explanation.log
    if not understood(explanation):
        return _nothing(log)
    if not log.milestone and (log.measured or log.served_cache):
        return "The text holds measurements of a running engine."
    if log.milestone == SERVING:
        return "The engine started and serves; the log shows no failure."
    if log.answering and log.stopped_on is None and log.ended_on is None:
        return "The engine serves; the text does not hold its start, and shows no failure."
    if log.ended_on is not None and not log.milestone:
        return f"The server ended in order on line {log.ended_on}; this text does not hold the reason."
    return _unfinished(log)


def _nothing(log: StartupLog) -> str:
    if log.packed:
        return f"This is no text, but what {log.packed} made of one: unpack it, and give the log itself."
    if log.around.about is not None:
        return f"{log.around.about} {PASTE} {ASKED}"
    return f"Nothing in this text was understood: no line of it is one of vLLM's log. {PASTE}"


def _unfinished(log: StartupLog) -> str:
    if log.waits is not None:
        return _waiting(log.waits)
    if log.milestone:
        return f"The log shows no failure; it ends after '{log.milestone}', before the server is ready."
    if log.word("release") is not None and log.flags_logged:
        return f"The log shows no failure; it ends before the server is ready. {PASTE}"
    if log.engine_lines and log.release is None and not log.flags_logged:
        return f"{BETWEEN} {PASTE}"
    if log.around.about is not None:
        return f"{log.around.about} {PASTE} {ASKED}"
    return f"The log shows no failure, and no step of the start. {PASTE} {ASKED}"


def _waiting(waits: LogReading) -> str:
    """Return what a start waits for, and when that is no longer in order."""
    said = _cut(str(waits.value), MOST_OF_A_MESSAGE)
    lock = " A lock whose owner was ended stays: if nothing works on it, delete its file and start again."
    return (
        f"The log shows no failure; where it ends, on line {waits.line}, a process waits for another one: "
        f"{said}. A first compilation or download can take many minutes."
        f"{lock if 'lock' in said or 'baton' in said else ''}"
    )


def understood(explanation: Explanation) -> bool:
    """Whether anything of a log was understood: its release, its model, a value, or how it failed."""
    log = explanation.log
    said = (log.release, log.model, log.milestone, log.readings, log.flags, log.around.release, log.ended_on)
    measured = (log.measured, log.served_cache, log.answering, log.engine_lines)
    return explanation.ending is not None or any(said) or any(measured)


def answered(explanation: Explanation) -> bool:
    """Whether an answer says more than what the text names: how a start ended, or what was planned beside it.

    Its release and its model alone tell nothing of what happened.
    """
    log = explanation.log
    logged = (log.milestone, log.readings, log.ended_on, log.measured, log.served_cache, log.engine_lines)
    found = explanation.ending is not None or explanation.request is not None or log.answering
    return understood(explanation) and (found or any(logged))


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
    return f"Read: {log.lines:,} lines{unread}{starts}{order}; vLLM {release}; {model}"


def _compared(findings: Sequence[Finding], *, failed: bool) -> Iterator[str]:
    """Yield the comparison: what differs first; of a failed start nothing else."""
    counts = {each: sum(finding.agreement is each for finding in findings) for each in Agreement}
    yield ""
    yield (
        f"Log and plan: {counts[Agreement.AGREES]} agree (=), "
        f"{counts[Agreement.WITHIN]} within an estimate (~), "
        f"{counts[Agreement.DIFFERS]} differ (X), {counts[Agreement.NOT_COMPARED]} not compared (?)"
    )
    many = counts[Agreement.NOT_COMPARED] > FEW_FINDINGS
    for finding in sorted(findings, key=lambda each: (_ORDER.index(each.agreement), each.line)):
        if finding.agreement is Agreement.NOT_COMPARED and many:
            continue
        if failed and finding.agreement is not Agreement.DIFFERS:
            continue
        yield from _finding(finding)


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
    yield f"  {_cut(message, MOST_OF_A_MESSAGE)}"
    if ending.part:
        yield f"  {_where(ending)}"
    if ending.means:
        yield f"{_heading(ending)}: {ending.means}"
    if ending.basis == "plan":
        yield "  The log does not say why; this is the plan's reason."
    for each in ending.works:
        yield f"The text says on line {each.line} with what it works: {_cut(each.words, MOST_OF_SAID)}"
    yield from _to_do(ending)
    if ending.wanted:
        yield ending.wanted
    if ending.said is not None:
        yield from _said(ending.said)
    if ending.planned is not None and ending.foreseen is not None:
        words = "The plan refuses too" if ending.foreseen else "The plan refuses with other words"
        refusal = f"{ending.planned.type} ({ending.planned.stage}): {ending.planned.message}"
        yield f"  {words}: {_cut(refusal, MOST_OF_A_MESSAGE)}"
        if ending.planned.detail:
            yield f"  {ending.planned.detail}"
    elif ending.foreseen is False:
        yield "  The plan does not fail here: check what it assumes below."


def _said(said: SaidCause) -> Iterator[str]:
    """Yield what the text says beside the program's own message, and what would help then."""
    yield f"The text says on line {said.line}: {_cut(said.words, MOST_OF_SAID)}"
    yield f"  No message of the program shows it. If it is so: {said.cause.replace('_', ' ')}. {said.remedy}"


def _where(ending: Diagnosis) -> str:
    """Return in which part a failure was raised, and what is not known of it."""
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
        return place_words(cut=ending.wanted == BELOW)
    return "Why"


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


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} ..."


def _finding(finding: Finding) -> Iterator[str]:
    name, unit = name_in_words(finding.name)
    planned = "" if finding.planned is None else f", planned {_interval(finding)}{unit}"
    yield (
        f"{MARKS[finding.agreement]} line {finding.line}: {name} "
        f"{number_in_words(finding.logged)}{unit}{planned}: {finding.why}"
    )


def name_in_words(name: str) -> tuple[str, str]:
    """Return a value's name without its unit, and the unit with a blank before it."""
    for suffix, unit in UNITS.items():
        if name.endswith(suffix):
            return name.removesuffix(suffix).replace("_", " "), unit
    return name.replace("_", " "), ""


def _interval(finding: Finding) -> str:
    if finding.low is None or finding.high is None or finding.low == finding.high:
        return number_in_words(finding.planned)
    # The engine itself logs memory below 0; beside any other figure it means that there is none.
    below = isinstance(finding.logged, float) and finding.logged < 0
    values = (finding.planned, finding.low, finding.high)
    planned, low, high = (_amount(each, may_be_negative=below) for each in values)
    return f"{planned} ({low} to {high})"


def _amount(value: float | str | None, *, may_be_negative: bool) -> str:
    negative = isinstance(value, float) and value < 0
    return "none" if negative and not may_be_negative else number_in_words(value)


def number_in_words(value: float | str | None) -> str:
    """Return a value as people write it."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if value.is_integer() else f"{value:,.2f}"


def _wrapped(text: str, width: int) -> Iterator[str]:
    if text.startswith(COMMAND):
        yield text
    else:
        yield from wrapped(text, width)
