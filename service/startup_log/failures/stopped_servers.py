"""Tells servers that were asked to stop from those that failed."""

import re
from collections.abc import Sequence
from typing import Final

from service.startup_log.catalogue.phrases import CAUSES
from service.startup_log.failures.failure import DIED, KILLED
from service.startup_log.failures.forms import with_form
from service.startup_log.failures.logged_failure import Failure
from service.startup_log.failures.said_failures import INTERRUPTED
from service.startup_log.text.lines import LogLine

_INTERRUPTED: Final = next(cause for cause in CAUSES if cause.name == INTERRUPTED)
_ENDS: Final = re.compile(
    r"(?i)\b(?:re-?start(?:s|ed|ing)?|stop(?:s|ped|ping)?|shut(?:s|ting)?[ -]?down|exit(?:s|ed|ing)?|"
    r"terminat(?:es|ed|ing)|quits?|goes down)\b|\u91cd\u542f|\u9000\u51fa|\u505c\u6b62"
)
"""What a person says of a server that ends, in words that give no reason."""


def unless_stopped(failure: Failure | None, lines: Sequence[LogLine], stopped: int | None) -> Failure | None:
    """Return a failure, or that a running server was asked to stop where it says no more."""
    if failure is None or not _only_stopped(failure, stopped):
        return failure
    line = next(line for line in lines if line.number == stopped)
    return with_form(Failure("", line.text, line.number, _INTERRUPTED, {}, serving=True), lines)


def _only_stopped(failure: Failure, stopped: int | None) -> bool:
    """Whether a server that was asked to stop says only that its engine ended, or a person that it does."""
    if stopped is None:
        return False
    if failure.paraphrased:
        return failure.cause is None and _ENDS.search(failure.message) is not None
    return failure.cause is not None and failure.cause.name in {DIED, KILLED} and stopped < failure.line
