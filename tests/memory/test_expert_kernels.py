"""Memory that the kernel of routed experts takes, by hand from the layouts in its sources."""

from dataclasses import replace

import pytest
from packaging.version import Version

from service.architecture.model import ModelArchitecture
from service.memory.activation import activation
from service.memory.constants import constants_at
from service.memory.expert_spaces import (
    has_two_work_spaces,
    keeps_work_space,
    kernel_work_spaces,
    scales_room,
    sorted_copies,
)
from service.memory.mega_moe import symmetric_buffer
from service.memory.profile_run import ProfileRun
from service.memory.shards import Shards
from tests.memory.recorded import altered, bundled

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


GEMMA = bundled("nvidia/Gemma-4-26B-A4B-NVFP4")


@pytest.mark.parametrize(
    ("tokens", "copies"),
    [
        # 8 experts of a token, rows of 2,816 in 16 bits: the rows, the results, and these times their shares.
        (16_384, 3 * 16_384 * 8 * 2816 * 2),
        # Few rows take less than the scales of 163,840 x 8 rows, 44 words each.
        (64, 64 * 8 * (2816 * 2 + 1408) + 163_840 * 8 * 44 * 4),
    ],
)
def test_what_the_kernel_of_cutlass_copies_of_4_bit_experts(tokens: int, copies: int) -> None:
    """vLLM 0.19.0 to 0.33.0, run_cutlass_moe_fp4 and scaled_fp4_experts_quant.

    Two starts on an RTX 5090 leave 2.2 GiB for all but weights and graphs with 8,192 tokens, 4.3 with 16,384.
    """
    run = replace(RUN, shards=Shards(), data_parallel_size=1, expert_kernel="cutlass", tokens=tokens)

    assert sorted_copies(GEMMA, run) == copies
    assert scales_room(GEMMA, run) == 163_840 * 8 * 44 * 4
    assert kernel_work_spaces(GEMMA, run) is None
    for other in (replace(run, expert_kernel=None), replace(run, expert_kernel="flashinfer_cutlass")):
        assert sorted_copies(GEMMA, other) == scales_room(GEMMA, other) == 0
    assert sorted_copies(QWEN, run) == 0


def test_nothing_is_widened_where_the_release_chooses() -> None:
    assert kernel_work_spaces(QWEN, RUN) is None


BLOCKS = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
GIANT = altered("Qwen/Qwen3-235B-A22B", quantization=BLOCKS)
PACKED = {
    "awq": {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"},
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True, "desc_act": False},
}
ALONE = replace(RUN, shards=Shards(), data_parallel_size=1, sequences=1, samples=False)


def peak(model: ModelArchitecture, run: ProfileRun, release: str) -> int:
    constants = constants_at(Version(release))
    found = activation(model, constants.activation, constants.encoders, run)
    return found.bytes - constants.activation.base_mib_v1.bytes[0]


def test_whole_experts_have_two_work_spaces_and_eight_bit_copies() -> None:
    """vLLM 0.20.0, TritonExperts.workspace_shapes and apply, for 65,536 tokens on 4 ranks with whole experts.

    A row of the spaces has max(1,536, 4,096) and max(3,072, 4,096) elements of 16 bits for each of 8
    experts of a token. Alive beside them: the hidden state and the residual, 4,096 elements of 16 bits
    each, and in 8 bits the hidden state and 8 inner products of 1,536.
    """
    run = replace(ALONE, shards=Shards(4, 4), tokens=65_536)

    spaces = 65_536 * 8 * (4096 + 4096) * 2
    alive = 65_536 * (2 * 4096 * 2 + 4096 + 8 * 1536)
    assert peak(GIANT, run, "0.20.0") == spaces + alive
    # On data center Blackwell the kernels of TensorRT-LLM come first.
    assert peak(GIANT, replace(run, blackwell=True), "0.20.0") < spaces


@pytest.mark.parametrize(("release", "rows"), [("0.13.0", 2048 + 768), ("0.14.0", 2048 + 2048)])
def test_unquantized_experts_have_two_work_spaces_since_they_take_them_from_a_pool(
    release: str, rows: int
) -> None:
    """Qwen3-30B-A3B: 8 experts of 768 for a token, 2,048 hidden; queries and outputs of 32 heads of 128, keys
    and values of 4. On 0.19.0 a start logged 0.16 GiB less for the cache than the first formula leaves:
    8,192 x 8 x 1,280 x 2 bytes.
    """
    alive = 2 * 2048 + (32 + 4) * 256
    assert peak(QWEN, ALONE, release) == 8192 * 2 * (alive + 8 * rows)


@pytest.mark.parametrize(
    ("name", "release", "pooled"),
    [
        ("gptq", "0.19.0", False),
        ("gptq", "0.20.0", True),
        ("awq", "0.21.0", False),
        ("awq", "0.22.0", True),
    ],
)
def test_packed_experts_take_work_space_from_the_pool_since_they_are_modular(
    name: str, release: str, pooled: bool
) -> None:
    """Where fused_marlin_moe is called, its work space is freed before the sampler runs."""
    model = altered("Qwen/Qwen3-30B-A3B", quantization=PACKED[name])
    formats = constants_at(Version(release)).activation.two_work_spaces

    assert has_two_work_spaces(model, formats, ALONE) is pooled
    assert keeps_work_space(model, formats) is pooled
