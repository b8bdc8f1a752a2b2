"""Builds the FastAPI application from its parts."""

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from typing import Final, TypeAlias

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.routing import APIRoute
from pydantic.warnings import UnsupportedFieldAttributeWarning
from starlette.requests import Request
from starlette.responses import Response

from service import __version__
from service.api.app_options import AppOptions
from service.api.dependencies import HUB_TOKEN
from service.api.errors import CallerLeft, MalformedJson, NothingMore, UnsupportedMediaType
from service.api.failed_attempts import FailedAttempts
from service.api.metrics import Metrics
from service.api.middleware.body_budget import BodyBudget
from service.api.middleware.body_limit import BodyLimit
from service.api.middleware.connection_gate import ConnectionGate
from service.api.middleware.representation import Representation
from service.api.middleware.request_log import REQUEST_ID, RequestLog
from service.api.middleware.root_path import RootPath
from service.api.middleware.shedding import Shedding
from service.api.middleware.versioned_paths import VersionedPaths
from service.api.openapi import DocumentedApp
from service.api.problems.handlers import HANDLED_ERRORS, responses
from service.api.responses import JSON, problem_response
from service.api.routes import (
    calibrations,
    colocation,
    documents,
    engines,
    explain,
    gpus,
    leases,
    models,
    operations,
    page_addresses,
    plan,
    probes,
    problem_types,
    workers,
)
from service.api.routes.probes import IDEMPOTENCY_KEY, LAST_EVENT_ID
from service.api.tracing import TRACE_HEADERS
from service.api.unknown_parameters import body_schema, known_parameters_only
from service.api.work_lanes import WorkLanes, WorkSize
from service.api.written_answers import WrittenAnswers
from service.application.problems.invalid_request import invalid_request
from service.application.services import Services

REQUEST_HEADERS: Final = (
    "Content-Type",
    "Authorization",
    HUB_TOKEN,
    IDEMPOTENCY_KEY,
    LAST_EVENT_ID,
    "If-None-Match",
    REQUEST_ID,
    *TRACE_HEADERS,
)
"""Headers that a page of another origin may send, beside those that every page may."""
RESPONSE_HEADERS: Final = (REQUEST_ID, "ETag", "Location", "Retry-After", "Allow", "WWW-Authenticate")
"""Headers that such a page may read, beside those that every page may."""
Lifespan: TypeAlias = Callable[[FastAPI], AbstractAsyncContextManager[None]]

# FastAPI gives the fields of a request an alias that says nothing to Pydantic. It silences the warning where
# it builds validators itself, but deferred ones are built at the first request.
warnings.simplefilter("ignore", UnsupportedFieldAttributeWarning)

CLIENT_CLOSED_REQUEST: Final = 499
"""Status that proxies log where the caller has closed the connection; nobody receives it."""
PUBLIC: Final = (
    plan,
    colocation,
    explain,
    models,
    gpus,
    engines,
    probes,
    workers,
    leases,
    calibrations,
    problem_types,
)
"""Modules of routes in the order of the contract."""
DESCRIPTION: Final = """\
A dry run of `vllm serve`: give it a model, an engine release, GPU types and the flags you would pass, and it
says what the engine would do without a GPU: whether it starts, with which cache, how many tokens.

Every path that begins with `/v1` is also found without it. GET routes also answer HEAD, send an `ETag`, and
answer 304 to a matching `If-None-Match`. Answers of more than 1 kB are compressed with zstd or gzip where
`Accept-Encoding` allows it.

Errors are `application/problem+json` (RFC 9457); GET on their `type` answers with an explanation.
"""


def create_app(
    services: Services, options: AppOptions | None = None, *, lifespan: Lifespan | None = None
) -> FastAPI:
    """Build the application from its parts."""
    options = options or AppOptions()
    app = DocumentedApp(
        title="dryserve",
        version=__version__,
        summary="What the engine would do, without a GPU",
        description=DESCRIPTION,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        generate_unique_id_function=_operation_id,
        responses=responses(),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        root_path_in_servers=False,
        dependencies=[Depends(known_parameters_only)],
        servers=[{"url": options.root_path or "/", "description": "The service that sends this document"}],
    )
    _keep_state(app, services, options)
    _add_routes(app)
    _add_error_handlers(app)
    _add_middleware(app, options)
    return app


def _keep_state(app: FastAPI, services: Services, options: AppOptions) -> None:
    """Keep what requests share, where the dependencies of routes find it."""
    lanes, metrics = WorkLanes(options.work), Metrics()
    for size in WorkSize:
        metrics.watch_lane(size.value, lanes.lane(size))
    metrics.watch_probes(services.probes)
    services.models.on_cache_lookup.append(metrics.count_cache_lookup)
    app.state.services = services
    app.state.metrics = metrics
    app.state.lanes = lanes
    app.state.answers = WrittenAnswers()
    app.state.failed_attempts = FailedAttempts()
    app.state.tracing = options.tracing
    app.state.root_path = options.root_path
    app.state.open_reads = options.open_reads


def _add_routes(app: FastAPI) -> None:
    # These stand before the routes that share their addresses.
    app.router.routes.append(plan.BODY_ALONE)
    app.router.routes.extend(page_addresses.ROUTES)
    for routes in (*PUBLIC, operations, documents):
        routes.router.make_in(app.router)


def _add_error_handlers(app: FastAPI) -> None:
    for error in HANDLED_ERRORS:
        app.add_exception_handler(error, _answer_fault)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(CallerLeft, _answer_nobody)
    app.add_exception_handler(NothingMore, _answer_nothing)


def _add_middleware(app: FastAPI, options: AppOptions) -> None:
    """Add what surrounds all routes; a request passes the last one first."""
    app.add_middleware(BodyBudget)
    app.add_middleware(BodyLimit)
    app.add_middleware(ConnectionGate, has_admin=options.has_admin)
    app.add_middleware(Representation)
    if options.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(options.cors_origins),
            allow_methods=["GET", "HEAD", "POST", "DELETE"],
            allow_headers=REQUEST_HEADERS,
            expose_headers=RESPONSE_HEADERS,
        )
    app.add_middleware(VersionedPaths)
    app.add_middleware(RequestLog, metrics=app.state.metrics, tracing=options.tracing)
    app.add_middleware(Shedding, state=app.state)
    if options.root_path:
        app.add_middleware(RootPath, prefix=options.root_path)


def _operation_id(route: APIRoute) -> str:
    return route.name


async def _answer_fault(request: Request, error: Exception) -> Response:
    return problem_response(request, error)


async def _answer_nobody(request: Request, error: Exception) -> Response:
    del request, error
    return Response(status_code=CLIENT_CLOSED_REQUEST)


def _is_whole_body(loc: Sequence[int | str]) -> bool:
    """Whether an error is about the body itself, under whichever tag it was read."""
    return loc[:1] == ("body",) and all(isinstance(part, str) and part.startswith("<") for part in loc[1:])


async def _answer_nothing(request: Request, error: Exception) -> Response:
    del request, error
    return Response(status_code=HTTPStatus.NO_CONTENT)


async def _answer_invalid(request: Request, error: Exception) -> Response:
    found = list(error.errors()) if isinstance(error, RequestValidationError) else []
    if any(one["type"] == "json_invalid" for one in found):
        reasons = "; ".join(str(one.get("ctx", {}).get("error", "")) for one in found)
        return problem_response(request, MalformedJson(f"the body is not JSON: {reasons}"))
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if any(_is_whole_body(one["loc"]) for one in found) and media_type != JSON:
        return problem_response(request, UnsupportedMediaType(media_type))
    return problem_response(request, invalid_request(found, body_schema(request)))
