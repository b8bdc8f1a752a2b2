"""Route that plans several engines on the same GPUs."""

from typing import Any, Final

from starlette.responses import Response

from service.api.dependencies import Accept, CallersParts, RunnerOf
from service.api.responses import TEXT, json_response, negotiated_format, text_response
from service.api.routes.route_list import RouteList
from service.api.work_lanes import WorkSize
from service.application.plans.colocation_requests import answer_colocation, colocation_request
from service.application.schemas.colocation import ColocationAnswer, ColocationBody
from service.application.text.colocation import render_colocation

router = RouteList(tags=["plan"])

ANSWER: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "What each engine finds and does; `text/plain` is a table for people",
        "content": {TEXT: {"schema": {"type": "string"}}},
    }
}


@router.post(
    "/colocate",
    response_model=ColocationAnswer,
    responses=ANSWER,
    summary="Dry-run several engines that share GPUs",
)
async def colocate(
    body: ColocationBody, services: CallersParts, run: RunnerOf, accept: Accept = ""
) -> Response:
    """Plan engines in the order in which they start, each with the memory that those before it left free.

    Which GPUs a start takes is read from its command (`CUDA_VISIBLE_DEVICES`, `--gpus`, `device_ids`);
    without such words it takes the first ones. An engine that does not start holds nothing.
    """
    starts = await colocation_request(body, services)
    shared = await run(
        lambda: answer_colocation(starts, services),
        size=WorkSize.LARGE if len(starts) > 1 else WorkSize.SMALL,
    )
    if negotiated_format(accept) == "table":
        return text_response(render_colocation(shared))
    return json_response(ColocationAnswer.of(shared))
