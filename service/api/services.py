"""The parts that the face calls on."""

from collections.abc import Callable
from dataclasses import dataclass

from service.advisor.answer import Plan
from service.advisor.request import PlanRequest
from service.gpus.catalog import GpuCatalog
from service.hub.snapshot import BundledSnapshot
from service.hub.source import ModelSource


@dataclass(frozen=True, slots=True)
class Services:
    """What answers questions, wired once."""

    plan: Callable[[PlanRequest], Plan]
    """Pure and synchronous: it takes milliseconds to a second of one core."""
    models: ModelSource
    snapshot: BundledSnapshot
    gpus: GpuCatalog
