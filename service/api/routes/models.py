"""Models: what is bundled, and what a config says."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from service.api.dependencies import CallersParts, Parts, TurnOf
from service.api.responses import json_response
from service.application.plan_requests import read_model
from service.application.schemas.model import ExplainedModel, ModelList, ModelWeightsAnswer

router = APIRouter(tags=["models"])


@router.get("/models", summary="Search the bundled models")
async def list_models(
    services: Parts,
    search: Annotated[str, Query(max_length=200, description="Words that ids must hold")] = "",
) -> ModelList:
    """List the models that are bundled, which need no Hub."""
    return ModelList(models=list(services.snapshot.search(search)))


@router.get("/models/{org}/{name}", response_model=ExplainedModel, summary="Read a model's architecture")
async def get_model(
    org: Annotated[str, Path(max_length=100)],
    name: Annotated[str, Path(max_length=100)],
    services: CallersParts,
    turn: TurnOf,
    revision: Annotated[str | None, Query(max_length=128, description="Branch, tag or commit")] = None,
) -> Response:
    """Say what a model's config says, layer by layer, and what a token takes by cache dtype."""
    fetched = await services.models.resolve(f"{org}/{name}", revision)
    return await turn(lambda: json_response(ExplainedModel.of(read_model(fetched))))


@router.get(
    "/models/{org}/{name}/weights",
    response_model=ModelWeightsAnswer,
    summary="Read the headers of a model's weights",
)
async def get_weights(  # noqa: PLR0913, PLR0917 - one for each parameter
    org: Annotated[str, Path(max_length=100)],
    name: Annotated[str, Path(max_length=100)],
    services: CallersParts,
    turn: TurnOf,
    revision: Annotated[str | None, Query(max_length=128, description="Branch, tag or commit")] = None,
    file: Annotated[
        str | None, Query(max_length=255, description="One file, as GGUF repositories need")
    ] = None,
) -> Response:
    """Say what tensors a model's safetensors or GGUF files hold, without the files."""
    model_id = f"{org}/{name}"
    commit, weights = await services.models.weights(model_id, revision, file)
    return await turn(lambda: json_response(ModelWeightsAnswer.of(model_id, commit, weights)))
