"""What the published builds of a release cannot run on a GPU, though its code would."""

from typing import Final

from service.architecture.model import ModelArchitecture
from service.architecture.quantization import Quantization
from service.architecture.weight_schemes import Granularity, WeightFormat
from service.engine_config.engine_config import EngineConfig
from service.gpus.capability import ComputeCapability

BUILD_OF_ONES_OWN: Final = (
    "It can start in a build that you compile for them, and the figures are of such a build."
)
LEAST_DOCUMENTED: Final = ComputeCapability(7, 0)
"""Source: vLLM docs v0.10.2, getting_started/installation/gpu: compute capability 7.0 or higher."""
NOT_DOCUMENTED: Final = (
    "vLLM's documentation asks for 7.0 or more, and so do the Triton kernels that it builds while it runs: "
    "no build is known to start here."
)
DEEP_GEMM_BLOCK: Final = (128, 128)
"""Rows and columns per scale that DeepGEMM's kernels read (``get_mk_alignment_for_contiguous_layout``)."""


def unbuilt(architecture: ModelArchitecture, engine_config: EngineConfig) -> tuple[str, ...]:
    """Say what a published build fails on; empty where it runs.

    Args:
        architecture: the model.
        engine_config: the start, on a GPU of a known compute capability.
    """
    return (*_no_kernels(engine_config), *_no_deep_gemm(architecture, engine_config))


def _no_kernels(engine_config: EngineConfig) -> tuple[str, ...]:
    rules, capability = engine_config.rules.kernels, engine_config.compute_capability
    least = ComputeCapability.parse(rules.least_built_capability)
    if capability >= least and str(capability) not in rules.unbuilt_capabilities:
        return ()
    words = (
        f"The published builds of vLLM {engine_config.release} hold no kernels for compute capability "
        f"{capability} (CUDA error: no kernel image is available for execution on the "
        "device). "
    ) + (BUILD_OF_ONES_OWN if capability >= LEAST_DOCUMENTED else NOT_DOCUMENTED)
    return (words,)


def _no_deep_gemm(architecture: ModelArchitecture, engine_config: EngineConfig) -> tuple[str, ...]:
    """Say that the release chooses DeepGEMM where the DeepGEMM it is built with has no kernels.

    Source: vLLM 0.24.0 and 0.27.1, CudaPlatform.support_deep_gemm and
    DeepGemmFp8BlockScaledMMKernel.can_implement, which asks for bfloat16 and blocks of 128 by 128.
    """
    rules, capability = engine_config.rules, engine_config.compute_capability
    selected = (
        str(capability.major) in rules.kernels.deep_gemm_unbuilt_majors
        and engine_config.dtype == "bfloat16"
        and architecture.model_type not in rules.kernels.deep_gemm_excluded_types
        and stores_fp8_blocks(architecture.quantization)
    )
    if not selected:
        return ()
    words = (
        f"vLLM {engine_config.release} chooses DeepGEMM for weights in blocks of fp8 on compute capability "
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
    schemes = (group.scheme for group in quantization.schemes if group.scheme is not None)
    return any(
        scheme.format is WeightFormat.FP8
        and scheme.granularity is Granularity.BLOCK
        and scheme.block == DEEP_GEMM_BLOCK
        and not scheme.weight_only
        for scheme in schemes
    )
