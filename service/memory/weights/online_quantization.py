"""Quantization that the engine does itself while it loads an unquantized checkpoint."""

from dataclasses import replace
from typing import Final

from service.architecture.model import ModelArchitecture
from service.architecture.quantization import Quantization
from service.architecture.weight_schemes import (
    BITSANDBYTES_4BIT,
    Granularity,
    SchemeGroup,
    WeightFormat,
    WeightScheme,
)

ONLINE: Final = {
    "fp8": WeightScheme(WeightFormat.FP8, Granularity.TENSOR),
    "fp8_per_tensor": WeightScheme(WeightFormat.FP8, Granularity.TENSOR),
    "fp8_per_block": WeightScheme(WeightFormat.FP8, Granularity.BLOCK, block=(128, 128)),
    "bitsandbytes": BITSANDBYTES_4BIT,
}
"""By the flag's value. Source: vLLM 0.24.0, quantization.online.fp8; bitsandbytes_loader.py quantize_4bit."""


def quantized_online(architecture: ModelArchitecture, method: str | None) -> ModelArchitecture:
    """Return the architecture as it is stored after loading.

    A quantized checkpoint stays as it is, and so does one under a method that is not known here.
    """
    scheme = ONLINE.get(method or "")
    if scheme is None or architecture.quantization is not None:
        return architecture
    stored = Quantization(scheme.format.value, schemes=(SchemeGroup(scheme),))
    return replace(architecture, quantization=stored)
