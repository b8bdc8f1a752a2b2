"""Weights in 8-bit floats beside activations of 16 bits, which Marlin alone runs in some releases."""

from functools import lru_cache
from itertools import chain
from typing import Final

from packaging.version import Version

from service.architecture.long_lists import LONG_LISTS
from service.architecture.model import ModelArchitecture
from service.architecture.weight_schemes import WeightFormat
from service.engines.refusal import EngineRefusal, Stage
from service.engines.releases import rules_for
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.parameters import layer_modules_of, module_bytes_of
from service.memory.weights.modules import Linear

NO_KERNEL: Final = (
    "Failed to find a kernel that can implement the ScaledMM linear layer. Reasons: \n"
    "MarlinFP8ScaledMMLinearKernel To apply FP8 Marlin on high-capability GPUs, please set "
    "VLLM_TEST_FORCE_FP8_MARLIN=1."
)
FP8_CAPABILITY: Final = (8, 9)
"""The first with kernels for activations in 8 bits; weights alone are then left to Marlin if it is forced."""


def check_fp8_kernel(
    architecture: ModelArchitecture, deployment: Parallelism, release: Version, *, forced: bool
) -> None:
    """Refuse linear layers in fp8 with wide activations on GPUs on which the release does not take Marlin.

    ``forced``: a variable makes it take Marlin.

    Source: vLLM 0.20.0 to 0.24.0, MarlinFP8ScaledMMLinearKernel.is_supported.

    Raises:
        EngineRefusal: stage ``model``.
    """
    quantization = architecture.quantization
    if quantization is None or quantization.method != "compressed-tensors" or forced:
        return
    if deployment.compute_capability < FP8_CAPABILITY or not rules_for(release).layouts.fp8_needs_activations:
        return
    layer = _weight_only_layer(architecture, deployment, release)
    if layer is not None:
        raise EngineRefusal(Stage.MODEL, NO_KERNEL, detail=f"The layer is {layer}.")


@LONG_LISTS.emptied
@lru_cache(maxsize=256)
def _weight_only_layer(
    architecture: ModelArchitecture, deployment: Parallelism, release: Version
) -> str | None:
    sizes = module_bytes_of(architecture, deployment, release)
    for module in chain.from_iterable(layer_modules_of(architecture, deployment, release)):
        scheme = sizes.scheme_of(module) if isinstance(module, Linear) else None
        if scheme is not None and scheme.format is WeightFormat.FP8 and scheme.weight_only:
            return module.name if isinstance(module, Linear) else None
    return None
