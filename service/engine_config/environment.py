"""Environment variables that change what the engine does before it looks at memory."""

from typing import Final

from packaging.version import Version

from service.engines.arguments.arguments import variables_of
from service.engines.flags import ServeFlags

ATTENTION_BACKEND: Final = "VLLM_ATTENTION_BACKEND"
ALLOW_LONG: Final = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"
ESTIMATE_GRAPHS: Final = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"
MODEL_RUNNER: Final = "VLLM_USE_V2_MODEL_RUNNER"
USE_DEEP_GEMM: Final = ("VLLM_USE_DEEP_GEMM", "VLLM_MOE_USE_DEEP_GEMM")
USE_FLASHINFER_FP8: Final = "VLLM_USE_FLASHINFER_MOE_FP8"
FLASHINFER: Final = "flashinfer"
"""Kernels of FlashInfer, of which the engine takes the first that runs."""
FORCE_FP8_MARLIN: Final = "VLLM_TEST_FORCE_FP8_MARLIN"
FORCE_MXFP4_MARLIN: Final = "VLLM_MXFP4_USE_MARLIN"
ALLOCATOR: Final = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
EXPANDS: Final = "expandable_segments:true"
TRUE: Final = frozenset({"1", "true"})


def requested_backend(flags: ServeFlags, release: Version) -> str | None:
    """Return the attention backend that is asked for; the variable comes before the flag.

    Source: vLLM 0.13.0, AttentionConfig._set_from_env_if_set; before, there is only the variable.
    """
    return _value(flags, ATTENTION_BACKEND, release) or flags.attention_backend


def allows_long_context(flags: ServeFlags, release: Version) -> bool:
    """Whether a context may be longer than the config says (vLLM 0.10.2 to 0.33.0, envs.py)."""
    return (_value(flags, ALLOW_LONG, release) or "").strip().lower() in TRUE


def estimates_graphs(flags: ServeFlags, release: Version) -> bool | None:
    """Whether the V1 model runner counts CUDA graphs in advance; ``None`` leaves it to the release."""
    value = _value(flags, ESTIMATE_GRAPHS, release)
    return None if value is None else value.strip().lower() in TRUE


def expands_segments(flags: ServeFlags) -> bool:
    """Whether PyTorch's allocator maps memory into segments that grow, and not segment by segment.

    Source: PyTorch 2.8 to 2.13, c10/cuda/CUDAAllocatorConfig.cpp; the engine does not read these variables.
    """
    given = dict(flags.environment)
    return any(EXPANDS in given.get(name, "").lower().replace(" ", "").split(",") for name in ALLOCATOR)


def names_model_runner(flags: ServeFlags, release: Version) -> bool | None:
    """Whether the V2 model runner is asked for; ``None`` leaves it to the release (vLLM 0.28.0, envs.py)."""
    value = _value(flags, MODEL_RUNNER, release)
    return None if value is None else value.strip().lower() in TRUE


def named_fp8_experts(flags: ServeFlags, release: Version) -> str | None:
    """Return the kernel that variables name for experts in 8-bit floats; FlashInfer's comes first.

    Source: vLLM 0.15.1 to 0.22.0, fused_moe/oracle/fp8.py select_fp8_moe_backend; since 0.24.0 only DeepGEMM.
    """
    if (_value(flags, USE_FLASHINFER_FP8, release) or "").strip().lower() in TRUE:
        return FLASHINFER
    given = [value for name in USE_DEEP_GEMM if (value := _value(flags, name, release)) is not None]
    return "deep_gemm" if given and all(value.strip().lower() in TRUE for value in given) else None


def forces_fp8_marlin(flags: ServeFlags, release: Version) -> bool:
    """Whether Marlin runs weights in fp8 on GPUs that compute in fp8 (vLLM 0.10.2 to 0.28.0, envs.py)."""
    return (_value(flags, FORCE_FP8_MARLIN, release) or "").strip().lower() in TRUE


def forces_mxfp4_marlin(flags: ServeFlags, release: Version) -> bool:
    """Whether Marlin runs experts in MXFP4 (vLLM 0.22.0 and 0.23.0, fused_moe/oracle/mxfp4.py)."""
    return (_value(flags, FORCE_MXFP4_MARLIN, release) or "").strip().lower() in TRUE


def _value(flags: ServeFlags, name: str, release: Version) -> str | None:
    """Return a variable's value where the release reads it."""
    value = dict(flags.environment).get(name)
    return value if value is not None and name in variables_of(release) else None
