"""Which steps have CUDA graphs, against vLLM's own rules worked out by hand."""

from dataclasses import replace

import pytest
from packaging.version import Version

from service.engine_config.graph_modes import GraphMode, GraphSizes, graph_sizes, resolve_graph_mode
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.memory.constants import constants_at
from service.memory.graphs import Capture, capture_sizes, cuda_graphs
from tests.accuracy.oracle import bundled_architecture

LLAMA = bundled_architecture("meta-llama/Llama-3.1-8B")
CAPTURE = Capture(
    layers=32,
    sequences=256,
    batch_tokens=2048,
    step_tokens=1,
    blackwell=False,
    eager=False,
    v2_model_runner=False,
    largest=None,
)


@pytest.mark.parametrize(
    ("flags", "mode"),
    [
        (ServeFlags(), GraphMode.FULL_AND_PIECEWISE),
        (ServeFlags(optimization_level=0), GraphMode.NONE),
        (ServeFlags(optimization_level=1), GraphMode.PIECEWISE),
        (ServeFlags(optimization_level=3), GraphMode.FULL_AND_PIECEWISE),
        (ServeFlags(optimization_level=0, cudagraph_mode="full_decode_only"), GraphMode.FULL_DECODE_ONLY),
        (ServeFlags(enforce_eager=True, cudagraph_mode="FULL"), GraphMode.NONE),
    ],
)
def test_a_given_mode_comes_before_the_level_and_eager_before_both(
    flags: ServeFlags, mode: GraphMode
) -> None:
    assert resolve_graph_mode(flags) is mode


def test_given_sizes_are_sorted_once_each_and_no_larger_than_a_step() -> None:
    """The list of a published command, and one size beyond ``max_num_batched_tokens``."""
    flags = ServeFlags(cudagraph_capture_sizes=(500, 4, 8, 100, 8, 4096))
    assert graph_sizes(flags, 2048, GraphMode.FULL).sizes == (4, 8, 100, 500)
    assert graph_sizes(flags, 2048, GraphMode.FULL).largest == 500


def test_a_largest_size_that_is_not_in_the_list_is_refused() -> None:
    flags = ServeFlags(cudagraph_capture_sizes=(1, 2, 4), max_cudagraph_capture_size=8)
    with pytest.raises(EngineRefusal, match="should be consistent with the max value"):
        graph_sizes(flags, 2048, GraphMode.FULL)
    assert graph_sizes(replace(flags, max_cudagraph_capture_size=4), 2048, GraphMode.FULL).largest == 4


def test_interactivity_captures_every_small_batch() -> None:
    """1 to 32, then every eighth to 255, then every sixteenth to 512: 32 + 27 + 17 sizes (vLLM 0.17.0)."""
    sizes = capture_sizes(replace(CAPTURE, sizes=GraphSizes(every_small=True)), 512, 16)
    assert sizes[:33] == (*range(1, 33), 40)
    assert len(sizes) == 76


@pytest.mark.parametrize(
    ("mode", "given", "graphs"),
    [
        ("FULL_AND_PIECEWISE", (1, 2, 4, 512), 5),
        ("PIECEWISE", (1, 2, 4, 512), 3),
        ("FULL", (1, 2, 4, 512), 3),
        ("FULL_DECODE_ONLY", (1, 2, 4, 512), 2),
        ("FULL_DECODE_ONLY", (4, 8), 1),
    ],
)
def test_further_graphs_follow_sizes_and_mode(mode: str, given: tuple[int, ...], graphs: int) -> None:
    """Beside the first of each kind; decode graphs are those of at most 256 sequences (a token each)."""
    constants = constants_at(Version("0.20.2")).graphs
    estimate = constants.estimate_mib
    capture = replace(CAPTURE, mode=GraphMode(mode), sizes=GraphSizes(sizes=given))
    by_hand = estimate.first.middle + graphs * (estimate.graph + 32 * estimate.layer)
    assert cuda_graphs(LLAMA, constants, capture).bytes == pytest.approx(by_hand * (1 << 20), abs=1)


def test_no_graphs_take_nothing() -> None:
    constants = constants_at(Version("0.20.2")).graphs
    assert cuda_graphs(LLAMA, constants, replace(CAPTURE, mode=GraphMode.NONE)).bytes == 0
