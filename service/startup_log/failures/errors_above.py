"""Finds the error above the engine's report of its end, where no traceback but another program prints it."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from service.startup_log.catalogue.known_words import known_words
from service.startup_log.catalogue.phrases import CAUSES, FailureCause
from service.startup_log.catalogue.whole_messages import MAX_MESSAGE
from service.startup_log.failures.logged_failure import Failure, is_wrapper
from service.startup_log.text.lines import LogLine

MOST_ABOVE: Final = 60
"""Lines above the report in which the error is looked for."""
_COMPILER: Final = re.compile(
    r"^(?:loc\(.{1,200}?\)|[^\s:]{1,200}:\d{1,7}(?::\d{1,5})?): (?:fatal )?error: (\S.*)"
)
"""What compilers print: MLIR, lib/IR/Diagnostics.cpp; LLVM and GCC with a file, a line and a column."""
_MARKED: Final = re.compile(r"\b[\w/.-]{1,80}\.(?:cc|cpp|cu|h|hpp):\d{1,6}\s{1,12}(?:ERR|FATL?)\|\s?(\S.*)")
"""loguru for C++, loguru.cpp print_preamble: the file, the line and the level before a bar."""
_GLOG: Final = re.compile(
    r"^[EF]\d{4}(?:\d{4})? \d\d:\d\d:\d\d\.\d{1,9} {1,8}\d{1,10} [\w/.-]{1,120}:\d{1,6}\] (\S.*)"
)
"""glog and Abseil: level, day, time, thread, file and line."""
_SIGNS: Final = ("error: ", "ERR|", "FATL|", "] ")
_BY_COMPILER: Final = next(each for each in CAUSES if each.name == "compiler_refused_graph")


def with_error_above(failure: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return the first error that stands above a report which only says that the engine did not start."""
    if failure.cause is not None or failure.paraphrased or not is_wrapper(failure.message):
        return failure
    at = next((at for at, line in enumerate(lines) if line.number == failure.line), 0)
    for line in lines[max(0, at - MOST_ABOVE) : at]:
        if (found := _printed(line.text)) is not None:
            message, cause = found
            words = next(known_words([LogLine(1, message, None)]), None)
            known = cause if words is None else words.cause
            return replace(
                failure, type="", message=message[:MAX_MESSAGE], line=line.number, cause=known, follows=False
            )
    return failure


def _printed(text: str) -> tuple[str, FailureCause | None] | None:
    """Return the message of an error in the form of such a program, and the cause that the form shows."""
    if not any(map(text.__contains__, _SIGNS)):
        return None
    if (found := _COMPILER.match(text)) is not None:
        return found[1], _BY_COMPILER if text.startswith("loc(") else None
    found = _MARKED.search(text) or _GLOG.match(text)
    return None if found is None else (found[1], None)
