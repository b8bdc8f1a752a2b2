"""Wires what a plan needs: the Hub, the bundled snapshot and the GPU types, but no database and no server."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from service.advisor.dry_runs.plan_cache import PlanCache
from service.advisor.plan import plan
from service.application.services import PlanServices
from service.gpus.catalog import gpu_catalog
from service.hub.bundled.snapshot import BundledSnapshot
from service.hub.caches.cache import HubCache
from service.hub.hub_client import HubClient
from service.hub.model_source import ModelSource
from service.hub.transport.endpoint import Endpoint
from service.memory.calibration import NOTHING_LEARNED
from service.speed.prices import InvalidPrices, read_price_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import httpx2

    from service.advisor.candidates.plan_types import Plan
    from service.advisor.request.plan_request import PlanRequest
    from service.memory.calibration import Calibration
    from service.settings import Settings
    from service.speed.prices import Price


def build_plan_services(
    settings: Settings,
    http: httpx2.AsyncClient | Callable[[], httpx2.AsyncClient],
    calibration: Callable[[], Calibration] = lambda: NOTHING_LEARNED,
) -> PlanServices:
    """Return the parts that a plan needs.

    ``http``: the client for HTTP, or what returns it at the first download. ``calibration``: returns what was
    learned until now.

    Raises:
        ValueError: the address of the Hub is not valid, or the file of prices.
    """
    snapshot = BundledSnapshot()
    client = HubClient(http, endpoint=endpoint_of(settings), cache=HubCache(settings.cache_file))
    models = ModelSource(client, snapshot, offline=settings.hf_hub_offline)
    cache = PlanCache()

    def calibrated(request: PlanRequest) -> Plan:
        learned = calibration()
        if request.calibration is not learned:
            request = replace(request, calibration=learned)
        return plan(request, cache=cache)

    return PlanServices(
        plan=calibrated,
        models=models,
        snapshot=snapshot,
        gpus=gpu_catalog(),
        prices=prices_of(settings.prices),
    )


def prices_of(file: Path | None) -> tuple[Price, ...]:
    """Return the prices of a file; none without one.

    Raises:
        InvalidPrices: it is not in the form of SkyPilot's catalog, or cannot be read.
    """
    if file is None:
        return ()
    try:
        return read_price_file(file.read_text("utf-8"), file.name)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidPrices(f"{file}: {error}") from error


def endpoint_of(settings: Settings) -> Endpoint:
    """Return the address and token of the Hub.

    Raises:
        ValueError: its address is not a plain http(s) address.
    """
    return Endpoint(settings.hf_endpoint, settings.hub_token, settings.hub_storage_hosts)
