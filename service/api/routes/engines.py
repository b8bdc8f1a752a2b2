"""Routes of engines and their releases."""

from service.api.routes.route_list import RouteList
from service.application.catalogs.engine_catalog import engine_list
from service.application.schemas.answers.engine import EngineList

router = RouteList(tags=["engines"])


@router.get("/engines", summary="List engines")
async def list_engines() -> EngineList:
    """List the engines with the releases, patches and dated rules that are modelled."""
    return engine_list()
