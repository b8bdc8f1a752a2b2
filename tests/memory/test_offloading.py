"""What weights in the host's memory leave free, by hand from the engine's offloaders."""

import pytest
from packaging.version import Version

from service.memory.budget_types import Estimate
from service.memory.offloading import Offload, moved_bytes
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.parameters import layer_tensors, parameter_bytes
from tests.memory.recorded import bundled

LAYER = (("self_attn.qkv_proj", 60), ("self_attn.o_proj", 40), ("mlp.experts", 900), ("", 10))
"""1,010 bytes, of which 10 have no name."""
LAYERS = (LAYER,) * 9


def moved(offload: Offload) -> Estimate:
    return moved_bytes(LAYERS, offload, quantized=False, stays=True)


@pytest.mark.parametrize(
    ("budget", "low", "high"),
    [
        (500, 500, 1400),  # the parameter that reaches the budget goes as a whole: 900 at most
        (9000, 9000, 9090),
        (100_000, 9090, 9090),
    ],
)
def test_parameters_move_one_by_one_until_the_budget_is_reached(budget: int, low: int, high: int) -> None:
    """vLLM 0.28.0, offloader/uva.py _maybe_offload_to_cpu: it is asked before each parameter."""
    found = moved(Offload(max_bytes=budget))

    assert (found.bytes, found.low, found.high) == (low, low, high)


def test_named_parameters_alone_move() -> None:
    """Whole segments are compared: "experts" is one, "expert" is none."""
    assert moved(Offload(max_bytes=1 << 20, names=frozenset({"experts"}))).bytes == 9 * 900
    assert moved(Offload(max_bytes=1 << 20, names=frozenset({"mlp"}))).high == 9 * 900
    assert moved(Offload(max_bytes=1 << 20, names=frozenset({"self_attn"}))).high == 9 * 100
    # Which part of the experts' bytes one of their parameters has is not known here.
    part = moved(Offload(max_bytes=1 << 20, names=frozenset({"experts.w2_weight"})))
    assert (part.low, part.high) == (0, 9 * 1010)


@pytest.mark.parametrize(
    ("offload", "layers", "buffers"),
    [
        # Layers 2, 5 and 8, and room for two of them.
        (Offload(group_size=3, moved_in_group=1, fetched_ahead=2), 3, 2),
        # Layers 1, 2, 4, 5, 7 and 8.
        (Offload(group_size=3, moved_in_group=2, fetched_ahead=1), 6, 1),
        # The last group is not full: layer 3, and 7.
        (Offload(group_size=4, moved_in_group=1, fetched_ahead=1), 2, 1),
        # Room for more layers than are moved takes more than it saves.
        (Offload(group_size=9, moved_in_group=1, fetched_ahead=2), 1, 2),
    ],
)
def test_the_last_layers_of_groups_move_but_for_buffers(offload: Offload, layers: int, buffers: int) -> None:
    """vLLM 0.28.0, offloader/prefetch.py wrap_modules and StaticBufferPool."""
    found = moved(offload)

    assert found.low == found.bytes == found.high == (layers - buffers) * 1010


def test_layers_that_differ_have_buffers_of_their_own() -> None:
    """A buffer for each name and shape: dense layers and experts share none but attention's."""
    dense = (("self_attn.qkv_proj", 60), ("self_attn.o_proj", 40), ("mlp.gate_up_proj", 200), ("", 10))

    found = moved_bytes((dense, LAYER), Offload(group_size=1, moved_in_group=1), quantized=False, stays=True)

    assert found.bytes == 310 + 1010 - (60 + 40 + 200 + 900 + 10)


def test_repacked_weights_may_come_back_to_the_gpu() -> None:
    """vLLM 0.16.0, device_loading_context forgets parameters that are replaced; 0.17.0 moves them again."""
    offload = Offload(max_bytes=9000)
    before = moved_bytes(LAYERS, offload, quantized=True, stays=False)
    since = moved_bytes(LAYERS, offload, quantized=True, stays=True)

    assert (before.low, before.high) == (0, 9090)
    assert since.low == pytest.approx(0.97 * 9000)


def test_a_layers_tensors_are_all_that_a_rank_builds_of_it() -> None:
    """Llama 3.1 8B: 32 layers of 218,112,000 parameters in two bytes."""
    architecture = bundled("meta-llama/Llama-3.1-8B")
    layers = layer_tensors(architecture, Parallelism(), Version("0.28.0"))

    assert [sum(size for _, size in layer) for layer in layers] == [2 * 218_112_000] * 32
    whole = parameter_bytes(architecture, Parallelism(), Version("0.28.0"))
    assert whole - 32 * 2 * 218_112_000 == 2 * (2 * 128_256 * 4096 + 4096)
