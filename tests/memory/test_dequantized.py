"""Matrices in four bits that AWQ's own kernels write out in 16 bits, by hand."""

from dataclasses import replace

import pytest
from packaging.version import Version

from service.memory.activation import activation
from service.memory.constants import constants_at
from service.memory.dequantized import dequantized_matrices
from service.memory.parallelism import Parallelism
from service.memory.profile_run import ProfileRun
from service.memory.shards import Shards
from tests.memory.recorded import altered

AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}
MODEL = altered("Qwen/Qwen3-32B", quantization=AWQ)
MATRICES = {(5120, 10_240), (8192, 5120), (5120, 51_200), (25_600, 5120)}
"""Queries, keys and values of 64 + 2 x 8 heads of 128; outputs; gate and up of 25,600; down."""
RUN = ProfileRun(
    shards=Shards(),
    element_bytes=2,
    tokens=2048,
    sequences=1,
    samples=False,
    encodes=False,
    v2_model_runner=False,
    compiles_embedding=False,
    draft_tokens=False,
    max_model_len=2048,
)


@pytest.mark.parametrize(
    ("release", "capability", "forced", "plain"),
    [
        ("0.13.0", (7, 5), False, True),
        ("0.13.0", (8, 0), False, False),
        ("0.13.0", (8, 0), True, True),
        # Marlin runs on Turing since 0.14.0, and the flag no longer forces the plain kernels since 0.24.0.
        ("0.14.0", (7, 5), False, False),
        ("0.23.0", (8, 9), True, True),
        ("0.24.0", (8, 9), True, False),
    ],
)
def test_where_awqs_own_kernels_run(
    release: str, capability: tuple[int, int], forced: bool, plain: bool
) -> None:
    found = dequantized_matrices(
        MODEL, Parallelism(compute_capability=capability), Version(release), range(64), forced=forced
    )
    assert found == (MATRICES if plain else set())


def test_a_matrix_is_split_over_the_ranks_before_it_is_written_out() -> None:
    found = dequantized_matrices(
        MODEL, Parallelism(tensor_parallel_size=2), Version("0.19.0"), range(64), forced=True
    )
    assert found == {(5120, 5120), (4096, 5120), (5120, 25_600), (12_800, 5120)}


def peak(run: ProfileRun) -> int:
    constants = constants_at(Version("0.19.0"))
    return activation(MODEL, constants.activation, constants.encoders, run).bytes


def test_the_largest_matrix_lies_in_16_bits_beside_its_inputs_and_outputs() -> None:
    """Gate and up: 5,120 x 51,200 elements of 2 bytes, 0.49 GiB. Beside them 2,048 tokens of the residual and
    the inputs (5,120 each) and the outputs (51,200); without the matrix the layer holds 25,600 more a token.
    """
    plain = replace(RUN, dequantized=frozenset(MATRICES))

    assert peak(plain) - peak(RUN) == (5120 * 51_200 - 2048 * 25_600) * 2
    # Below 256 tokens a kernel reads the four bits.
    assert peak(replace(plain, tokens=255)) == peak(replace(RUN, tokens=255))
