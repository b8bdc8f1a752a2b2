"""Explains a startup log: compares it with the plan of the same start."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from service.advisor.candidates.verdict import Verdict
from service.advisor.request.plan_request import PlanRequest
from service.engines.arguments.effects import Effect, Touched, effect_of
from service.engines.refusal import Stage
from service.explanation.diagnosis import diagnose
from service.explanation.explanation_types import Agreement, Assumption, Explanation, Finding
from service.explanation.findings import findings
from service.explanation.planned_start import PlannedStart, planned_start
from service.startup_log.log import StartupLog
from service.startup_log.starts import CAME_UP

OF_SHAPE: Final = frozenset({"kv_cache_tokens", "kv_needed_gib"})
"""Findings that follow from the shapes of the layers and the logged memory."""


def explain(
    log: StartupLog,
    request: PlanRequest | None,
    *,
    gpu_specified: bool = True,
    assumptions: tuple[Assumption, ...] = (),
    missing: tuple[Assumption, ...] = (),
) -> Explanation:
    """Return how each line of a log compares with the plan of its start, and why the start failed if it did.

    ``request`` is the logged start, for one GPU type, with its cache dtype and tensor parallel size. Without
    a request only the failure in the log is explained. Where an assumption says that the request is that of
    another release or model, no value is called different, and no estimate of memory tests a fix.
    """
    doubt = " and ".join(each.doubt for each in assumptions if each.doubt)
    run = None if request is None else planned_start(request, log, gpu_specified=gpu_specified, doubt=doubt)
    found = () if run is None else findings(log, run)
    return Explanation(
        log=log,
        request=request,
        command=None if run is None else run.free.command,
        verdict=None if run is None else _verdict(run),
        assumptions=assumptions,
        missing=missing,
        findings=tuple(_doubted(each, doubt) for each in found) if doubt else found,
        ending=diagnose(log, run),
        unmodelled=tuple(_unmodelled(log)),
        notes=() if run is None else tuple(_notes(log, run)),
        cache_figures=_cache_figures(found),
    )


def _verdict(run: PlannedStart) -> Verdict:
    """Return the verdict of a plan, which is uncertain if it is of another start or of an unknown GPU."""
    known = run.gpu_specified or run.pinned is not None
    return run.judged.verdict if known and not run.doubt else Verdict.UNCERTAIN


def _doubted(finding: Finding, doubt: str) -> Finding:
    """Return a finding of a doubtful plan: where it differs, the plan says nothing of the logged start."""
    if finding.agreement is not Agreement.DIFFERS:
        return finding
    return replace(
        finding,
        agreement=Agreement.NOT_COMPARED,
        why=f"the plan is of {doubt}, so that a difference says nothing",
    )


def _cache_figures(found: Iterable[Finding]) -> Agreement | None:
    """Return how the figures agree that follow from the logged memory and the layers' shapes alone."""
    agreements = {each.agreement for each in found if each.name in OF_SHAPE}
    return next((each for each in (Agreement.DIFFERS, Agreement.AGREES) if each in agreements), None)


def _unmodelled(log: StartupLog) -> Iterator[str]:
    """Yield the flags that plans ignore and that can change what a start logs, each with what it changes."""
    for name in log.unmodelled:
        effect = effect_of(name)
        if effect is None or effect.effect is not Effect.NOT_MODELLED:
            continue
        if {Touched.MEMORY, Touched.CACHE, Touched.START} & set(effect.touches):
            yield f"{name}: {effect.reason}"


def _notes(log: StartupLog, run: PlannedStart) -> Iterator[str]:
    error = run.judged.error
    of_memory = error is not None and error.stage == Stage.MEMORY
    unfounded = of_memory and not run.gpu_specified and run.pinned is None
    if log.failure is None and error is not None and not (run.doubt or unfounded):
        yield (
            f"The log shows no failure, but the planned start fails: {error.type} ({error.stage}): "
            f"{error.message} Check the assumptions, and the flags that plans ignore."
        )
    if run.doubt and run.judged.warnings and log.milestone not in CAME_UP:
        yield f"The plan is of {run.doubt}, with weights of another size: whether they fit is not known."
    elif not run.doubt and (run.gpu_specified or run.pinned is not None):
        yield from run.judged.warnings
