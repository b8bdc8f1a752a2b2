"""What kernels add to weights in 8-bit floats while they convert them after loading."""

from dataclasses import replace
from functools import lru_cache
from typing import Final

from packaging.version import Version

from service.architecture.long_lists import LONG_LISTS
from service.architecture.model import ModelArchitecture
from service.architecture.weight_schemes import Granularity, WeightFormat, WeightScheme
from service.memory.budget_types import Basis, Estimate
from service.memory.interval import exact
from service.memory.parallelism import Parallelism
from service.memory.ranges import for_capability
from service.memory.weights.counts.parameters import counted_layers, module_bytes_of
from service.memory.weights.modules import Experts, Linear, Module
from service.memory.weights.resident.resident_weights import Fp8Kernel, ResidentConstants
from service.memory.weights.schemes.quantized import experts_bytes, linear_bytes
from service.units import round_up

NOTHING: Final = exact(0, Basis.COMPUTED, "no weights in 8-bit floats")


def converted_fp8(
    architecture: ModelArchitecture,
    deployment: Parallelism,
    release: Version,
    layers: range,
    constants: ResidentConstants,
) -> Estimate:
    """Return the bytes by which a stage's weights in 8-bit floats are larger than they were built.

    GPUs without units for such floats run Marlin, which reads a scale for every row. FlashInfer's kernels ask
    for experts of a certain width.
    """
    kernel = for_capability(constants.fp8_kernels, deployment.compute_capability)
    quantization = architecture.quantization
    schemes = () if quantization is None else (quantization.expert_scheme, *_named(architecture))
    if not any(each is not None and each.format is WeightFormat.FP8 for each in schemes):
        return NOTHING
    added = _added_to_stage(architecture, deployment, release, layers, kernel)
    return exact(added, Basis.COMPUTED, constants.sources["fp8_kernels"])


@LONG_LISTS.emptied
@lru_cache(maxsize=64)
def _added_to_stage(
    architecture: ModelArchitecture,
    deployment: Parallelism,
    release: Version,
    layers: range,
    kernel: Fp8Kernel,
) -> int:
    sizes = module_bytes_of(architecture, deployment, release)
    added = 0
    for modules, count in counted_layers(architecture, deployment, release, layers):
        for module in modules:
            scheme = sizes.scheme_of(module)
            if scheme is not None and scheme.format is WeightFormat.FP8:
                added += count * _added(module, scheme, kernel, sizes.element_bytes)
    return added


def _named(architecture: ModelArchitecture) -> tuple[WeightScheme | None, ...]:
    quantization = architecture.quantization
    return () if quantization is None else tuple(group.scheme for group in quantization.schemes)


def _added(module: Module, scheme: WeightScheme, kernel: Fp8Kernel, element_bytes: int) -> int:
    spread = replace(scheme, spread_scales=kernel.spreads and scheme.block is not None)
    if isinstance(module, Experts):
        whole = scheme.granularity is Granularity.TENSOR and scheme.static_activations
        unit = kernel.width if whole and not module.gated else 1
        wider = replace(module, intermediate_size=round_up(module.intermediate_size, unit))
        built = experts_bytes(module, scheme, element_bytes)
        return experts_bytes(wider, spread, element_bytes) - built
    if isinstance(module, Linear):
        return linear_bytes(module, spread, element_bytes) - linear_bytes(module, scheme, element_bytes)
    return 0
