"""What routes find on the application that serves them."""

from dataclasses import replace
from typing import Annotated, TypeAlias

from fastapi import Depends, Header, Request

from service.api.metrics import Metrics
from service.api.work_lanes import Turn, Turns
from service.application.services import Services
from service.hub.credential import callers_own

HUB_TOKEN = "X-Hub-Token"  # noqa: S105 - the name of a header


async def services_of(request: Request) -> Services:
    """Return the parts that answer."""
    services: Services = request.app.state.services
    return services


async def metrics_of(request: Request) -> Metrics:
    """Return the application's counters."""
    metrics: Metrics = request.app.state.metrics
    return metrics


async def turns_of(request: Request) -> Turns:
    """Return the application's lanes and seats."""
    turns: Turns = request.app.state.turns
    return turns


async def turn_of(request: Request) -> Turn:
    """Return what does the work of a request when it is its turn."""
    return (await turns_of(request)).of(request)


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
    """Return the parts that answer, which ask the Hub with a caller's own token if it sends one.

    Raises:
        InvalidHubToken: what it sends is none.
    """
    if token is None:
        return services
    return replace(services, models=services.models.on_behalf_of(callers_own(token)))


Parts: TypeAlias = Annotated[Services, Depends(services_of)]
CallersParts: TypeAlias = Annotated[Services, Depends(services_for_caller)]
Counts: TypeAlias = Annotated[Metrics, Depends(metrics_of)]
AllTurns: TypeAlias = Annotated[Turns, Depends(turns_of)]
TurnOf: TypeAlias = Annotated[Turn, Depends(turn_of)]
