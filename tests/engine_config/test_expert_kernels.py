"""Kernels of routed experts that a flag or a variable names, against the conditions in vLLM's sources."""

import pytest

from service.advisor.candidates.verdict import Verdict
from service.advisor.dry_runs.dry_run import dry_run, dry_start
from service.advisor.request.plan_request import Model, PlanRequest
from service.engine_config.environment import FLASHINFER
from service.engine_config.expert_kernels import MEGA_MOE
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import find_release, rules_for
from service.gpus.catalog import find_gpu
from tests.accuracy.oracle import bundled_architecture

V4 = "deepseek-ai/DeepSeek-V4-Flash"
BLOCKS = "deepseek-ai/DeepSeek-V3.2"
"""Experts in 8-bit floats with a scale per block."""
UNQUANTIZED = "Qwen/Qwen3-30B-A3B-Instruct-2507"
DENSE = "meta-llama/Llama-3.1-8B"


def kernel(model: str, release: str, gpu: str, **flags: object) -> str | None:
    serve = ServeFlags(**flags)  # type: ignore[arg-type]
    start = dry_start(bundled_architecture(model), serve, rules_for(find_release(release)), find_gpu(gpu))
    return start.engine_config.expert_kernel


@pytest.mark.parametrize(
    ("model", "release", "flags", "expected"),
    [
        (BLOCKS, "0.22.0", {"moe_backend": "Flashinfer-Cutlass"}, "flashinfer_cutlass"),
        (BLOCKS, "0.22.0", {"moe_backend": "auto"}, None),
        (DENSE, "0.22.0", {"moe_backend": "triton"}, None),
        (BLOCKS, "0.19.0", {"environment": (("VLLM_USE_FLASHINFER_MOE_FP8", "1"),)}, FLASHINFER),
        (BLOCKS, "0.27.0", {"environment": (("VLLM_USE_FLASHINFER_MOE_FP8", "1"),)}, None),
        (BLOCKS, "0.19.0", {"environment": (("VLLM_USE_DEEP_GEMM", "1"),)}, "deep_gemm"),
        (BLOCKS, "0.19.0", {"environment": (("VLLM_USE_DEEP_GEMM", "0"),)}, None),
        (UNQUANTIZED, "0.19.0", {"environment": (("VLLM_USE_DEEP_GEMM", "1"),)}, None),
    ],
)
def test_the_flag_comes_before_the_variables_of_8_bit_floats(
    model: str, release: str, flags: dict[str, object], expected: str | None
) -> None:
    """vLLM 0.19.0 and 0.22.0, fused_moe/oracle/fp8.py; 0.24.0 no longer reads FlashInfer's variable."""
    assert kernel(model, release, "h200-sxm-141gb", tensor_parallel_size=8, **flags) == expected


@pytest.mark.parametrize(
    ("gpu", "parallel", "words"),
    [
        ("b200-180gb", False, "DeepSeek V4 MegaMoE currently requires expert parallel."),
        ("h200-sxm-141gb", True, "DeepGEMM MegaMoE requires SM100 GPUs."),
    ],
)
def test_the_joined_kernel_needs_expert_parallelism_and_data_center_blackwell(
    gpu: str, parallel: bool, words: str
) -> None:
    with pytest.raises(EngineRefusal, match=words) as refusal:
        kernel(
            V4,
            "0.27.0",
            gpu,
            moe_backend=MEGA_MOE,
            kv_cache_dtype="fp8",
            tensor_parallel_size=4,
            enable_expert_parallel=parallel,
        )
    assert refusal.value.type == "NotImplementedError"


@pytest.mark.parametrize(
    ("model", "release", "gpu", "named", "doubted"),
    [
        (BLOCKS, "0.22.0", "h200-sxm-141gb", "triton", False),
        (BLOCKS, "0.22.0", "h200-sxm-141gb", "marlin", False),
        # FlashInfer's kernel of TensorRT-LLM runs on capability 10 alone.
        (BLOCKS, "0.22.0", "h200-sxm-141gb", "flashinfer_trtllm", True),
        # Its CUTLASS kernel runs blocks on 9.0 alone.
        (BLOCKS, "0.22.0", "h200-sxm-141gb", "flashinfer_cutlass", False),
        (BLOCKS, "0.22.0", "b200-180gb", "flashinfer_cutlass", True),
        # DeepGEMM runs nothing but blocks.
        (UNQUANTIZED, "0.22.0", "h200-sxm-141gb", "deep_gemm", True),
        (V4, "0.27.0", "b200-180gb", "deep_gemm_mega_moe", False),
        # A word of a build between releases.
        (V4, "0.27.0", "b200-180gb", "deep_gemm_amxf4_mega_moe", True),
    ],
)
def test_a_kernel_that_may_not_run_the_weights_leaves_a_doubt(
    model: str, release: str, gpu: str, named: str, doubted: bool
) -> None:
    flags = ServeFlags(
        tensor_parallel_size=8,
        enable_expert_parallel=True,
        moe_backend=named,
        max_model_len=4096,
        kv_cache_dtype="fp8" if model == V4 else "auto",
    )
    request = PlanRequest(Model(model, None, "bundled", bundled_architecture(model)), (find_gpu(gpu),))

    found = dry_run(request, flags, rules_for(find_release(release)), request.gpus[0])

    assert any(named in doubt for doubt in found.doubts) is doubted
    assert (found.verdict is Verdict.UNCERTAIN) is doubted
