"""Routes of engines and their releases."""

from service.api.routes.route_list import RouteList
from service.application.schemas.answers.engine import EngineList
from service.application.schemas.answers.engine_list import engine_list

router = RouteList(tags=["engines"])


@router.get("/engines", summary="List engines")
async def list_engines() -> EngineList:
    """List the engines with the releases, patches and dated rules that are modelled."""
    return engine_list()
