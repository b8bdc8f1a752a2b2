"""The automatic `--mem-fraction-static`, worked out by hand from what each release reads of the GPU.

0.5.9's own words: 512 MiB, 1.5 MiB for each token of a chunk, 2 MiB for each request of the largest
graph, 1,024 MiB / 8 for each rank; at least 10 GiB on GPUs of more than 60 GiB. 0.4.9 to 0.5.2 have
one figure for each size of GPU.
"""

import pytest

from service.memory.budget_types import Basis
from service.sglang.memory_fraction import automatic_fraction
from service.sglang.releases import RELEASES
from service.sglang.server_args import SglangArgs
from tests.accuracy.oracle import bundled_architecture

QWEN3_8B = bundled_architecture("Qwen/Qwen3-8B")
DEEPSEEK_LITE = bundled_architecture("deepseek-ai/DeepSeek-V2-Lite")
L4, L40S, H100, H200, B200 = 23034, 46068, 81559, 143771, 183359
"""MiB that nvidia-smi prints."""


@pytest.mark.parametrize(
    ("release", "gpu_mib", "ranks", "reserve"),
    [
        ("0.4.9", L4, 1, 2867.2 + 102.4),
        ("0.5.2", L4, 4, 2867.2 + 4 * 102.4),
        ("0.5.1", L40S, 1, 9728 + 512),
        ("0.5.2", H100, 2, 9728 + 2 * 512),
        ("0.5.2", H200, 1, 12288 + 512),
        ("0.4.10", B200, 8, 32768),
        ("0.5.3", L4, 1, 512 + 3072 + 2 * 16 + 128),
        ("0.5.9", L4, 1, 512 + 3072 + 2 * 24 + 128),
        ("0.5.9", L4, 4, 512 + 3072 + 2 * 80 + 512),
        ("0.5.9", L40S, 1, 512 + 6144 + 2 * 32 + 128),
        ("0.5.9", H100, 1, 512 + 12288 + 2 * 256 + 128),
        ("0.5.9", B200, 8, 512 + 24576 + 2 * 512 + 1024),
    ],
)
def test_the_fraction_of_a_release(release: str, gpu_mib: int, ranks: int, reserve: float) -> None:
    fraction = automatic_fraction(QWEN3_8B, gpu_mib, SglangArgs(tp_size=ranks), RELEASES.named(release)[1])
    expected = pytest.approx((gpu_mib - reserve) / gpu_mib, abs=0.0005)
    assert fraction.low == fraction.middle == fraction.high
    assert fraction.middle == expected
    assert fraction.basis is Basis.COMPUTED


@pytest.mark.parametrize(
    ("release", "reserve", "sizes"),
    [
        ("0.5.10", 512 + 3072 + 2 * 24 + 128, 42),
        ("0.5.18", 512 + 3072 + 48 + 128, 42),
        ("0.5.20", 512 + 6144 + 96 + 128, 50),
    ],
)
def test_graphs_of_prefill_take_8_mib_a_size_since_0_5_10(release: str, reserve: int, sizes: int) -> None:
    """An L4: chunks of 2,048 tokens and 24 requests to 0.5.18, of 4,096 and 48 since 0.5.20.

    8 sizes up to 32 tokens, 14 to 256, 8 to 512, 8 to 1,024, 4 to 2,048 and 8 to 4,096.
    """
    fraction = automatic_fraction(QWEN3_8B, L4, SglangArgs(), RELEASES.named(release)[1])
    assert fraction.high == pytest.approx((L4 - reserve) / L4, abs=0.0005)
    assert fraction.middle == fraction.low == pytest.approx((L4 - reserve - 8 * sizes) / L4, abs=0.0005)


def test_the_fraction_that_an_issue_names() -> None:
    """SGLang issue 29092 of June 2026: 0.828 for Qwen3-32B on H100s; 58 sizes up to 8,192 tokens."""
    model = bundled_architecture("Qwen/Qwen3-32B")
    fraction = automatic_fraction(model, H100, SglangArgs(tp_size=2), RELEASES.named("0.5.13")[1])
    assert fraction.middle == 0.828


@pytest.mark.parametrize(("release", "graphs"), [("0.5.9", 0), ("0.5.10", 1536), ("0.5.23", 1536)])
def test_graphs_of_prefill_take_1_5_gib_of_latent_attention_since_0_5_10(release: str, graphs: int) -> None:
    """On an H100: 512 + 1.5 x 8,192 + 2 x 256 + 128 MiB, and whatever sizes the graphs have."""
    fraction = automatic_fraction(DEEPSEEK_LITE, H100, SglangArgs(), RELEASES.named(release)[1])
    reserve = 512 + 12288 + 512 + 128
    assert fraction.high == pytest.approx((H100 - reserve) / H100, abs=0.0005)
    assert fraction.middle == fraction.low == pytest.approx((H100 - reserve - graphs) / H100, abs=0.0005)


def test_without_chunks_the_reserve_is_that_of_the_longest_prefill() -> None:
    """An H100: 1.5 x 16,384 tokens of `--max-prefill-tokens`, and no size of graphs."""
    args = SglangArgs(chunked_prefill_size=-1)
    fraction = automatic_fraction(QWEN3_8B, H100, args, RELEASES.named("0.5.10")[1])
    reserve = 512 + 24576 + 512 + 128
    assert fraction.low == fraction.high == pytest.approx((H100 - reserve) / H100, abs=0.0005)


def test_graphs_of_prefill_have_no_more_tokens_than_the_pool() -> None:
    """`--max-total-tokens 100` on an L4: 8 sizes up to 32 tokens, and 48, 64, 80 and 96."""
    args = SglangArgs(max_total_tokens=100)
    fraction = automatic_fraction(QWEN3_8B, L4, args, RELEASES.named("0.5.10")[1])
    assert fraction.low == pytest.approx((L4 - 512 - 3072 - 48 - 128 - 8 * 12) / L4, abs=0.0005)


def test_a_small_chunk_leaves_ten_gib_of_a_large_gpu_since_0_5_3() -> None:
    """512 + 1.5 x 2,048 + 2 x 8 + 128 is 3,728 MiB."""
    args = SglangArgs(chunked_prefill_size=2048, cuda_graph_max_bs=8)
    fraction = automatic_fraction(QWEN3_8B, H100, args, RELEASES.named("0.5.3")[1])
    assert fraction.middle == pytest.approx((H100 - 10240) / H100, abs=0.0005)


def test_images_leave_a_tenth_to_encoders_in_0_4_9() -> None:
    model = bundled_architecture("google/gemma-3-27b-it")
    fraction = automatic_fraction(model, H100, SglangArgs(), RELEASES.named("0.4.9")[1])
    share = round((H100 - 9728 - 512) / H100, 3)
    assert fraction.middle == pytest.approx(share * 0.9)
    assert fraction.low == pytest.approx(share * 0.76)
