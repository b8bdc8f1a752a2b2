"""Tells that ranks waited in different collectives, by what the watchdog of each rank says that it ran."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from service.startup_log.catalogue.phrases import CAUSES
from service.startup_log.failures.logged_failure import Failure
from service.startup_log.text.lines import LogLine

TIMED_OUT: Final = "collective_timed_out"
"""The cause that says only that one rank waited too long for others."""
_DIVERGED: Final = next(cause for cause in CAUSES if cause.name == "ranks_diverged")
_WORDS: Final = "Watchdog caught collective operation timeout"
_WATCHDOG: Final = re.compile(
    r"\[(?:(PG [^\[\]]{1,80}) )?Rank (\d{1,5})\]\s{1,4}"
    rf"{_WORDS}: WorkNCCL\(SeqNum=(\d{{1,18}}), OpType=(\w{{1,40}})"
)
"""PyTorch 2.1 to 2.9, c10d/ProcessGroupNCCL.cpp checkTimeout: process group, rank, number and kind."""


def as_diverged(failure: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return a collective that timed out as one of ranks that diverged, where their watchdogs show it.

    Ranks of one process group number their collectives alike: two that wait in different ones, or in one
    number as another kind, did not run the same steps.
    """
    if failure.cause is None or failure.cause.name != TIMED_OUT:
        return failure
    waits: defaultdict[str, dict[str, tuple[str, str]]] = defaultdict(dict)
    for line in lines:
        if _WORDS in line.text and (found := _WATCHDOG.search(line.text)) is not None:
            group, rank, number, kind = found.groups()
            waits[group or ""].setdefault(rank, (number, kind))
    diverged = any(len(set(of_ranks.values())) > 1 for of_ranks in waits.values())
    return replace(failure, cause=_DIVERGED) if diverged else failure
