"""Whether a release loads weights that are stored sparse."""

from typing import Final

from service.architecture.quantization import Quantization
from service.architecture.sparsity import Sparsity
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.kernels import KernelRules, SparseWeights

REMOVED: Final = (
    "Sparsity support has been removed from compressed-tensors. Please use a model without sparsity "
    "configuration."
)
"""vLLM 0.22.0 to 0.33.0, compressed_tensors.py _parse_sparsity_config."""
NO_KERNEL: Final = "Sparse24 models are no longer supported by vLLM"
"""vLLM 0.19.0 to 0.21.0, schemes/compressed_tensors_24.py."""
DETAIL: Final = (
    "The weights are stored sparse (sparsity_config): choose a checkpoint of the model without sparsity, or "
    "a release before 0.19.0."
)


def check_sparse_weights(quantization: Quantization | None, rules: KernelRules) -> None:
    """Refuse sparse weights that the release does not load.

    Raises:
        EngineRefusal: stage ``config``, or ``model`` where a module without its kernel is built.
    """
    if quantization is None or quantization.sparsity is None:
        return
    if rules.sparse_weights is SparseWeights.REFUSED:
        raise EngineRefusal(Stage.CONFIG, REMOVED, type="DeprecationWarning", detail=DETAIL)
    if rules.sparse_weights is SparseWeights.WITHOUT_KERNEL and quantization.sparsity is Sparsity.ON_KERNEL:
        raise EngineRefusal(Stage.MODEL, NO_KERNEL, type="NotImplementedError", detail=DETAIL)
