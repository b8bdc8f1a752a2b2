"""What routes find on the application that serves them."""

from typing import Annotated, TypeAlias

from fastapi import Depends, Request

from service.api.metrics import Metrics
from service.api.services import Services


def services_of(request: Request) -> Services:
    """Return the parts that answer."""
    services: Services = request.app.state.services
    return services


def metrics_of(request: Request) -> Metrics:
    """Return the application's counters."""
    metrics: Metrics = request.app.state.metrics
    return metrics


Parts: TypeAlias = Annotated[Services, Depends(services_of)]
Counts: TypeAlias = Annotated[Metrics, Depends(metrics_of)]
