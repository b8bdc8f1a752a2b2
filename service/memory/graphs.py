"""Memory of CUDA graphs: what a release sets aside before it sizes the cache, and what it takes after."""

from dataclasses import dataclass
from typing import Final

from service.architecture.layers.experts import MixtureOfExperts
from service.architecture.model import ModelArchitecture
from service.memory.budget import Basis, Estimate
from service.memory.constants import Constants
from service.memory.interval import around, exact
from service.units import MIB

DATA_CENTER_BLACKWELL: Final = 10
"""Major compute capability of the cards that may capture larger batches."""


@dataclass(frozen=True, slots=True)
class Capture:
    """What one rank captures."""

    layers: int
    """Layers of the rank's pipeline stage."""
    sequences: int
    """Requests that may run at once."""
    batch_tokens: int
    """Tokens of one scheduler step."""
    step_tokens: int
    """Tokens of one request in a decode step: one, and those guessed ahead."""
    compute_capability: tuple[int, int]
    eager: bool
    """Nothing is captured."""
    v2_model_runner: bool
    largest: int | None
    """Tokens of the largest graph, where the caller says."""

    @property
    def captures(self) -> bool:
        """Whether any graph is captured."""
        return not self.eager and self.largest != 0


_NOTHING: Final = exact(0, Basis.COMPUTED, "nothing is captured")


def capture_sizes(capture: Capture, default_largest: int, step: int) -> tuple[int, ...]:
    """Return the tokens of each batch that is captured (vLLM 0.19.0, VllmConfig._set_cudagraph_sizes).

    ``step`` is the distance of sizes above 256.
    """
    wanted = min(2 * capture.sequences * capture.step_tokens, default_largest)
    largest = min(capture.batch_tokens, wanted if capture.largest is None else capture.largest)
    sizes = (1, 2, 4, *range(8, 256, 8), *range(256, largest + 1, step))
    return tuple(size for size in sizes if size <= largest)


def cuda_graphs(architecture: ModelArchitecture, constants: Constants, capture: Capture) -> Estimate:
    """Return what is set aside on a pipeline stage."""
    if not capture.captures:
        return _NOTHING
    reserved = "graphs_reserved_v2" if capture.v2_model_runner else "graphs_reserved"
    if not getattr(constants, reserved):
        return exact(0, Basis.COMPUTED, constants.sources[reserved])
    middle = _mib(architecture, constants, capture) * MIB
    low, high = constants.graph_spread_percent
    source = constants.sources["graph_estimate"]
    return around(middle, middle * low / 100, middle * high / 100, Basis.CALIBRATED, source)


def captured_graphs(architecture: ModelArchitecture, constants: Constants, capture: Capture) -> Estimate:
    """Return what a pipeline stage's graphs take once they are captured, which is after the cache stands."""
    if not capture.captures:
        return _NOTHING
    one_percent = _mib(architecture, constants, capture) * MIB / 100
    share, source = constants.captured_percent, constants.sources["captured_percent"]
    bounds = (one_percent * share.low, one_percent * share.high)
    return around(one_percent * share.middle, *bounds, Basis.CALIBRATED, source)


def _mib(architecture: ModelArchitecture, constants: Constants, capture: Capture) -> float:
    """Return the estimate: a first graph of each kind, and as much again for every other one."""
    estimate = constants.graph_estimate
    largest = constants.largest_capture
    blackwell = capture.compute_capability[0] == DATA_CENTER_BLACKWELL
    sizes = capture_sizes(capture, largest.blackwell if blackwell else largest.others, constants.capture_step)
    decoding = sum(size <= capture.sequences * capture.step_tokens for size in sizes)
    graphs = max(0, len(sizes) + decoding - 2)
    sparse = any(isinstance(layer.feed_forward, MixtureOfExperts) for layer in architecture.layers)
    first = estimate.first + estimate.experts * sparse + estimate.recurrent * architecture.is_recurrent
    return first + graphs * (estimate.graph + estimate.layer * capture.layers)
