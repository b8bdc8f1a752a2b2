"""Online quantization: the engine quantizes an unquantized checkpoint while it loads it."""

from dataclasses import replace
from typing import Final

from service.architecture.model import ModelArchitecture
from service.architecture.quantization import Quantization
from service.architecture.weight_schemes import (
    BITSANDBYTES_4BIT,
    MXFP4_GROUP,
    MXFP8_SCHEME,
    NVFP4_GROUP,
    Granularity,
    SchemeGroup,
    WeightFormat,
    WeightScheme,
)

ONLINE: Final = {
    "fp8": WeightScheme(WeightFormat.FP8, Granularity.TENSOR),
    "fp8_per_tensor": WeightScheme(WeightFormat.FP8, Granularity.TENSOR),
    "fp8_per_block": WeightScheme(WeightFormat.FP8, Granularity.BLOCK, block=(128, 128)),
    "fp8_per_channel": WeightScheme(WeightFormat.FP8, Granularity.CHANNEL),
    "mxfp8": MXFP8_SCHEME,
    "mxfp4": WeightScheme(
        WeightFormat.MX, Granularity.GROUP, bits=4, group_size=MXFP4_GROUP, rounded_experts=True
    ),
    "bitsandbytes": BITSANDBYTES_4BIT,
}
"""By the flag's value. Source: vLLM 0.24.0, quantization.online; bitsandbytes_loader.py quantize_4bit;
0.28.0, online/mxfp4.py."""
EXPERTS_ONLINE: Final = {
    "experts_int8": WeightScheme(WeightFormat.INT8, Granularity.CHANNEL),
    "int8_per_channel_weight_only": WeightScheme(WeightFormat.INT8, Granularity.CHANNEL),
    "nvfp4_per_token": WeightScheme(WeightFormat.NVFP4, Granularity.GROUP, bits=4, group_size=NVFP4_GROUP),
}
"""Methods that quantize only routed experts. Source: vLLM 0.27.1, config/quantization.py."""
EXPERTS: Final = ("*.experts",)


def quantized_online(architecture: ModelArchitecture, method: str | None) -> ModelArchitecture:
    """Return the architecture with the quantization that its weights have after loading.

    Quantized checkpoints do not change. Nor do weights under a ``method`` that is not listed here.
    """
    method = method or ""
    scheme = EXPERTS_ONLINE.get(method) or ONLINE.get(method)
    if scheme is None or architecture.quantization is not None:
        return architecture
    group = SchemeGroup(scheme, EXPERTS if method in EXPERTS_ONLINE else ())
    return replace(architecture, quantization=Quantization(scheme.format.value, schemes=(group,)))
