"""Models: what is bundled, and what a config says."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.concurrency import run_in_threadpool

from service.api.questions import read_model
from service.api.routes.parts import CallersParts, Parts
from service.api.schemas.model import ExplainedModel, ModelList

router = APIRouter(tags=["models"])


@router.get("/models", summary="Search the bundled models")
def list_models(
    services: Parts,
    search: Annotated[str, Query(max_length=200, description="Words that ids must hold")] = "",
) -> ModelList:
    """List the models that are bundled, which need no Hub."""
    return ModelList(models=list(services.snapshot.search(search)))


@router.get("/models/{org}/{name}", summary="Read a model's architecture")
async def get_model(
    org: Annotated[str, Path(max_length=100)],
    name: Annotated[str, Path(max_length=100)],
    services: CallersParts,
    revision: Annotated[str | None, Query(max_length=128, description="Branch, tag or commit")] = None,
) -> ExplainedModel:
    """Say what a model's config says, layer by layer, and what a token takes by cache dtype."""
    fetched = await services.models.resolve(f"{org}/{name}", revision)
    return await run_in_threadpool(lambda: ExplainedModel.of(read_model(fetched)))
