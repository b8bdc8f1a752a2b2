"""Says whether a Python is too old for code that it cannot read, by the version and the place of the code."""

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
_FILE: Final = re.compile(r"\s{0,40}File \"?(<(?:string|stdin|unknown)>)?")
"""A call's file; code that a program made, or that a person typed, is in no file for a newer Python."""
_FAULT: Final = next(cause for cause in CAUSES if cause.name == "program_fault")


def of_newer_python(failure: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return a feature that is missing under a Python which has all of them as a fault of the code itself.

    So is what cannot be parsed in code that is in no file, by the last call above the error.
    """
    if failure.cause is None or failure.cause.name != TOO_OLD:
        return failure
    versions = {int(found[1]) for line in lines for found in _VERSION.finditer(line.text)}
    above = (_FILE.match(line.text) for line in reversed(lines) if line.number < failure.line)
    last = next(filter(None, above), None)
    made = last is not None and last[1] is not None
    if not made and (not versions or min(versions) < NEWEST_NEEDED):
        return failure
    own = own_part(failure.type, failure.frames)
    return replace(failure, cause=_FAULT if own is None or own.cause is None else own.cause)
