"""Memory of CUDA graphs: what a release sets aside before it sizes the cache, and what graphs take after."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from service.architecture.layers.experts import MixtureOfExperts
from service.architecture.model import ModelArchitecture
from service.engine_config.graph_modes import RELEASE_SIZES, GraphMode, GraphSizes
from service.memory.budget_types import Basis, Estimate
from service.memory.interval import around, exact, scaled, total
from service.memory.ranges import MibRange, Range
from service.units import MIB

WHOLE_BATCH: Final = 512
"""Tokens of the largest graph in the logs that the experts' work space was fitted to."""
EVERY_SMALL: Final = 32
"""Tokens up to which each batch has its own graph with ``--performance-mode interactivity``."""
KERNELS: Final = "room for the scales of experts' rows, which a kernel takes for any batch"
DATA_CENTER_BLACKWELL: Final = 10
"""Major compute capability of the cards that may capture larger batches."""


@dataclass(frozen=True, slots=True)
class GraphEstimate:
    """MiB that graphs take, by what is captured."""

    first: MibRange
    """The first graphs together, with work space that kernels allocate once."""
    experts: MibRange
    """Added to the first graphs where layers have experts and the largest graph has ``WHOLE_BATCH`` tokens:
    the experts' work space grows with the tokens.
    """
    recurrent: MibRange
    """Added to the first graphs where layers are recurrent."""
    graph: float
    """Each further graph."""
    layer: float
    """Added to each further graph for each layer."""
    all_reduce: Range
    """Added for each sum over ranks that a graph holds and NCCL computes."""


@dataclass(frozen=True, slots=True)
class LargestCapture:
    """Tokens of the largest graph that a release captures by default."""

    blackwell: int
    """On data center cards of Blackwell."""
    others: int


@dataclass(frozen=True, slots=True)
class GraphConstants:
    """Dated constants of CUDA graphs."""

    reserved_v1: bool
    """The V1 model runner sets memory for graphs aside before it sizes the cache."""
    reserved_v2: bool
    """The V2 model runner does."""
    largest: LargestCapture
    step: int
    """Tokens between the sizes of graphs above 256."""
    estimate_mib: GraphEstimate
    spread_percent: tuple[float, float]
    """Bounds in percent of what each further graph takes: low, high."""
    captured_percent: Range
    """Percent of the same estimate that graphs take once they are captured."""
    sources: Mapping[str, str]


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
    """Tokens of one request in a decode step: one, and its draft tokens."""
    blackwell: bool
    """The GPU is a Blackwell of data centers, whose largest graph is another one."""
    eager: bool
    """Nothing is captured."""
    v2_model_runner: bool
    largest: int | None
    """Tokens of the largest graph, where the caller sets it."""
    all_reduces: int = 0
    """Sums over ranks in one graph that NCCL computes: none on one rank, or where ranks read each other's
    memory over NVLink.
    """
    variants: int = 1
    """How often each graph is captured: with LoRA adapters and without."""
    mode: GraphMode = GraphMode.FULL_AND_PIECEWISE
    """Which steps have graphs."""
    sizes: GraphSizes = RELEASE_SIZES
    """What the caller says of their sizes."""
    kernel_bytes: int = 0
    """What kernels allocate in the first graph, however small it is."""
    reserved: bool | None = None
    """Whether the V1 model runner sets memory aside for them; ``None``: as the release does."""

    @property
    def captures(self) -> bool:
        """Whether any graph is captured."""
        return not self.eager and self.largest != 0 and self.mode is not GraphMode.NONE


_NOTHING: Final = exact(0, Basis.COMPUTED, "nothing is captured")


def capture_sizes(capture: Capture, default_largest: int, step: int) -> tuple[int, ...]:
    """Return the tokens of each batch that is captured (vLLM 0.19.0, VllmConfig._set_cudagraph_sizes).

    ``step`` is the distance of sizes above 256.
    """
    if capture.sizes.sizes:
        return capture.sizes.sizes
    default = min(2 * capture.sequences * capture.step_tokens, default_largest)
    largest = min(capture.batch_tokens, default if capture.largest is None else capture.largest)
    small = range(1, EVERY_SMALL + 1) if capture.sizes.every_small else (1, 2, 4)
    sizes = sorted({*small, *range(8, 256, 8), *range(256, largest + 1, step)})
    return tuple(size for size in sizes if size <= largest)


def cuda_graphs(architecture: ModelArchitecture, constants: GraphConstants, capture: Capture) -> Estimate:
    """Return the bytes that a pipeline stage sets aside for graphs before it sizes the cache."""
    if not capture.captures:
        return _NOTHING
    v2 = capture.v2_model_runner
    reserved = constants.reserved_v1 if capture.reserved is None else capture.reserved
    if not (constants.reserved_v2 if v2 else reserved):
        return exact(0, Basis.COMPUTED, constants.sources["reserved_v2" if v2 else "reserved_v1"])
    return _estimate(architecture, constants, capture)


def captured_graphs(architecture: ModelArchitecture, constants: GraphConstants, capture: Capture) -> Estimate:
    """Return the bytes of a pipeline stage's graphs, which are captured after the cache is allocated."""
    if not capture.captures:
        return _NOTHING
    estimate = _estimate(architecture, constants, capture)
    share, source = constants.captured_percent, constants.sources["captured_percent"]
    middle, low, high = (estimate.bytes / 100 * percent for percent in (share.middle, share.low, share.high))
    return around(middle, low, high, Basis.CALIBRATED, source)


def _estimate(architecture: ModelArchitecture, constants: GraphConstants, capture: Capture) -> Estimate:
    """Return what is set aside: much for the first graphs, and a little for each further graph."""
    estimate, source = constants.estimate_mib, constants.sources["estimate_mib"]
    sparse = any(isinstance(layer.feed_forward, MixtureOfExperts) for layer in architecture.layers)
    sizes = _sizes(constants, capture)
    share = min(1.0, max(sizes, default=0) / WHOLE_BATCH)
    cases = (
        (estimate.first, 1.0),
        (estimate.experts, share * sparse),
        (estimate.recurrent, 1.0 * architecture.is_recurrent),
    )
    terms = [scaled(size, share, Basis.CALIBRATED, source) for size, share in cases if share]
    graphs = _further_graphs(sizes, capture)
    further = graphs * (estimate.graph + estimate.layer * capture.layers) * MIB
    low, high = constants.spread_percent
    terms.append(around(further, further * low / 100, further * high / 100, Basis.CALIBRATED, source))
    if capture.kernel_bytes:
        terms.append(exact(capture.kernel_bytes, Basis.COMPUTED, KERNELS))
    if capture.all_reduces:
        sums, each = graphs * capture.all_reduces * MIB, estimate.all_reduce
        bounds = (sums * each.low, sums * each.high)
        terms.append(around(sums * each.middle, *bounds, Basis.CALIBRATED, source))
    return total(terms, source)


def _sizes(constants: GraphConstants, capture: Capture) -> tuple[int, ...]:
    """Return the tokens of each batch that is captured, with a release's own limit."""
    largest = constants.largest
    return capture_sizes(capture, largest.blackwell if capture.blackwell else largest.others, constants.step)


def _further_graphs(sizes: tuple[int, ...], capture: Capture) -> int:
    """Return how many graphs are captured after the first of each mode."""
    decoding = sum(size <= capture.sequences * capture.step_tokens for size in sizes)
    counts = [
        count for count, has in ((len(sizes), capture.mode.mixed), (decoding, capture.mode.decodes)) if has
    ]
    return max(0, capture.variants * sum(counts) - len(counts))
