"""Routes of measurements, and of what was learned from them."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from service.api.auth import Operator, Reader
from service.api.dependencies import Parts, RunnerOf
from service.application.measurements_ndjson import LINES, read_lines, written_lines
from service.application.run_cpu_bound import run_cpu_bound
from service.application.schemas.calibration import CalibrationAnswer, CalibrationList, ImportAnswer
from service.memory.budget_types import Level
from service.store.measurements import batches

router = APIRouter(tags=["calibrations"])

_CONTENT: Final[dict[str, Any]] = {
    LINES: {"schema": {"type": "string", "description": "One measurement as JSON on each line"}}
}
EXPORTED: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "One measurement as JSON on each line", "content": _CONTENT}
}


@router.get("/calibrations", summary="List what was learned")
async def list_calibrations(services: Parts, reader: Reader) -> CalibrationList:
    """List by how many bytes measurements change each memory term of a plan, and how certain that is."""
    del reader
    await services.probes.learned.refresh()
    order = list(Level)
    entries = sorted(services.probes.learned.entries, key=lambda each: order.index(each.level))
    return CalibrationList(calibrations=[CalibrationAnswer.of(each) for each in entries])


@router.get("/measurements", response_class=Response, responses=EXPORTED, summary="Export measurements")
async def export_measurements(services: Parts, reader: Reader) -> Response:
    """Export every measurement as JSON lines, the oldest first."""
    del reader
    measurements = services.probes.measurements
    parts = list(batches(await measurements.digests()))

    async def lines() -> AsyncIterator[str]:
        for part in parts:
            found = await measurements.read(part)
            yield await run_cpu_bound(partial(written_lines, found.values()))

    return StreamingResponse(lines(), media_type=LINES)


@router.post(
    "/measurements",
    openapi_extra={"requestBody": {"required": True, "content": _CONTENT}},
    summary="Import measurements",
)
async def import_measurements(
    request: Request, services: Parts, operator: Operator, run: RunnerOf
) -> ImportAnswer:
    """Store measurements that another service exported, except those that are stored already."""
    del operator
    lines = await request.body()
    measurements = await run(lambda: read_lines(lines), large=True)
    new = await services.probes.measurements.add(measurements)
    await services.probes.learned.refresh()
    return ImportAnswer(measurements=len(measurements), new=new)
