"""The parts that use cases work with."""

from collections.abc import Callable
from dataclasses import dataclass

from service.advisor.plan_request import PlanRequest
from service.advisor.plan_types import Plan
from service.application.job_events import JobEvents
from service.gpus.catalog import GpuCatalog
from service.hub.model_source import ModelSource
from service.hub.snapshot import BundledSnapshot
from service.store.jobs import JobStore
from service.store.learned import LearnedCalibration
from service.store.measurements import MeasurementStore
from service.store.tokens import TokenStore


@dataclass(frozen=True, slots=True)
class Probes:
    """The stores of probes; the database is opened when it is first used."""

    jobs: JobStore
    measurements: MeasurementStore
    tokens: TokenStore
    job_events: JobEvents
    learned: LearnedCalibration


@dataclass(frozen=True, slots=True)
class Services:
    """The parts that use cases work with, wired once by `bootstrap`."""

    plan: Callable[[PlanRequest], Plan]
    """Pure and synchronous; takes milliseconds to a second of one core."""
    models: ModelSource
    snapshot: BundledSnapshot
    gpus: GpuCatalog
    probes: Probes
