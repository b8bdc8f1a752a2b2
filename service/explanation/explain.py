"""Explains a startup log: compares it with the plan of the same start."""

from collections.abc import Iterator

from service.advisor.plan_request import PlanRequest
from service.engines.arguments.effects import Effect, Touched, effect_of
from service.explanation.diagnosis import diagnose
from service.explanation.explanation_types import Assumption, Explanation
from service.explanation.findings import findings
from service.explanation.planned_start import PlannedStart, planned_start
from service.startup_log.log import StartupLog


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
    a request only the failure in the log is explained.
    """
    run = None if request is None else planned_start(request, log, gpu_specified=gpu_specified)
    return Explanation(
        log=log,
        request=request,
        command=None if run is None else run.free.command,
        verdict=None if run is None else run.judged.verdict,
        assumptions=assumptions,
        missing=missing,
        findings=() if run is None else findings(log, run),
        ending=diagnose(log, run),
        unmodelled=tuple(_unmodelled(log)),
        notes=() if run is None else tuple(_notes(log, run)),
    )


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
    if log.failure is None and error is not None:
        yield (
            f"The log shows no failure, but the planned start fails: {error.type} ({error.stage}): "
            f"{error.message} Check the assumptions, and the flags that plans ignore."
        )
    yield from run.judged.warnings
