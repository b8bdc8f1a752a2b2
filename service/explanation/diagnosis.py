"""Why a start failed: from its log, or from its plan if the log does not say."""

from typing import Final

from service.advisor.plan_types import Refusal, Verdict
from service.engines.refusal import Stage
from service.explanation.explanation_types import CauseBasis, Diagnosis, Fix
from service.explanation.failure_fixes import memory_fixes, other_fixes
from service.explanation.planned_start import PlannedStart
from service.startup_log.failure import Failure, find_failure
from service.startup_log.lines import read_lines
from service.startup_log.log import StartupLog

STAGES: Final = frozenset(stage.value for stage in Stage)


def diagnose(log: StartupLog, run: PlannedStart | None) -> Diagnosis | None:
    """Return why a start failed and what fixes it; ``None`` for a start that did not fail."""
    if log.failure is None:
        return None
    planned = run.judged.error if run is not None else None
    failure, basis = _known(log.failure, planned)
    cause = failure.cause
    stage = cause.stage if cause is not None else ""
    return Diagnosis(
        cause=None if cause is None else cause.name,
        basis=basis,
        stage=stage,
        type=log.failure.type,
        message=log.failure.message,
        line=log.failure.line,
        reached=log.milestone,
        means="" if cause is None else cause.means,
        remedy="" if cause is None else cause.remedy,
        source="" if cause is None else cause.source,
        planned=planned,
        foreseen=(foreseen := _foreseen(failure, run, planned)),
        fixes=() if run is None else _fixes(stage, log, run, foreseen=foreseen is True),
    )


def _known(failure: Failure, planned: Refusal | None) -> tuple[Failure, CauseBasis]:
    """Return the failure with its cause: the cause in the log, else the cause of the plan's refusal."""
    if failure.cause is not None:
        return failure, CauseBasis.PARAPHRASED if failure.paraphrased else CauseBasis.LOG
    # A message of the engine itself has a cause that is not known: the plan's refusal must not replace it.
    if planned is not None and not failure.type:
        specified = find_failure(read_lines(f"{planned.type}: {planned.message}"))
        if specified is not None and specified.cause is not None:
            return specified, CauseBasis.PLAN
    return failure, CauseBasis.UNKNOWN


def _foreseen(failure: Failure, run: PlannedStart | None, planned: Refusal | None) -> bool | None:
    """Whether the plan fails for the same cause; ``None`` for causes that a plan does not cover."""
    if run is None or failure.cause is None or failure.cause.stage not in STAGES:
        return None
    if run.judged.verdict is Verdict.STARTS or planned is None:
        return run.judged.verdict is Verdict.UNCERTAIN
    specified = find_failure(read_lines(f"{planned.type}: {planned.message}"))
    return planned.stage == failure.cause.stage or (
        specified is not None and specified.cause == failure.cause
    )


def _fixes(stage: str, log: StartupLog, run: PlannedStart, *, foreseen: bool) -> tuple[Fix, ...]:
    """Return the fixes; none if the plan does not have the refusal, because a dry run could not test them."""
    if stage == Stage.MEMORY:
        return memory_fixes(run, log)
    return other_fixes(run, log) if foreseen else ()
