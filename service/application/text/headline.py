"""Says in one sentence what happened in a log, and whether anything of it was understood."""

from typing import Final

from service.application.text.cause_words import failed_in_words
from service.application.text.words import MOST_OF_A_MESSAGE, cut
from service.explanation.explanation_types import CauseBasis, Diagnosis, Explanation
from service.explanation.wanted_lines import LINES
from service.startup_log.failures.said_failures import INTERRUPTED
from service.startup_log.log import LogReading, StartupLog
from service.startup_log.starts import SERVING

PASTE: Final = f"To have a failure explained, {LINES}"
BETWEEN: Final = (
    "These lines are vLLM's and show no failure; they hold neither the first nor the last steps of a start."
)
WHO_ASKED: Final = (
    "see at that time what its supervisor did (`journalctl -u UNIT`, `docker events`, "
    "`kubectl describe pod`: a probe that failed, a new version, a limit)."
)
"""Where it stands why a server was ended from outside."""
ASKED: Final = (
    "What a model needs, and whether it fits a GPU, is answered by `dryserve plan MODEL --gpu GPU`."
)
"""What answers a question that is no failure."""
OF_KERNELS_AT_WORK: Final = frozenset(
    {
        *("illegal_memory_access", "illegal_instruction", "device_side_assert", "gpu_fault", "cuda_error"),
        "collective_timed_out",
        *("request_not_checked", "weights_not_transferred"),
    }
)
"""Causes that a start and a running engine have alike: a piece of a log does not tell which failed."""
STOPS: Final = "ends_without_a_word"
"""The cause of a log that stops in the middle of a start."""
DIED: Final = "engine_died_serving"
"""The cause of which a text says only that the engine ended."""
OF_THE_PROGRAM: Final = "program_fault"
OF_CLIENTS: Final = frozenset({"server_not_reached", "client_timed_out", "client_keyword_unknown"})
"""Causes of a client that got no answer, which is no request that the engine refused."""


def headline(explanation: Explanation) -> str:
    """Return in one sentence what happened."""
    log, ending = explanation.log, explanation.ending
    if ending is None:
        return _without_failure(explanation)
    cause = failed_in_words(ending)
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
        return _served(log)
    if log.answering and log.stopped_on is None and log.ended_on is None:
        return "The engine serves; the text does not hold its start, and shows no failure."
    return _of_a_piece(log)


def _of_a_piece(log: StartupLog) -> str:
    """Return what the lines show that hold no failure and no server that came up: its end, or a part."""
    if log.ended_on is not None and not log.milestone:
        ended = f"The server ended in order on line {log.ended_on}; this text does not hold the reason"
        return f"{ended}: {WHO_ASKED}"
    if log.stopped_on is not None and not log.milestone:
        stopped = f"The server was asked to stop on line {log.stopped_on}, and did so in order"
        return f"{stopped}; this text shows no failure. Who asked is not in it: {WHO_ASKED}"
    return _unfinished(log)


def _served(log: StartupLog) -> str:
    """Return that an engine came up without a failure, and how it ended if it did."""
    if log.stopped_on is not None:
        return f"The engine started and served until a signal stopped it, on line {log.stopped_on}."
    if log.ended_on is not None:
        return f"The engine started, served and ended in order, on line {log.ended_on}."
    return "The engine started and serves; the log shows no failure."


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
    said = cut(str(waits.value), MOST_OF_A_MESSAGE)
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
