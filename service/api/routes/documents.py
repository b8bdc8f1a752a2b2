"""The contract and its page: `/openapi.json`, `/openapi.yaml`, `/docs`, and what `/` answers."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

from fastapi import Request
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, Response

from service import __version__
from service.api.routes.route_list import RouteList

router = RouteList(include_in_schema=False)

YAML: Final = "application/yaml"
ASSETS: Final[Mapping[str, str]] = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon-32x32.png": "image/png",
    "LICENSE": "text/plain",
    "NOTICE": "text/plain",
}
"""Media types of the files of Swagger UI, which `swagger_ui/vendored.toml` describes."""
CACHED: Final = {"Cache-Control": "public, max-age=86400"}


@router.get("/")
async def get_index() -> Response:
    """Name the documents; a browser gets the page, which is another route."""
    return JSONResponse(
        {
            "name": "dryserve",
            "version": __version__,
            "documentation": "/docs",
            "openapi": ["/openapi.json", "/openapi.yaml"],
            "plan": "/v1/plan",
        }
    )


@router.get("/openapi.yaml")
async def get_openapi_yaml(request: Request) -> Response:
    """Return the contract as it is committed."""
    state = request.app.state
    if not hasattr(state, "openapi_yaml"):
        from service.api.openapi_yaml import openapi_yaml  # noqa: PLC0415 - slow to import, and hardly asked for

        state.openapi_yaml = openapi_yaml(request.app)
    return Response(state.openapi_yaml, media_type=YAML)


@router.get("/docs")
async def get_docs(request: Request) -> HTMLResponse:
    """Return a page on which every route can be tried; it loads nothing from elsewhere."""
    root = request.app.state.root_path
    return get_swagger_ui_html(
        openapi_url=f"{root}/openapi.json",
        title="dryserve",
        swagger_js_url=f"{root}/docs/swagger-ui-bundle.js",
        swagger_css_url=f"{root}/docs/swagger-ui.css",
        swagger_favicon_url=f"{root}/docs/favicon-32x32.png",
    )


@router.get("/docs/{name}")
async def get_asset(name: str) -> Response:
    """Return a file of Swagger UI."""
    if name not in ASSETS:
        raise HTTPException(404)
    return Response(_asset(name), headers=CACHED, media_type=ASSETS[name])


@cache
def _asset(name: str) -> bytes:
    return files("service.api").joinpath("swagger_ui", name).read_bytes()
