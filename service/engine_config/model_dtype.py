"""The type that the model runs in."""

from typing import Final

from service.architecture.model import ModelArchitecture
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.dtypes import DtypeRules
from service.gpus.capability import ComputeCapability
from service.gpus.gpu_type import GpuType

ALIASES: Final = {"half": "float16", "float": "float32"}
BFLOAT16_SINCE: Final = ComputeCapability(8, 0)


def resolve_model_dtype(
    architecture: ModelArchitecture, requested: str, gpu: GpuType, rules: DtypeRules
) -> str:
    """Return the requested type, or the config's where GPU and model support it.

    Source: vLLM 0.32.0, config/model.py _get_and_verify_dtype and _resolve_auto_dtype; platforms/cuda.py
    supported_dtypes.

    Raises:
        EngineRefusal: the model is not stable in float16, stage ``config``.
    """
    unstable = architecture.model_type in rules.unstable_in_float16
    if requested == "auto":
        borne = [
            dtype
            for dtype in ("bfloat16", "float16", "float32")
            if not (dtype == "bfloat16" and _lacks_bfloat16(gpu)) and not (dtype == "float16" and unstable)
        ]
        return architecture.dtype if architecture.dtype in borne else borne[0]
    dtype = ALIASES.get(requested, requested)
    if dtype == "float16" and unstable:
        raise EngineRefusal(
            Stage.CONFIG,
            f"ModelConfig: The model type {architecture.model_type!r} does not support float16. Reason: "
            "Numerical instability. Please use bfloat16 or float32 instead.",
            type="ValidationError",
        )
    return dtype


def check_supported(dtype: str, gpu: GpuType) -> None:
    """Refuse a type that the GPU does not know, as a worker does when it starts.

    Source: vLLM 0.32.0, CudaPlatformBase.check_if_supports_dtype.

    Raises:
        EngineRefusal: stage ``dtype``.
    """
    if dtype == "bfloat16" and _lacks_bfloat16(gpu):
        raise EngineRefusal(
            Stage.DTYPE,
            "Bfloat16 is only supported on GPUs with compute capability of at least 8.0. "
            f"Your {gpu.name} GPU has compute capability {gpu.compute_capability}. "
            "You can use float16 instead by explicitly setting the `dtype` flag in CLI, for example: "
            "--dtype=half.",
            device=gpu.name,
        )


def _lacks_bfloat16(gpu: GpuType) -> bool:
    return gpu.compute_capability is not None and gpu.compute_capability < BFLOAT16_SINCE
