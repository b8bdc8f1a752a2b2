"""Questions put to the service's own functions, in process and offline."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2

from service.advisor.candidates.plan_types import Plan
from service.application.plans.plan_requests import answer_plan_request, plan_request, read_plan_body
from service.application.services import Services
from service.bootstrap import build_services
from service.hub.model_source import ModelSource
from service.settings import Settings
from tests.advice.models import Configs


class Service:
    """The service with the configs that are at hand, as it runs without a network."""

    def __init__(self, configs: Configs) -> None:
        self.configs = configs
        settings = Settings(HF_HUB_OFFLINE=True, cache=Path(":memory:"), database_url="sqlite://")
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(_nobody))
        built = build_services(settings, http)
        source = ModelSource(built.models._client, configs.snapshot, offline=True)  # noqa: SLF001
        self._services = Services(built.plan, source, configs.snapshot, built.gpus, built.probes)

    def plan(self, document: Mapping[str, Any]) -> Plan:
        """Answer the body of a plan.

        Raises:
            ValueError: as ``POST /plan`` answers with a problem.
        """
        body = read_plan_body(document)
        request = asyncio.run(plan_request(body, self._services))
        return answer_plan_request(request, self._services)


def _nobody(request: httpx2.Request) -> httpx2.Response:
    raise AssertionError(f"asked for {request.url}")
