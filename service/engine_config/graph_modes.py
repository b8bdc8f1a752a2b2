"""Which steps have CUDA graphs, and of which sizes."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage


class GraphMode(StrEnum):
    """Which steps have CUDA graphs (vLLM 0.32.0, config/compilation.py CUDAGraphMode)."""

    NONE = "NONE"
    PIECEWISE = "PIECEWISE"
    """Graphs of what lies between attention, for every kind of step."""
    FULL = "FULL"
    """Graphs of whole steps of every kind."""
    FULL_DECODE_ONLY = "FULL_DECODE_ONLY"
    """Graphs of whole decode steps alone."""
    FULL_AND_PIECEWISE = "FULL_AND_PIECEWISE"
    """Graphs of whole decode steps, and of what lies between attention for other steps."""

    @property
    def mixed(self) -> bool:
        """Whether steps that read prompts have graphs."""
        return self in {GraphMode.PIECEWISE, GraphMode.FULL, GraphMode.FULL_AND_PIECEWISE}

    @property
    def decodes(self) -> bool:
        """Whether decode steps have graphs of their own."""
        return self in {GraphMode.FULL_DECODE_ONLY, GraphMode.FULL_AND_PIECEWISE}

    @property
    def whole(self) -> bool:
        """Whether whole steps have graphs."""
        return self.decodes or self is GraphMode.FULL


LEVELS: Final = (
    GraphMode.NONE,
    GraphMode.PIECEWISE,
    GraphMode.FULL_AND_PIECEWISE,
    GraphMode.FULL_AND_PIECEWISE,
)
"""By ``--optimization-level``: vLLM 0.12.0 to 0.33.0, config/vllm.py OPTIMIZATION_LEVEL_00 to 03."""
DEFAULT_LEVEL: Final = 2
INTERACTIVITY: Final = "interactivity"
THROUGHPUT: Final = "throughput"


@dataclass(frozen=True, slots=True)
class GraphSizes:
    """What a caller says of the sizes of CUDA graphs."""

    sizes: tuple[int, ...] = ()
    """Tokens of each graph; none: the release's own sizes."""
    largest: int | None = None
    """Tokens of the largest graph, where the caller sets it."""
    every_small: bool = False
    """Each batch of up to 32 tokens has a graph of its own."""


RELEASE_SIZES: Final = GraphSizes()
"""The caller says nothing of the sizes."""


def resolve_graph_mode(flags: ServeFlags) -> GraphMode:
    """Return which steps have CUDA graphs before an attention backend changes it.

    Source: vLLM 0.32.0, VllmConfig.__post_init__: eager execution ends all graphs, a given mode comes before
    the default of the optimization level.
    """
    if flags.enforce_eager:
        return GraphMode.NONE
    if flags.cudagraph_mode is not None:
        return GraphMode(flags.cudagraph_mode.upper())
    level = DEFAULT_LEVEL if flags.optimization_level is None else flags.optimization_level
    return LEVELS[level]


def graph_sizes(flags: ServeFlags, batched: int, mode: GraphMode) -> GraphSizes:
    """Return what the caller says of the sizes of graphs, as the engine takes it.

    Source: vLLM 0.11.1 to 0.33.0, VllmConfig._set_cudagraph_sizes.

    Raises:
        EngineRefusal: the largest size is not the one that is given beside the list (stage ``config``).
    """
    sizes = tuple(size for size in sorted(set(flags.cudagraph_capture_sizes)) if size <= batched)
    largest = flags.max_cudagraph_capture_size
    if flags.cudagraph_capture_sizes and largest is not None and mode is not GraphMode.NONE:
        last = sizes[-1] if sizes else 0
        if largest != last:
            raise EngineRefusal(
                Stage.CONFIG,
                f"VllmConfig: customized max_cudagraph_capture_size(={largest}) should be consistent with "
                f"the max value of cudagraph_capture_sizes(={last})",
                type="ValidationError",
            )
    if flags.cudagraph_capture_sizes:
        largest = sizes[-1] if sizes else 0
    return GraphSizes(sizes, largest, every_small=flags.performance_mode == INTERACTIVITY)
