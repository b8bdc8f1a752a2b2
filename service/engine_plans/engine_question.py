"""EngineQuestion: what every engine is asked: a model, GPUs of one type, and the length of requests."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from service.architecture.model import ModelArchitecture
from service.bundled_toml import read_toml
from service.memory.budget_types import Basis, Estimate
from service.memory.interval import difference, exact
from service.memory.ranges import MibRange


@dataclass(frozen=True, slots=True)
class EngineDevice:
    """GPUs of one type."""

    name: str
    total: Estimate
    """Total memory of one GPU, as CUDA reports it."""
    driver_mib: int
    """The same as the driver reports it, in MiB."""
    count: int
    """GPUs that the engine gets."""
    generation: int | None = None
    """Major compute capability; ``None`` without one."""

    def free(self, *, several: bool) -> Estimate:
        """Return the free bytes of one GPU, beside the CUDA context and a communicator of several."""
        context = _constants()["context"]
        held = _in_bytes(context["several" if several else "one"], Basis.CALIBRATED, context["source"])
        return difference(self.total, (held,), "total less the CUDA context")


@dataclass(frozen=True, slots=True)
class ModelElements:
    """Elements of a model's weights, whatever their type."""

    layers: tuple[int, ...]
    """Of each layer."""
    ends: int
    """Of the output matrix, which may be the embedding once more, and of the final norm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRoom:
    """The GPUs that an engine gets, and what is counted on them."""

    device: EngineDevice
    cache_bytes: int | None = None
    """Bytes of each GPU that the cache may take, whatever else there is; ``None``: what is left of it."""
    request_tokens: int | None = None
    """Tokens of a request, prompt and answer, of which as many as fit are counted; ``None``: not asked."""

    def given_budget(self) -> Estimate | None:
        """Return the cache's bytes on each GPU where the caller gave them."""
        if self.cache_bytes is None:
            return None
        return exact(self.cache_bytes, Basis.GIVEN, "given by the caller")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineQuestion(EngineRoom):
    """What an engine is asked about a model with a config."""

    model: ModelArchitecture
    model_id: str
    weights: Callable[[int], Estimate]
    """Bytes of the checkpoint's weights on one rank, by the number of ranks that share every layer."""
    elements: ModelElements


def constant(name: str) -> Estimate:
    """Return a constant of the bundled data as a term in bytes."""
    table = _constants()[name]
    return _in_bytes(table, Basis.ASSUMED, table["source"])


def _in_bytes(table: Mapping[str, Any], basis: Basis, source: str) -> Estimate:
    size, low, high = MibRange(table["middle"], table["low"], table["high"]).bytes
    return Estimate(size, low, high, basis, source)


@cache
def _constants() -> Mapping[str, Any]:
    return read_toml("service.engine_plans", "device_memory.toml")
