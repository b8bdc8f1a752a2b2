"""From a log and the start that it tells of to its explanation."""

import tomllib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Final

from service.advisor.plan_request import PlanRequest
from service.explanation.diagnosis import diagnose
from service.explanation.explanation_types import Assumption, Explanation
from service.explanation.findings import findings
from service.explanation.planned_start import PlannedStart, planned_start
from service.startup_log.log import StartupLog

UNMODELLED: Final[Mapping[str, str]] = tomllib.loads(
    files("service.explanation").joinpath("unmodelled.toml").read_text("utf-8")
)["flags"]
"""Why a flag that no plan heeds can make a start differ from its plan."""


def explain(
    log: StartupLog,
    request: PlanRequest | None,
    *,
    gpu_specified: bool = True,
    assumptions: tuple[Assumption, ...] = (),
    missing: tuple[Assumption, ...] = (),
) -> Explanation:
    """Say line by line how a logged start compares with its plan, and why it failed if it did.

    ``request`` is the start that the log tells of, for one GPU type, with its cache dtype and its ranks
    settled; without one only the log's own words are explained.
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
        unmodelled=tuple(f"{name}: {UNMODELLED[name]}" for name in log.unmodelled if name in UNMODELLED),
        notes=() if run is None else tuple(_notes(log, run)),
    )


def _notes(log: StartupLog, run: PlannedStart) -> Iterator[str]:
    error = run.judged.error
    if log.failure is None and error is not None:
        yield (
            f"The log shows no failure, but the plan refuses: {error.type} ({error.stage}): {error.message} "
            "Look at what was assumed, and at flags that no plan heeds."
        )
    yield from run.judged.warnings
