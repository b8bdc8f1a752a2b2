"""What the published builds of a release cannot run on a GPU, though its code would."""

from typing import Final

from service.architecture.model import ModelArchitecture
from service.architecture.quantization import Quantization
from service.architecture.weight_schemes import Granularity, WeightFormat
from service.launch.serving import Serving

DEEP_GEMM_BLOCK: Final = (128, 128)
"""Rows and columns per scale that DeepGEMM's kernels read (``get_mk_alignment_for_contiguous_layout``)."""


def unbuilt(architecture: ModelArchitecture, serving: Serving) -> tuple[str, ...]:
    """Say what a published build fails on; empty where it runs.

    Args:
        architecture: the model.
        serving: the start, on a GPU of a known compute capability.
    """
    return (*_no_kernels(serving), *_no_deep_gemm(architecture, serving))


def _no_kernels(serving: Serving) -> tuple[str, ...]:
    if str(serving.compute_capability) not in serving.rules.unbuilt_capabilities:
        return ()
    words = (
        f"The published builds of vLLM {serving.release} hold no kernels for compute capability "
        f"{serving.compute_capability} (CUDA error: no kernel image is available for execution on the "
        "device): this holds for a build of one's own."
    )
    return (words,)


def _no_deep_gemm(architecture: ModelArchitecture, serving: Serving) -> tuple[str, ...]:
    """Say that the release picks DeepGEMM where the DeepGEMM it is built with has no kernels.

    Source: vLLM 0.24.0 and 0.27.1, CudaPlatform.support_deep_gemm and
    DeepGemmFp8BlockScaledMMKernel.can_implement, which asks for bfloat16 and blocks of 128 by 128.
    """
    rules, capability = serving.rules, serving.compute_capability
    picked = (
        str(capability.major) in rules.deep_gemm_unbuilt_majors
        and serving.dtype == "bfloat16"
        and architecture.model_type not in rules.deep_gemm_excluded_types
        and stores_fp8_blocks(architecture.quantization)
    )
    if not picked:
        return ()
    words = (
        f"vLLM {serving.release} picks DeepGEMM for weights in blocks of fp8 on compute capability "
        f"{capability}, and the DeepGEMM of its published builds has no kernels for it: the engine fails "
        "when it loads the weights or warms up (RuntimeError: Assertion error: Unknown SF transformation, "
        "or Unknown recipe). Set VLLM_USE_DEEP_GEMM=0 in the environment: it then takes other kernels, "
        "and the figures hold."
    )
    return (words,)


def stores_fp8_blocks(quantization: Quantization | None) -> bool:
    """Whether a checkpoint stores weights in fp8 with a scale for each block of 128 by 128."""
    if quantization is None:
        return False
    if quantization.method == "fp8" and quantization.block_shape == DEEP_GEMM_BLOCK:
        return True
    schemes = (group.scheme for group in quantization.schemes)
    return any(
        scheme.format is WeightFormat.FP8
        and scheme.granularity is Granularity.BLOCK
        and scheme.block == DEEP_GEMM_BLOCK
        and not scheme.weight_only
        for scheme in schemes
    )
