"""The parts that use cases work with."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from service.application.recent_models import RecentModels
from service.application.workers_seen import WorkersSeen

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.advisor.candidates.plan_types import Plan
    from service.advisor.request.plan_request import PlanRequest
    from service.application.job_events import JobEvents
    from service.gpus.catalog import GpuCatalog
    from service.hub.bundled.snapshot import BundledSnapshot
    from service.hub.model_source import ModelSource
    from service.speed.prices import Price
    from service.store.database import Database
    from service.store.jobs import JobStore
    from service.store.learned import LearnedCalibration
    from service.store.measurements import MeasurementStore
    from service.store.stores import Stores
    from service.store.token_file import TokenFile
    from service.store.tokens import TokenStore


@dataclass(frozen=True, slots=True)
class Probes:
    """The stores of probes; the database is opened when it is first used."""

    stores: Stores
    job_events: JobEvents
    learned: LearnedCalibration
    workers: WorkersSeen = field(default_factory=WorkersSeen)
    declared_tokens: TokenFile | None = None
    """Tokens that a file declares, beside those of the database."""

    async def load(self) -> None:
        """Make the stores in a thread, the first time: their library would hold up other requests."""
        if not self.stores.loaded:
            await asyncio.to_thread(self.stores.load)

    @property
    def jobs(self) -> JobStore:
        """The queue."""
        return self.stores.jobs

    @property
    def measurements(self) -> MeasurementStore:
        """What workers and logs reported."""
        return self.stores.measurements

    @property
    def tokens(self) -> TokenStore:
        """The tokens of the database."""
        return self.stores.tokens

    @property
    def database(self) -> Database:
        """The database of the stores."""
        return self.stores.database


@dataclass(frozen=True, slots=True)
class PlanServices:
    """What a plan needs; no database is among it."""

    plan: Callable[[PlanRequest], Plan]
    """Pure and synchronous; takes milliseconds to a second of one core."""
    models: ModelSource
    snapshot: BundledSnapshot
    gpus: GpuCatalog
    recent_models: RecentModels = field(default_factory=RecentModels, kw_only=True)
    prices: tuple[Price, ...] = field(default=(), kw_only=True)
    """Prices of the operator's own file, which come before those of the package."""


@dataclass(frozen=True, slots=True)
class Services(PlanServices):
    """The parts that use cases work with, wired once by `bootstrap`."""

    probes: Probes


def with_probes(planning: PlanServices, probes: Probes) -> Services:
    """Return the parts that a plan needs, together with the stores of probes."""
    return Services(
        planning.plan, planning.models, planning.snapshot, planning.gpus, probes, prices=planning.prices
    )
