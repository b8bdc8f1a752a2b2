"""What layers with compressed attention take in the profile run, by hand and by logs.

DeepSeek-V4-Flash has four streams of 4,096 elements, 64 heads of 512, low ranks of 1,024 and 512, and
indexers of 64 heads of 128. On each of two ranks a token has, in elements of 16 bits:

- 2 x 4 streams, a layer's input and its caller's: 10 x 4,096 = 40,960
- the output of 64 heads, which the kernel takes where a rank has 32: 32,768
- queries and keys of low rank, before and after their norm: 2 x 1,536 = 3,072
- 2 x 2 x (512 + 128) numbers of 32 bits by which tokens are compressed: 5,120
- queries of 32 heads, and their copy of 64: 49,152

which are 131,072, or 256 KiB. Experts work in a pool of 2 x 6 rows of 4,096: 96 KiB.
"""

from dataclasses import replace

import pytest
from packaging.version import Version

from service.memory.activation import activation
from service.memory.compressed_spaces import compressed_peak, gathered_bytes, kernel_heads
from service.memory.constants import constants_at
from service.memory.profile_run import ProfileRun
from service.memory.shards import Shards
from service.units import GIB, MIB
from tests.memory.recorded import bundled

KIB = 1024
V4 = bundled("deepseek-ai/DeepSeek-V4-Flash")
COMMON = 40_960 + 32_768 + 3_072 + 5_120
RUN = ProfileRun(
    shards=Shards(tensor_parallel_size=2),
    element_bytes=2,
    tokens=8192,
    sequences=256,
    samples=True,
    encodes=False,
    v2_model_runner=False,
    compiles_embedding=False,
    draft_tokens=False,
    max_model_len=4096,
)


def layers(release: str, run: ProfileRun = RUN) -> int:
    return compressed_peak(V4, constants_at(Version(release)).activation.compressed, run)


def test_a_layer_holds_streams_and_padded_queries() -> None:
    assert layers("0.23.0") == 8192 * 256 * KIB


def test_before_0_22_queries_are_not_padded_and_a_layer_has_the_caller_s_streams() -> None:
    assert layers("0.20.2", replace(RUN, tokens=65_536)) == 65_536 * 2 * (COMMON - 4 * 4096 + 16_384)


def test_a_rank_with_as_many_heads_as_the_kernel_copies_none() -> None:
    alone = replace(RUN, shards=Shards(), tokens=65_536)
    assert layers("0.23.0", alone) == 65_536 * 2 * (COMMON + 32_768)
    assert [kernel_heads(heads) for heads in (8, 64, 65, 128)] == [64, 64, 128, 128]


def test_few_tokens_take_less_than_the_room_for_an_indexer_s_scores() -> None:
    """512 MiB, with the indexer's queries in 8 bits; since 0.29.0 the queries of attention are there too."""
    few = replace(RUN, tokens=1024)
    assert layers("0.23.0", few) == 1024 * (2 * COMMON + 64 * 128) + 512 * MIB
    assert layers("0.29.0", few) == 1024 * (2 * (COMMON + 32_768) + 64 * 128) + 512 * MIB


def test_keys_are_gathered_for_four_prompts_and_by_indexers_for_forty() -> None:
    """Of 262,144 tokens 65,536 groups, a window and a batch; of 1,048,576 as many keys of 132 bytes."""
    long, longest = replace(RUN, max_model_len=262_144), replace(RUN, max_model_len=1_048_576, tokens=4096)
    assert gathered_bytes(V4, 2, long) == 4 * (65_536 + 128 + 8192) * 512 * 2
    assert gathered_bytes(V4, 40, longest) == 40 * 262_144 * 132


@pytest.mark.parametrize("length", [4096, 262_144])
def test_starts_of_twice_as_many_tokens_differ_as_logs_do(length: int) -> None:
    """0.23.0 on two H200 NVL leaves 32.08 GiB with either length, and 29.07 with 16,384 tokens a batch.

    The weights of the last have 0.27 GiB more, for a buffer of the batch.
    """
    constants = constants_at(Version("0.23.0"))
    runs = (replace(RUN, tokens=tokens, max_model_len=length) for tokens in (8192, 16_384))
    small, large = (activation(V4, constants.activation, constants.encoders, run) for run in runs)
    assert small.bytes == 8192 * 352 * KIB + 128 * MIB
    assert (large.bytes - small.bytes) / GIB == pytest.approx(32.08 - 29.07 - 0.27, abs=0.02)
