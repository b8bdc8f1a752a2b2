"""Reads which weights of a checkpoint are stored sparse."""

from enum import StrEnum
from typing import Final

from service.architecture.config import Config

KERNEL_FORMATS: Final = frozenset({"dense", "sparse-24-bitmask"})
KERNEL_BITS: Final = 8


class Sparsity(StrEnum):
    """How weights are stored of which a share is zero."""

    ON_KERNEL = "on_kernel"
    """Two of four values are zero, and the engine chooses its kernel for that."""
    OTHER = "other"
    """The engine loads them as if all values were stored."""


def read_sparsity(section: Config) -> Sparsity | None:
    """Return how sparse weights of a compressed-tensors checkpoint are stored; ``None`` where none are.

    Source: vLLM 0.10.2 to 0.33.0, compressed_tensors.py _parse_sparsity_config; up to 0.21.0
    supports_cutlass_24.

    Raises:
        InvalidConfig: the section is malformed.
    """
    sparsity = section.section("sparsity_config")
    if sparsity is None or not sparsity.texts("targets"):
        return None
    halved = sparsity.text("sparsity_structure") == "2:4" and sparsity.text("format") in KERNEL_FORMATS
    return Sparsity.ON_KERNEL if halved and _fits_kernel(section) else Sparsity.OTHER


def _fits_kernel(section: Config) -> bool:
    """Return whether all quantized weights have 8 bits and inputs of 8 bits, as the kernel needs them."""
    groups = section.section("config_groups")
    for _, group in () if groups is None else groups.sections():
        weights, inputs = group.section("weights"), group.section("input_activations")
        if weights is None or inputs is None:
            return False
        if {weights.optional_integer("num_bits"), inputs.optional_integer("num_bits")} != {KERNEL_BITS}:
            return False
        if weights.text("strategy") not in {"tensor", "channel"}:
            return False
        if inputs.text("strategy") not in {"tensor", "token"}:
            return False
    return True
