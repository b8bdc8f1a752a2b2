"""Which weights a release builds, as dated data."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

from packaging.version import Version

from service.engines.timeline import Timeline

DATA: Final = "constants.toml"


@cache
def bundled() -> Mapping[str, Any]:
    """Return the bundled constants of the memory budget."""
    return tomllib.loads(resources.files("service.memory").joinpath(DATA).read_text("utf-8"))


@dataclass(frozen=True, slots=True)
class Rounding:
    """What the kernel of a GPU generation rounds an expert's sizes up to."""

    capability: tuple[int, int]
    """Holds from this compute capability on."""
    hidden: int
    intermediate: int


@dataclass(frozen=True, slots=True)
class WeightLayout:
    """What one release builds."""

    shared_cache_projections: bool
    shared_predictor_heads: bool
    towers_on_every_stage: bool
    sharded_positions: bool
    weight_only_nvfp4: bool
    mixed_mxfp8: bool
    quantized_output: bool
    order_indices: bool
    fused_indexer_keys: bool
    declared_nvfp4_experts: bool
    widened_experts: bool
    split_markov_tables: bool
    confidence_heads: bool
    stacked_context_keys: bool
    router_kernels: frozenset[str]
    tied_when_unset: frozenset[str]
    ends_only: frozenset[str]
    mxfp4_rounding: tuple[Rounding, ...]
    plain_rounding: tuple[Rounding, ...]

    def widens_routers(self, capability: tuple[int, int]) -> bool:
        """Whether routers that compute in 32 bits are kept in them on a GPU."""
        return "{}.{}".format(*capability) not in self.router_kernels

    def rounding(self, capability: tuple[int, int], *, mxfp4: bool) -> Rounding:
        """Return how experts in MXFP4, or unquantized ones, are rounded on a GPU."""
        specified = self.mxfp4_rounding if mxfp4 else self.plain_rounding
        fitting = [rounding for rounding in specified if rounding.capability <= capability]
        return max(fitting or specified[:1], key=lambda rounding: rounding.capability)

    def rounded_alike(self, capability: tuple[int, int]) -> tuple[int, int]:
        """Return the least compute capability that stands for this one: sizes are rounded as on it."""
        steps = (rounding.capability for rounding in (*self.mxfp4_rounding, *self.plain_rounding))
        return max((step for step in steps if step <= capability), default=(0, 0))


def _roundings(raw: Mapping[str, list[int]]) -> tuple[Rounding, ...]:
    return tuple(
        Rounding((int(text.split(".")[0]), int(text.split(".")[1])), hidden, intermediate)
        for text, (hidden, intermediate) in raw.items()
    )


_PARSERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "shared_cache_projections": bool,
    "shared_predictor_heads": bool,
    "towers_on_every_stage": bool,
    "sharded_positions": bool,
    "weight_only_nvfp4": bool,
    "mixed_mxfp8": bool,
    "quantized_output": bool,
    "order_indices": bool,
    "fused_indexer_keys": bool,
    "declared_nvfp4_experts": bool,
    "widened_experts": bool,
    "split_markov_tables": bool,
    "confidence_heads": bool,
    "stacked_context_keys": bool,
    "router_kernels": frozenset,
    "tied_when_unset": frozenset,
    "ends_only": frozenset,
    "mxfp4_rounding": _roundings,
    "plain_rounding": _roundings,
}


@cache
def weight_layout_at(release: Version) -> WeightLayout:
    """Return what a release builds.

    Raises:
        LookupError: the release is older than the first dated change.
    """
    raw = bundled()["layout"]
    return WeightLayout(
        **{name: Timeline.parse(name, raw[name], parse).at(release) for name, parse in _PARSERS.items()}
    )
