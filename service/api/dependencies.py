"""Dependencies of routes: what the application's state holds for them."""

from dataclasses import replace
from typing import Annotated, TypeAlias

from fastapi import Depends, Header, Request

from service.api.metrics import Metrics
from service.api.work_lanes import Runner, WorkLanes
from service.application.services import Services
from service.hub.transport.credential import callers_own

HUB_TOKEN = "X-Hub-Token"  # noqa: S105 - the name of a header


async def services_of(request: Request) -> Services:
    """Return the parts that routes call."""
    services: Services = request.app.state.services
    return services


async def metrics_of(request: Request) -> Metrics:
    """Return the application's counters."""
    metrics: Metrics = request.app.state.metrics
    return metrics


async def lanes_of(request: Request) -> WorkLanes:
    """Return the application's lanes."""
    lanes: WorkLanes = request.app.state.lanes
    return lanes


async def runner_of(request: Request) -> Runner:
    """Return what runs the CPU-bound work of a request."""
    return (await lanes_of(request)).of(request)


async def services_for_caller(
    services: Annotated[Services, Depends(services_of)],
    token: Annotated[
        str | None,
        Header(
            alias=HUB_TOKEN,
            description="Your own access token of the Hub, for gated and private models. What it opens is "
            "stored in memory and given to you alone. Left out: the service's own token, if it has one.",
        ),
    ] = None,
) -> Services:
    """Return the parts that routes call; they use the caller's own token of the Hub where it sends one.

    Raises:
        InvalidHubToken: the header holds no token of the Hub.
    """
    if token is None:
        return services
    return replace(services, models=services.models.on_behalf_of(callers_own(token)))


Accept: TypeAlias = Annotated[str, Header(include_in_schema=False)]
"""The media types that the caller accepts; empty: any."""
Parts: TypeAlias = Annotated[Services, Depends(services_of)]
CallersParts: TypeAlias = Annotated[Services, Depends(services_for_caller)]
Counts: TypeAlias = Annotated[Metrics, Depends(metrics_of)]
Lanes: TypeAlias = Annotated[WorkLanes, Depends(lanes_of)]
RunnerOf: TypeAlias = Annotated[Runner, Depends(runner_of)]
