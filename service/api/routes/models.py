"""Models: those that are bundled, and what a config and the headers of weights say."""

from typing import Annotated

from fastapi import Path, Query
from starlette.responses import Response

from service.api.dependencies import CallersParts, Parts, RunnerOf
from service.api.paging import After, Limit, page_of
from service.api.responses import json_response
from service.api.routes.route_list import RouteList
from service.application.catalogs.model_catalog import bundled_models
from service.application.catalogs.model_reading import read_model
from service.application.schemas.answers.model import ExplainedModel, ModelList, ModelWeightsAnswer

router = RouteList(tags=["models"])

Org = Annotated[str, Path(max_length=100, description="Organisation or user on the Hub")]
Name = Annotated[str, Path(max_length=100, description="Name of the repository")]
Revision = Annotated[
    str | None, Query(max_length=128, description="Branch, tag or commit; left out: the main branch")
]


@router.get("/models", response_model=ModelList, summary="Search the bundled models")
async def list_models(
    services: Parts,
    run: RunnerOf,
    search: Annotated[str, Query(max_length=200, description="Words that ids must contain; empty: all")] = "",
    limit: Limit = None,
    after: After = None,
) -> Response:
    """List the bundled models, which can be planned without the Hub."""

    def answer() -> Response:
        found = bundled_models(services.snapshot, search)
        page = page_of(found, lambda model: model.id, limit, after)
        return json_response(ModelList.of(page.items, page.next))

    return await run(answer)


@router.get("/models/{org}/{name}", response_model=ExplainedModel, summary="Read a model's architecture")
async def get_model(
    org: Org,
    name: Name,
    services: CallersParts,
    run: RunnerOf,
    revision: Revision = None,
) -> Response:
    """Describe a model by its config, layer by layer, with the bytes of a cached token by cache dtype."""
    fetched = await services.models.resolve(f"{org}/{name}", revision)
    return await run(lambda: json_response(ExplainedModel.of(read_model(fetched))))


@router.get(
    "/models/{org}/{name}/weights",
    response_model=ModelWeightsAnswer,
    summary="Read the headers of a model's weights",
)
async def get_weights(  # noqa: PLR0913, PLR0917 - one for each parameter
    org: Org,
    name: Name,
    services: CallersParts,
    run: RunnerOf,
    revision: Revision = None,
    file: Annotated[
        str | None,
        Query(max_length=255, description="Name of one file, needed for GGUF; left out: all files"),
    ] = None,
) -> Response:
    """Describe the tensors of a model's safetensors or GGUF files by the headers of those files alone."""
    model_id = f"{org}/{name}"
    commit, weights = await services.models.weights(model_id, revision, file)
    return await run(lambda: json_response(ModelWeightsAnswer.of(model_id, commit, weights)))
