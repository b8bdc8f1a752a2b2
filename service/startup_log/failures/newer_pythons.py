"""Says whether a Python that lacks a feature is too old for it, by the version that the text shows."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from service.startup_log.catalogue.origins import own_part
from service.startup_log.catalogue.phrases import CAUSES
from service.startup_log.failures.logged_failure import Failure
from service.startup_log.text.lines import LogLine

TOO_OLD: Final = "python_too_old"
NEWEST_NEEDED: Final = 12
"""Minor version of the Python whose features the engine and its libraries need at most (3.12: array.array
takes subscripts, f-strings nest quotes)."""
_VERSION: Final = re.compile(r"(?i)(?:\bpython ?|cpython-|\bcp)3\.?(1\d)\b")
"""A version of Python in a path, a file's name or a sentence."""
_FAULT: Final = next(cause for cause in CAUSES if cause.name == "program_fault")


def of_newer_python(failure: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return a feature that is missing under a Python which has all of them as a fault of the code itself."""
    if failure.cause is None or failure.cause.name != TOO_OLD:
        return failure
    versions = {int(found[1]) for line in lines for found in _VERSION.finditer(line.text)}
    if not versions or min(versions) < NEWEST_NEEDED:
        return failure
    own = own_part(failure.type, failure.frames)
    return replace(failure, cause=_FAULT if own is None or own.cause is None else own.cause)
