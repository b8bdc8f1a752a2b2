"""Shows NCCL's own warning beside an error that only says that a call of it failed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from service.startup_log.catalogue.whole_messages import MAX_MESSAGE
from service.startup_log.errors.harmless_errors import is_harmless
from service.startup_log.failures.logged_failure import Failure
from service.startup_log.text.lines import LogLine

NCCL: Final = "nccl"
"""The cause that says only that NCCL failed."""
WARNS: Final = "NCCL WARN "
"""NCCL 2, src/debug.cc ncclDebugLog: what it prints at NCCL_DEBUG=WARN and above, and where a call fails."""
_ADVISES: Final = ("iommu=pt", 'Missing "', "kernel version", "NCCL_DEBUG_SUBSYS", "deprecated", "RAS ")
"""What RCCL and NCCL only advise, and go on."""


def with_nccl_reason(failure: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return a failure of NCCL with the last warning of NCCL above it, or with the first one below.

    What torch and vLLM raise names a kind of error alone (`unhandled system error`).
    """
    if failure.cause is None or failure.cause.name != NCCL or WARNS in failure.message:
        return failure
    warned = [line for line in lines if WARNS in line.text and not _only_advises(line)]
    if not warned:
        return failure
    above = (line for line in reversed(warned) if line.number <= failure.line)
    line = next(above, warned[0])
    return replace(failure, type="", message=line.text[:MAX_MESSAGE], line=line.number)


def _only_advises(line: LogLine) -> bool:
    return is_harmless(line) or any(map(line.text.__contains__, _ADVISES))
