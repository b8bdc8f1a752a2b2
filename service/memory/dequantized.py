"""Matrices in AWQ's four bits that are written out in 16 bits before they are multiplied."""

from itertools import chain
from typing import Final

from packaging.version import Version

from service.architecture.model import ModelArchitecture
from service.architecture.weight_schemes import WeightFormat
from service.engines.releases import rules_for
from service.memory.parallelism import Parallelism
from service.memory.profile_run import ProfileRun
from service.memory.weights.counts.parameters import layer_modules_of, module_bytes_of
from service.memory.weights.modules import Linear

AWQ: Final = "awq"
LEAST_TOKENS: Final = 256
"""Tokens from which AWQ's own kernels multiply in 16 bits (``FP16_MATMUL_HEURISTIC_CONDITION``)."""


def dequantized_matrices(
    architecture: ModelArchitecture, deployment: Parallelism, release: Version, layers: range, *, forced: bool
) -> frozenset[tuple[int, int]]:
    """Return inputs and outputs of the matrices that AWQ's own kernels run on a rank; none where Marlin does.

    ``forced``: the flag names these kernels. Since 0.24.0 it leaves the choice to the release.

    Source: vLLM 0.10.2 to 0.23.0, awq_marlin.py override_quantization_method and get_min_capability.
    """
    quantization = architecture.quantization
    if quantization is None or quantization.method != AWQ:
        return frozenset()
    rules = rules_for(release).checkpoints
    least = int(rules.quantization_min_capability.get("awq_marlin", "0"))
    major, minor = deployment.compute_capability
    if not (forced and rules.plain_awq) and 10 * major + minor >= least:
        return frozenset()
    sizes = module_bytes_of(architecture, deployment, release)
    modules = chain.from_iterable(
        layer_modules_of(architecture, deployment, release)[layers.start : layers.stop]
    )
    found = set[tuple[int, int]]()
    for module in modules:
        scheme = sizes.scheme_of(module) if isinstance(module, Linear) else None
        if isinstance(module, Linear) and scheme is not None and scheme.format is WeightFormat.AWQ:
            found.add((module.inputs, sum(module.outputs)))
    return frozenset(found)


def dequantizing_elements(architecture: ModelArchitecture, run: ProfileRun) -> int:
    """Return the elements alive while a matrix lies in 16 bits: it, inputs, outputs and the residual stream.

    Source: vLLM 0.10.2 to 0.33.0, apply of AWQLinearMethod and AutoAWQLinearMethod.
    """
    if run.tokens < LEAST_TOKENS:
        return 0
    residual = architecture.hidden_size
    return max(
        (
            run.tokens * (residual + inputs + outputs) + inputs * outputs
            for inputs, outputs in run.dequantized
        ),
        default=0,
    )
