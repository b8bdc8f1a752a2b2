"""Ways past memory that other processes hold, planned with what they leave free."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.refusal import Fix
from service.advisor.candidates.verdict import Verdict
from service.advisor.dry_runs.dry_run import dry_run
from service.advisor.fixes.fix_attempt import FixAttempt
from service.advisor.fixes.fixes import fix_of
from service.engines.flags import ServeFlags
from service.explanation.failure_fixes import fixes_of
from service.explanation.offers import share_left
from service.explanation.planned_start import PlannedStart
from service.startup_log.log import StartupLog
from service.units import GIB, gib_text

STARTS: Final = Verdict.STARTS
STEPS: Final = (0.0, 0.02, 0.05, 0.1)
"""How far below the largest share to look for one that leaves memory for a busy engine."""
NOTHING: Final = (True, True)
"""The risk of a share beside which nothing starts."""


@dataclass(frozen=True, slots=True)
class BesideOthers:
    """What starts beside the memory that other processes hold."""

    fixes: tuple[Fix, ...] = ()
    notes: tuple[str, ...] = ()
    """Why the largest share beside the others is no fix, and what would have to be free."""
    is_planned: bool = False
    """Whether the share was planned, so that the log's numbers alone say no more."""


def beside_others(run: PlannedStart, log: StartupLog) -> BesideOthers:
    """Return the largest utilization beside what others hold, or else what starts together with it.

    A lower one that leaves memory for the steps of a busy engine, or is surer to start, is taken instead.
    """
    most, free = share_left(log), log.number("free_gib")
    if most is None or free is None or not run.is_of_the_log:
        return BesideOthers()
    beside = replace(run, request=replace(run.request, free_memory_bytes=round(free * GIB)))
    shares = [share for below in STEPS if (share := round(most - below, 2)) > 0]
    planned = [_with_share(beside, share) for share in shares]
    alone = tuple(
        fix_of(run.request.model, FixAttempt(_words(each.flags), each.flags, run.rules), each)
        for each in planned
        if each.may_serve and not each.is_expected_to_fail
    )
    if alone:
        return BesideOthers((min(alone, key=lambda fix: fix.risk),), is_planned=True)
    # Each step's fixes stand together; the first step that has a safe one is taken.
    together = [_together(beside, each) for each in planned]
    fixes = min(together, key=lambda each: min((fix.risk for fix in each), default=NOTHING))
    return BesideOthers(fixes, tuple(_notes(run, planned[0])), is_planned=True)


def _together(beside: PlannedStart, candidate: Candidate) -> tuple[Fix, ...]:
    """Return what starts with a share that is too small for the start alone, the safest first."""
    run = replace(beside, request=replace(beside.request, serve=candidate.flags))
    words = _words(candidate.flags)
    return tuple(replace(fix, change=f"{fix.change} {words}") for fix in fixes_of(run, candidate))


def _notes(run: PlannedStart, candidate: Candidate) -> Iterator[str]:
    """Yield why the share is too small, and the least with which the start alone is sure to come up."""
    memory, words = candidate.memory, _words(candidate.flags)
    if memory is None:
        return
    yield (
        f"{words}, the most beside what others hold, is {gib_text(memory.requested.bytes)} GiB: this start "
        f"does not fit, its weights alone take {gib_text(memory.weights.bytes)} GiB."
    )
    share = candidate.flags.gpu_memory_utilization or 0.0
    larger = range(round(100 * share) + 1, 100)
    enough = bisect_left(larger, x=True, key=lambda each: _with_share(run, each / 100).verdict is STARTS)
    if enough == len(larger):
        yield "Even without the others it is not sure to start."
        return
    alone = _with_share(run, larger[enough] / 100)
    if alone.memory is not None:
        short = "" if not alone.short_of_memory else "; memory may run out under load even so"
        yield (
            f"It is sure to start from {_words(alone.flags)} on, with "
            f"{ceil(100 * alone.memory.requested.high / GIB) / 100:.2f} GiB free{short}."
        )


def _words(flags: ServeFlags) -> str:
    return f"--gpu-memory-utilization {flags.gpu_memory_utilization:.2f}"


def _with_share(run: PlannedStart, share: float) -> Candidate:
    flags = replace(run.request.serve, gpu_memory_utilization=share)
    return dry_run(run.request, flags, run.rules, run.request.gpus[0])
