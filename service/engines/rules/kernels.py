"""Which kernels the published builds of a release have, and how backends are named."""

from dataclasses import dataclass
from enum import StrEnum


class SparseWeights(StrEnum):
    """What becomes of weights that are stored sparse."""

    LOADED = "loaded"
    WITHOUT_KERNEL = "without_kernel"
    """Those for which the engine would choose its kernel are refused when their module is built."""
    REFUSED = "refused"
    """All are refused when the config is read."""


@dataclass(frozen=True, slots=True)
class KernelRules:
    """Which kernels the published builds of a release have, and how backends are named."""

    auto_backend: bool
    """Whether `--attention-backend auto` leaves the choice to the engine; before, no backend has that
    name.
    """
    least_built_capability: str
    """Least compute capability that the published builds have kernels for."""
    unbuilt_capabilities: frozenset[str]
    """Later compute capabilities that the published builds have no kernels for."""
    deep_gemm_unbuilt_majors: frozenset[str]
    """Major compute capabilities for which the release chooses DeepGEMM while the DeepGEMM it is built with
    has no kernels for them.
    """
    deep_gemm_excluded_types: frozenset[str]
    """Model types for which the release does not choose DeepGEMM on Blackwell."""
    sparse_weights: SparseWeights
    """What becomes of weights that are stored sparse (compressed-tensors' sparsity_config)."""
