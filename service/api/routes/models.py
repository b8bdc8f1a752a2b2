"""Models: what is bundled, and what a config says."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from service.api.dependencies import CallersParts, Parts
from service.application.plan_requests import read_model
from service.application.run_cpu_bound import run_cpu_bound
from service.application.schemas.model import ExplainedModel, ModelList, ModelWeightsAnswer

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
    return await run_cpu_bound(lambda: ExplainedModel.of(read_model(fetched)))


@router.get("/models/{org}/{name}/weights", summary="Read the headers of a model's weights")
async def get_weights(
    org: Annotated[str, Path(max_length=100)],
    name: Annotated[str, Path(max_length=100)],
    services: CallersParts,
    revision: Annotated[str | None, Query(max_length=128, description="Branch, tag or commit")] = None,
    file: Annotated[
        str | None, Query(max_length=255, description="One file, as GGUF repositories need")
    ] = None,
) -> ModelWeightsAnswer:
    """Say what tensors a model's safetensors or GGUF files hold, without the files."""
    model_id = f"{org}/{name}"
    commit, weights = await services.models.weights(model_id, revision, file)
    return ModelWeightsAnswer.of(model_id, commit, weights)
