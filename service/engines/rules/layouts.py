"""Which layouts of quantized weights a release builds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LayoutRules:
    """Which layouts of quantized weights a release builds."""

    awq_refusal: str
    """What it says of an AWQ checkpoint of other than four bits."""
    auto_round_types: frozenset[str]
    """Values of AutoRound's data_type that it knows."""
    compressed_formats: frozenset[str]
    """Formats of compressed-tensors that it has for linear layers."""
    compressed_expert_formats: frozenset[str]
    """Formats of compressed-tensors that it has for experts."""
    packed_bits: frozenset[str]
    """Bits of packed integers (compressed-tensors)."""
    asymmetric_experts: bool
    """Whether experts of packed integers may have zero points."""
    expert_group_refusal: str
    """What it says of experts whose split width the groups do not divide; empty: it builds them."""
    quark_int8_experts: bool
    """Whether it has experts in Quark's int8."""
    unaligned_projections: frozenset[str]
    """Methods of which fused projections are built even if FP8's blocks do not divide their split widths."""
