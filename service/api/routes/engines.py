"""Routes of engines and their releases."""

from fastapi import APIRouter

from service.application.engine_catalog import engine_list
from service.application.schemas.engine import EngineList

router = APIRouter(tags=["engines"])


@router.get("/engines", summary="List engines")
async def list_engines() -> EngineList:
    """List the engines with the releases, patches and dated rules that are modelled."""
    return engine_list()
