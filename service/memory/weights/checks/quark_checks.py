"""What a release raises about weights of AMD Quark on NVIDIA's GPUs."""

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from typing import Final

from packaging.version import Version

from service.architecture.model import ModelArchitecture
from service.architecture.weight_schemes import WeightFormat, WeightScheme
from service.engines.refusal import EngineRefusal, Stage
from service.engines.releases import rules_for
from service.engines.rules.quark import QuarkRules
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.parameters import layer_modules_of, module_bytes_of
from service.memory.weights.modules import Experts

FP8_CAPABILITY: Final = (8, 9)
"""The first with kernels for activations in 8 bits: QuarkW8A8Fp8.get_min_capability."""
NO_SCHEME: Final = "No quark compatible scheme was found."
FP4: Final = "fp4"
FP4_BITS: Final = 4
EMULATION: Final = (
    "Experts of {name} have weights and activations in MXFP4, for which this release has kernels on AMD's "
    "GPUs alone. With the package amd-quark --moe-backend emulation runs them."
)


def quark_linear(
    scheme: WeightScheme, capability: tuple[int, int], rules: QuarkRules
) -> Iterator[tuple[str, str]]:
    """Yield what the release raises about a linear layer.

    Source: vLLM 0.14.0 to 0.33.0, quark.py QuarkConfig._get_scheme_from_config: _check_scheme_supported, and
    _is_fp8_w8a8, which takes static activations with one scale alone (0.20.2 to 0.33.0).
    """
    if scheme.format is WeightFormat.FP8 and scheme.channel_activations:
        yield "NotImplementedError", NO_SCHEME
    elif scheme.format is WeightFormat.FP8 and capability < FP8_CAPABILITY:
        major, minor = capability
        yield rules.fp8_error, rules.fp8_refusal.format(capability=10 * major + minor)


def check_quark_experts(
    architecture: ModelArchitecture, deployment: Parallelism, release: Version, *, named: bool
) -> None:
    """Refuse experts with weights and activations in MXFP4 where no kernel rounds activations so.

    ``named``: a flag or a variable says which kernel runs them.

    Source: vLLM 0.22.0 to 0.24.0 and 0.28.0 to 0.31.0, fused_moe/oracle/mxfp4.py _filter_by_activation.

    Raises:
        EngineRefusal: stage ``model``.
    """
    quantization, words = architecture.quantization, rules_for(release).quark.fp4_experts_refusal
    if quantization is None or quantization.method != "quark" or named or not words:
        return
    name = _fp4_experts(architecture, deployment, release)
    if name is not None:
        detail = EMULATION.format(name=name)
        raise EngineRefusal(Stage.MODEL, words, type="NotImplementedError", detail=detail)


@lru_cache(maxsize=256)
def _fp4_experts(architecture: ModelArchitecture, deployment: Parallelism, release: Version) -> str | None:
    sizes = module_bytes_of(architecture, deployment, release)
    for module in chain.from_iterable(layer_modules_of(architecture, deployment, release)):
        scheme = sizes.scheme_of(module) if isinstance(module, Experts) else None
        if scheme is not None and scheme.bits == FP4_BITS and scheme.activation_type == FP4:
            return module.name if isinstance(module, Experts) else None
    return None
