"""Explanations of the starts whose logged lines are stored."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from service.advisor.request.plan_request import EngineChoice, PlanRequest
from service.engines.releases import RELEASES
from service.explanation.explain import explain
from service.explanation.explanation_types import Explanation
from service.startup_log.log import read_log
from tests.accuracy.startups_rows import Row
from tests.accuracy.startups_told import NotScored, Startup, read_startup
from tests.startup_log.logged_rows import logged_lines, started_rows


@dataclass(frozen=True, slots=True)
class Explained:
    """One row's log, explained."""

    row: Row
    startup: Startup | None
    """The start that was planned; none where the row tells too little to plan one."""
    explanation: Explanation


@cache
def explained_rows() -> tuple[Explained, ...]:
    """Explain the log of every row, with the start that a reader found it to be."""
    return tuple(_explained())


def _explained() -> Iterator[Explained]:
    for row in started_rows():
        log = read_log(logged_lines()[row["id"]])
        startup = _startup(row)
        request = None if startup is None else _request(startup)
        specified = startup is not None and startup.gpu_specified and startup.utilization_told
        yield Explained(row, startup if request else None, explain(log, request, gpu_specified=specified))


def _startup(row: Row) -> Startup | None:
    try:
        return read_startup(row)
    except NotScored:
        return None


def _request(startup: Startup) -> PlanRequest | None:
    releases = [release for release in startup.releases if release in RELEASES]
    if not releases:
        return None
    engine = EngineChoice.of(str(releases[-1]))
    return PlanRequest(startup.known.model, (startup.gpus[0],), engine, startup.flags)
