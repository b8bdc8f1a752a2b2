"""What segments of PyTorch's allocator add to weights, worked out by hand and compared with logs.

Of Qwen2.5-7B-Instruct the matrices of a layer are 31.5, 24.5, 259 and 129.5 MiB, and the embedding and the
output 1,039.5 each: segments of 2 MiB leave 0.5, 1.5, 1 and 0.5, and 0.5 each.
"""

from dataclasses import replace

import pytest
from packaging.version import Version

from service.memory.budget_estimator import estimate_budget
from service.memory.budget_inputs import BudgetInputs
from service.memory.budget_types import Basis
from service.memory.constants import constants_at
from service.memory.interval import exact
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.parameters import parameter_bytes
from service.memory.weights.resident.allocation import Loading, rest, segment_rests
from service.memory.weights.schemes.online_quantization import quantized_online
from service.units import GIB, MIB
from tests.accuracy.startups_models import find_model
from tests.memory.recorded import bundled

SPLIT, UNSPLIT = Loading(), Loading(unsplit_mib=20)
EXPANDS = BudgetInputs(
    release=Version("0.25.1"),
    total=exact(32 * GIB, Basis.GIVEN, "32 GiB"),
    compute_capability=(12, 0),
    max_model_len=16512,
    gpu_memory_utilization=0.9,
    max_num_batched_tokens=8192,
    max_num_seqs=256,
    v2_model_runner=True,
    expands_segments=True,
)


def rests(
    model: str, loading: Loading, tensor_parallel_size: int = 1, online: str | None = None
) -> tuple[int, int]:
    """Return the bytes of parameters and of the rests of their segments."""
    architecture = quantized_online(bundled(model), online)
    deployment, release = Parallelism(tensor_parallel_size=tensor_parallel_size), Version("0.27.1")
    layers = range(len(architecture.layers))
    added = segment_rests(architecture, deployment, release, layers, loading)
    return parameter_bytes(architecture, deployment, release), added.bytes


def test_a_rest_of_more_than_a_mib_goes_to_other_tensors_if_the_segment_may_be_split() -> None:
    assert rest(31 * MIB + MIB // 2, 0) == MIB // 2
    assert rest(259 * MIB, 0) == MIB
    assert rest(49 * MIB // 2, 0) == 0
    assert rest(49 * MIB // 2, 20 * MIB) == 3 * MIB // 2
    assert rest(17 * MIB // 2, 20 * MIB) == 0
    assert rest(25 * MIB // 2, 20 * MIB) == 0
    assert rest(32 * MIB, 20 * MIB) == 0


@pytest.mark.parametrize(
    ("loading", "added", "logged"),
    [(SPLIT, 28 * 2 + 1, 14.2488), (UNSPLIT, 28 * 3.5 + 1, 14.29)],
    ids=["0.18.0", "0.22.0 and 0.27.1"],
)
def test_weights_are_those_that_logs_have(loading: Loading, added: float, logged: float) -> None:
    """With 32,768 positions of a rotary table of 128 in 16 bits: 8 MiB."""
    parameters, beyond = rests("Qwen/Qwen2.5-7B-Instruct", loading)

    assert beyond == added * MIB
    assert (parameters + beyond + 8 * MIB) / GIB == pytest.approx(logged, abs=0.0006)


def test_releases_since_0_21_do_not_split() -> None:
    """vLLM 0.21.0, Worker.load_model: max_split_size_mb=20."""
    assert constants_at(Version("0.20.2")).resident.unsplit_mib == 0
    assert constants_at(Version("0.21.0")).resident.unsplit_mib == 20


def test_ranks_have_rests_of_their_own_shares() -> None:
    """Qwen2.5-7B over two ranks: 15.75, 12.25, 129.5 and 64.75 MiB, and twice 519.75."""
    _, beyond = rests("Qwen/Qwen2.5-7B-Instruct", SPLIT, tensor_parallel_size=2)
    _, unsplit = rests("Qwen/Qwen2.5-7B-Instruct", UNSPLIT, tensor_parallel_size=2)

    assert beyond == (28 * (0.25 + 0.5) + 2 * 0.25) * MIB
    assert unsplit == (28 * (0.25 + 0.5 + 1.25) + 2 * 0.25) * MIB


def test_converted_weights_keep_segments_of_the_matrices_that_they_replace() -> None:
    """Qwen3-8B in 16 bits: 48, 32, 192 and 96 MiB a layer; in 8 bits the 24 get the freed 32.

    Logs of 0.27.1 have 9.06 GiB, 0.25 more than weights and tables; 70B models have no matrices so near to
    each other, and logs of 0.23.0 no more than their weights.
    """
    loading = replace(UNSPLIT, converts=True)
    _, loaded = rests("Qwen/Qwen3-8B", UNSPLIT, online="fp8")
    _, converted = rests("Qwen/Qwen3-8B", loading, online="fp8")
    _, split = rests("Qwen/Qwen3-8B", Loading(converts=True), online="fp8")
    _, large = rests("meta-llama/Llama-3.1-70B-Instruct", loading, online="fp8")

    assert (loaded, split) == (2 * MIB, 2 * MIB)
    assert converted - loaded == 36 * 8 * MIB
    assert large == 0


def test_segments_that_expand_have_no_rests() -> None:
    """Of gemma-4-12B-it, 0.25.1 loads 22.68 GiB, and quantized to fp8 12.52 (two starts on an RTX 5090)."""
    gemma = find_model("google/gemma-4-12B-it").model.architecture
    for online, logged in ((None, 22.68), ("fp8", 12.52)):
        found = estimate_budget(gemma, replace(EXPANDS, quantization=online)).weights
        assert found.bytes / GIB == pytest.approx(logged, abs=0.04)


def test_they_take_as_much_less_as_the_rests_are() -> None:
    """28 layers of 3.5 MiB, and 0.5 each of the embedding and the output, as above."""
    qwen, alone = bundled("Qwen/Qwen2.5-7B-Instruct"), replace(EXPANDS, expands_segments=False)
    assert (
        estimate_budget(qwen, alone).weights.bytes - estimate_budget(qwen, EXPANDS).weights.bytes == 99 * MIB
    )
