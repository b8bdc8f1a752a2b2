"""Reads what ended a process from the number that its supervisor prints: an exit code, or a signal."""

import re
from typing import Final

_ENDED: Final = re.compile(
    r"\b(?:(?:exit(?:ed|s|ing)?|died|dies|dying|ended|ends|stopped|failed|fails|crash(?:ed|es|ing)?|"
    r"killed|terminated|return|dead)[ _]?(?:with |by |on )?(?:non-zero )?"
    r"(?:exit )?(code|status|signal)?|exitcode|returncode|(signal))"
    r"[\s:=(\"']{1,12}(?:code |status |signal |number )?(-?\d{1,3})\b(?![.:/])",
    re.IGNORECASE,
)
"""The end of a process, and a number: `exit code: 137`, `exitcode=-9`, `worker died (-9)`, `(signal: 9)`."""
OF_SHELLS: Final = 128
"""What a shell, docker and Kubernetes add to the number of a signal."""
MOST_OF_LINE: Final = 600
"""Characters of a line in which it is looked for."""
CAUSES: Final = {
    4: "cpu_without_instructions",
    6: "process_crashed",
    7: "bus_error",
    8: "process_crashed",
    9: "process_killed",
    11: "process_crashed",
}
"""Causes by the number of a signal on Linux: SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGSEGV."""


def cause_of_exit(text: str) -> str | None:
    """Return the name of the cause that the end of a process shows; ``None`` without a signal's number."""
    for found in _ENDED.finditer(text[:MOST_OF_LINE]):
        number = int(found[3])
        named = "signal" in {(found[1] or "").lower(), (found[2] or "").lower()}
        signal = (
            -number if number < 0 else number - OF_SHELLS if number > OF_SHELLS else number if named else 0
        )
        if signal in CAUSES:
            return CAUSES[signal]
    return None
