"""Routes of measurements, and of what was learned from them."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

from fastapi import Request
from starlette.responses import Response, StreamingResponse

from service.api.auth import Operator, Reader
from service.api.dependencies import Accept, Parts, RunnerOf
from service.api.paging import After, Limit, page_of
from service.api.routes.route_list import RouteList
from service.api.work_lanes import WorkSize
from service.application.probes.measurements_ndjson import LINES, read_lines, written_lines
from service.application.run_cpu_bound import run_cpu_bound
from service.application.schemas.answers.calibration import CalibrationAnswer, CalibrationList, ImportAnswer
from service.calibration.learning import Learned
from service.memory.budget_types import Level
from service.store.batches import batches

router = RouteList(tags=["calibrations"])

FILE: Final = "application/octet-stream"
"""Media type of any file; generated clients know it, and do not know the one of JSON lines."""
_LINES: Final = {
    "schema": {"type": "string", "format": "binary", "description": "One measurement as JSON on each line"}
}
IMPORTED: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "description": f"One measurement as JSON on each line; may also be sent as {LINES}",
        "content": {FILE: _LINES},
    }
}
EXPORTED: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": f"One measurement as JSON on each line; {FILE} where the Accept header names it",
        "content": {LINES: _LINES, FILE: _LINES},
    }
}


@router.get("/calibrations", summary="List what was learned")
async def list_calibrations(
    services: Parts, reader: Reader, limit: Limit = None, after: After = None
) -> CalibrationList:
    """List by how many bytes measurements change each memory term of a plan, and how certain that is."""
    del reader
    # Plans go on with what was learned before; a list that may be out of date says so with 503.
    await services.probes.learned.read()
    order = list(Level)
    entries = sorted(services.probes.learned.entries, key=lambda each: order.index(each.level))
    page = page_of(entries, _name, limit, after)
    return CalibrationList(calibrations=[CalibrationAnswer.of(each) for each in page.items], next=page.next)


def _name(entry: Learned) -> str:
    start = (entry.level, entry.gpu, entry.release, entry.model, entry.tensor_parallel, entry.term)
    return "|".join("" if part is None else str(part) for part in start)


@router.get("/measurements", response_class=Response, responses=EXPORTED, summary="Export measurements")
async def export_measurements(services: Parts, reader: Reader, accept: Accept = "") -> Response:
    """Export every measurement as JSON lines, the oldest first."""
    del reader
    measurements = services.probes.measurements
    parts = list(batches(await measurements.digests()))

    async def lines() -> AsyncIterator[str]:
        for part in parts:
            found = await measurements.read(part)
            yield await run_cpu_bound(partial(written_lines, found.values()))

    return StreamingResponse(lines(), media_type=FILE if FILE in accept else LINES)


@router.post(
    "/measurements",
    openapi_extra=IMPORTED,
    summary="Import measurements",
)
async def import_measurements(
    request: Request, services: Parts, operator: Operator, run: RunnerOf
) -> ImportAnswer:
    """Store measurements that another service exported, except those that are stored already."""
    del operator
    lines = await request.body()
    measurements = await run(lambda: read_lines(lines), size=WorkSize.LARGE)
    new = await services.probes.measurements.add(measurements)
    await services.probes.learned.refresh()
    return ImportAnswer(measurements=len(measurements), new=new)
