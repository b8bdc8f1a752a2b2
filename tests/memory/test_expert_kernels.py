"""Memory that the kernel of routed experts takes, by hand from the layouts in its sources."""

from dataclasses import replace

import pytest

from service.memory.activation import kernel_work_spaces
from service.memory.mega_moe import symmetric_buffer
from service.memory.profile_run import ProfileRun
from service.memory.weights.modules import Shards
from tests.memory.recorded import bundled

FLASH = bundled("deepseek-ai/DeepSeek-V4-Flash")
QWEN = replace(bundled("Qwen/Qwen3-30B-A3B-Instruct-2507"), quantization=None)
RUN = ProfileRun(
    shards=Shards(1, 8, 8),
    element_bytes=2,
    tokens=8192,
    sequences=256,
    samples=True,
    encodes=False,
    v2_model_runner=False,
    draft_tokens=False,
    max_model_len=8192,
    data_parallel_size=8,
    compiles_embedding=False,
)


def test_the_buffer_of_deepgemms_joined_kernel() -> None:
    """8 ranks of 256 experts, 6 of them for a token; 4,096 hidden, 2,048 inside an expert.

    8,192 tokens are rounded up to 8,448 = 22 x 384. The pool: 8 x 8,448 x 6 rows and 32 x 191 of padding,
    rounded to 411,648; a row has 4,096 + 128 bytes of input, 2,048 + 64 of the inner product, and 16 more.
    Beside it: places (32 x 8 x 8 x 8,448 x 4), inputs (8,448 x (4,096 + 128 + 6 x 12)), and six results a
    token in 16 bits (8,448 x 6 x 4,096 x 2).
    """
    fixed = 69_206_016 + 36_292_608 + 415_236_096
    found = symmetric_buffer(FLASH, replace(RUN, expert_kernel="deep_gemm_mega_moe"))

    assert found is not None
    assert found.bytes == found.high == fixed + 411_648 * 6_352
    assert found.low == fixed
    assert symmetric_buffer(FLASH, RUN) is None


@pytest.mark.parametrize("kernel", ["triton", "marlin", "deep_gemm", "flashinfer_cutlass"])
def test_a_named_kernel_widens_the_peak_by_its_work_spaces(kernel: str) -> None:
    """Triton and Marlin: rows of max(2 x 768, 2,048) and max(768, 2,048) for each of 8 experts of a token,
    which is at most 8,192 x 8 x 4,096 x 2 bytes = 512 MiB in all; DeepGEMM adds at most 127 rows an expert.
    """
    run = replace(RUN, shards=Shards(), data_parallel_size=1, expert_kernel=kernel)

    found = kernel_work_spaces(QWEN, run)

    planned = 8192 * 8 * (2048 + 768) * 2
    most = 8192 * 8 * 4096 * 2
    padding = 0 if kernel in {"triton", "marlin"} else 128 * 127 * 4096 * 2
    assert found is not None
    assert found.bytes == 0
    assert found.high == most + padding - planned
    assert found.low == (0 if kernel in {"triton", "marlin"} else -planned)


def test_nothing_is_widened_where_the_release_chooses() -> None:
    assert kernel_work_spaces(QWEN, RUN) is None
