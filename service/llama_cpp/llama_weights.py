"""The bytes of a model's weights on each device, by the name of a quantization."""

from collections.abc import Mapping
from functools import cache
from typing import Final

from service.bundled_toml import read_toml
from service.engine_plans.engine_question import ModelElements
from service.llama_cpp.device_layout import DeviceLayout
from service.memory.budget_types import Basis, Estimate
from service.memory.interval import around

DEFAULT_QUANTIZATION: Final = "Q4_K_M"
"""What `-hf repository` downloads where no quantization is named (llama.cpp 0c1e57098, common/arg.cpp)."""
EXACT: Final = frozenset({"F32", "F16", "BF16"})
SPREAD: Final = 0.05
"""Part by which a mix of types may differ from that of the model it was measured on; assumed."""
SOURCE: Final = "elements x bits per weight; llama.cpp 0c1e57098, tools/quantize/README.md"


@cache
def bits_by_quantization() -> Mapping[str, float]:
    """Return the bits of a weight by the name of a quantization."""
    return read_toml("service.llama_cpp", "quantizations.toml")


def device_weights(elements: ModelElements, layout: DeviceLayout, quantization: str) -> tuple[Estimate, ...]:
    """Return the weights of each device: its layers, and the output matrix on the last one.

    The embedding stays in the host's memory, whatever `-ngl` is.
    """
    bits, spread = bits_by_quantization()[quantization], 0.0 if quantization in EXACT else SPREAD

    def of(device: int) -> Estimate:
        count = sum(elements.layers[index] for index in layout.layers_on(device))
        size = (count + (elements.ends if layout.output == device else 0)) * bits / 8
        return around(size, size * (1 - spread), size * (1 + spread), Basis.COMPUTED, SOURCE)

    return tuple(of(device) for device in range(layout.devices))
