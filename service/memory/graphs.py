"""Memory that a release sets aside for CUDA graphs before it sizes the cache."""

from typing import Final

from service.architecture.layers import MixtureOfExperts
from service.architecture.model import ModelArchitecture
from service.memory.budget import Basis, Estimate
from service.memory.constants import Constants
from service.memory.estimates import around, exact
from service.units import MIB

LARGEST_CAPTURE: Final = 512
FULL_LIST: Final = 51
"""Sizes captured up to 512."""


def capture_sizes(sequences: int) -> int:
    """Return how many batch sizes are captured (vLLM 0.19.0, VllmConfig._set_cudagraph_sizes)."""
    largest = min(2 * sequences, LARGEST_CAPTURE)
    sizes = (1, 2, 4, *range(8, 256, 8), *range(256, LARGEST_CAPTURE + 1, 16))
    return sum(size <= largest for size in sizes)


def cuda_graphs(
    architecture: ModelArchitecture, constants: Constants, *, layers: int, sequences: int, eager: bool
) -> Estimate:
    """Return what is set aside on a stage of so many layers."""
    if eager:
        return exact(0, Basis.COMPUTED, "enforce_eager captures no graphs")
    if not constants.graphs_reserved:
        return exact(0, Basis.COMPUTED, constants.sources["graphs_reserved"])
    estimate = constants.graph_estimate
    sparse = any(isinstance(layer.feed_forward, MixtureOfExperts) for layer in architecture.layers)
    full = estimate.base + estimate.layer * layers + (estimate.experts if sparse else 0)
    middle = (estimate.fixed + full * capture_sizes(sequences) / FULL_LIST) * MIB
    low, high = constants.graph_spread_percent
    return around(
        middle,
        middle * low / 100,
        middle * high / 100,
        Basis.CALIBRATED,
        constants.sources["graph_estimate"],
    )
