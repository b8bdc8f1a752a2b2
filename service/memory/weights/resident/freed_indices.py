"""Indices of the activation order that experts are built with, and that loading frees."""

from dataclasses import replace
from functools import lru_cache
from typing import Final

from packaging.version import Version

from service.architecture.long_lists import LONG_LISTS
from service.architecture.model import ModelArchitecture
from service.memory.budget_types import Basis, Estimate
from service.memory.interval import exact
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.parameters import counted_layers, module_bytes_of
from service.memory.weights.modules import Experts

SOURCE: Final = (
    "less the indices of the activation order; vLLM 0.10.2 to 0.19.0, process_weights_after_loading of "
    "GPTQMarlinMoEMethod and CompressedTensorsWNA16MarlinMoEMethod; 0.24.0 to 0.28.0, oracle/int_wna16.py"
)


def freed_indices(
    architecture: ModelArchitecture, deployment: Parallelism, release: Version, layers: range
) -> Estimate:
    """Return the change of a stage's weights by indices that are replaced by empty ones; none is positive.

    A checkpoint that uses the activation order keeps its indices.
    """
    return exact(-_freed(architecture, deployment, release, layers), Basis.COMPUTED, SOURCE)


@LONG_LISTS.emptied
@lru_cache(maxsize=64)
def _freed(architecture: ModelArchitecture, deployment: Parallelism, release: Version, layers: range) -> int:
    built = module_bytes_of(architecture, deployment, release)
    if architecture.quantization is None or not built.layout.activation_order_indices:
        return 0
    kept = replace(built, layout=replace(built.layout, activation_order_indices=False))
    freed = 0
    for modules, count in counted_layers(architecture, deployment, release, layers):
        for module in modules:
            scheme = built.scheme_of(module) if isinstance(module, Experts) else None
            if scheme is not None and not scheme.activation_order:
                freed += count * (built.module(module) - kept.module(module))
    return freed
