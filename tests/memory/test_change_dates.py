"""Releases between those that were asked: bytes on both sides of a change that the engine's source dates.

Each difference is worked out by hand from the shapes in the source that the dated constant names.
"""

from dataclasses import replace
from itertools import pairwise

import pytest
from packaging.version import Version

from service.architecture.model import ModelArchitecture
from service.memory.parallelism import Parallelism
from service.memory.weights.parameters import parameter_bytes
from tests.memory.recorded import bundled

GEMMA_3 = bundled("google/gemma-3-27b-it")
GPT_OSS = bundled("openai/gpt-oss-20b")
BLACKWELL = (10, 0)


def changes(model: ModelArchitecture, ranks: Parallelism, *releases: str) -> list[int]:
    """Return by how many bytes a rank grows from each release to the next."""
    built = [parameter_bytes(model, ranks, Version(release)) for release in releases]
    return [after - before for before, after in pairwise(built)]


def test_siglips_positions_are_whole_on_every_rank_since_0_14() -> None:
    """Half of 4,096 positions of 1,152 elements of 2 bytes was on the other rank (siglip.py)."""
    ranks = Parallelism(tensor_parallel_size=2)

    assert changes(GEMMA_3, ranks, "0.13.0", "0.14.0", "0.14.1", "0.15.0") == [4096 * 1152, 0, 0]


@pytest.mark.parametrize(("size", "narrower"), [(1, 128), (2, 0), (4, 0), (8, 128)])
def test_trtllm_rounds_mxfp4_experts_to_128_since_0_27(size: int, narrower: int) -> None:
    """2,880 columns on 1, 2, 4 and 8 ranks: 3,072, 1,536, 768 and 512 in steps of 256; 2,944, 1,536, 768 and
    384 in steps of 128.

    An expert has three matrices of 3,072 rows of so many columns, in half a byte and a scale for each 32, and
    two biases of 16 bits of so many (mxfp4_round_up_hidden_size_and_intermediate_size).
    """
    ranks = replace(Parallelism(tensor_parallel_size=size), compute_capability=BLACKWELL)
    expert = narrower * (3 * 3072 * 17 // 32 + 2 * 2)

    assert changes(GPT_OSS, ranks, "0.26.0", "0.27.0", "0.27.1", "0.28.0") == [-24 * 32 * expert, 0, 0]
