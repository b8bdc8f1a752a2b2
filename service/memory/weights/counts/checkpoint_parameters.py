"""Parameters of a rank with their uncertainty: the closed form, compared with the checkpoint's size."""

from dataclasses import replace
from functools import lru_cache

from packaging.version import Version

from service.architecture.long_lists import LONG_LISTS
from service.architecture.model import ModelArchitecture
from service.architecture.quantization import Quantization
from service.memory.budget_types import Basis, Estimate
from service.memory.interval import around, exact
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.parameters import parameter_bytes_per_stage
from service.memory.weights.names.module_names import all_readable

FORMULA = "closed form from the config"
AGREEMENT = 0.08
"""Relative difference that unused heads and duplicated embeddings of a checkpoint explain."""
UNKNOWN_LOW = 0.2
"""The least size of an unknown quantization, relative to the unquantized size."""
UNKNOWN_TOWERS = 0.1
"""The most bytes of unknown towers without a checkpoint's size, relative to the other parameters."""
UNCHECKED = 0.1
"""Relative uncertainty of a closed form that was not compared with the engine."""


def needs_checkpoint_bytes(architecture: ModelArchitecture) -> bool:
    """Whether the checkpoint's size makes the estimate of the parameters more certain."""
    quantization = architecture.quantization
    unreadable = quantization is not None and not _readable(quantization)
    return unreadable or not architecture.weights_checked or not architecture.media.towers_known


def stage_parameters(
    architecture: ModelArchitecture, deployment: Parallelism, release: Version, checkpoint_bytes: int | None
) -> tuple[Estimate, ...]:
    """Return the bytes of parameters of tensor parallel rank 0 on each pipeline stage.

    ``checkpoint_bytes``: bytes of all tensors of the checkpoint; ``None`` if unknown.

    Raises:
        LookupError: the release is older than the dated layout.
    """
    sizes = parameter_bytes_per_stage(architecture, deployment, release)
    whole, untied = _whole_bytes(architecture, deployment.dtype, release)
    if checkpoint_bytes is not None:
        whole = min((whole, untied), key=lambda size: abs(size - checkpoint_bytes))
    return tuple(_parameters(architecture, size, whole, checkpoint_bytes) for size in sizes)


@LONG_LISTS.emptied
@lru_cache(maxsize=64)
def _whole_bytes(architecture: ModelArchitecture, dtype: str | None, release: Version) -> tuple[int, int]:
    """Return the bytes on one rank, with the output tied as the config says, and with an output of its own.

    Some checkpoints of tied models store the output too.
    """
    alone, untied = Parallelism(dtype=dtype), replace(architecture, tie_word_embeddings=False)
    return (
        sum(parameter_bytes_per_stage(architecture, alone, release)),
        sum(parameter_bytes_per_stage(untied, alone, release)),
    )


def _parameters(
    architecture: ModelArchitecture, size: int, whole: int, checkpoint_bytes: int | None
) -> Estimate:
    quantization = architecture.quantization
    if quantization is not None and not _readable(quantization):
        return _unknown_layout(size, whole, checkpoint_bytes, quantization.method)
    if not architecture.weights_checked:
        return _unchecked(size, whole, checkpoint_bytes)
    if not architecture.media.towers_known:
        missing = size * UNKNOWN_TOWERS if checkpoint_bytes is None else max(0, checkpoint_bytes - whole)
        source = f"{FORMULA}; the towers' size is not known"
        return around(size + missing / 2, size, size + missing, Basis.ASSUMED, source)
    if checkpoint_bytes is None or abs(checkpoint_bytes - whole) <= AGREEMENT * whole:
        return exact(size, Basis.COMPUTED, FORMULA)
    scaled = size * checkpoint_bytes / whole
    source = f"{FORMULA}; the checkpoint has {checkpoint_bytes} bytes where {whole} were expected"
    return around(size, min(size, scaled), max(size, scaled), Basis.ASSUMED, source)


def _unchecked(size: int, whole: int, checkpoint_bytes: int | None) -> Estimate:
    middle = size if checkpoint_bytes is None else size * checkpoint_bytes / whole
    source = f"{FORMULA}, which was not compared with the engine for this class"
    return around(middle, middle * (1 - UNCHECKED), middle * (1 + UNCHECKED), Basis.ASSUMED, source)


def _readable(quantization: Quantization) -> bool:
    lists = (quantization.ignored, *(group.targets for group in quantization.schemes))
    return bool(quantization.schemes) and all(map(all_readable, lists))


def _unknown_layout(size: int, whole: int, checkpoint_bytes: int | None, method: str) -> Estimate:
    if checkpoint_bytes is None:
        source = f"{FORMULA} as if unquantized: the layout of {method} is not known"
        return around(size * 0.5, size * UNKNOWN_LOW, size, Basis.ASSUMED, source)
    scaled = size * checkpoint_bytes / whole
    source = f"the checkpoint's size, split as if unquantized: the layout of {method} is not known"
    return around(scaled, scaled * 0.95, scaled * 1.15, Basis.ASSUMED, source)
