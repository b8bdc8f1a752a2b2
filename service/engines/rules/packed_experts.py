"""Which experts of packed integers (compressed-tensors) a release builds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PackedExpertRules:
    """Which experts of packed integers (compressed-tensors) a release builds."""

    ordered_experts_refusal: str
    """What it says of experts in the order of activations that Marlin does not take."""
    ordered_experts_error: str
    """The type of what it raises about them; empty: it builds them."""
    asymmetric_experts: bool
    """Whether experts of packed integers may have zero points."""
    asymmetric_without_marlin: bool
    """Whether they may have them where Marlin does not take the experts."""
    byte_experts_in_rows: bool
    """Whether experts of integers of eight bits must have a ``group_size`` of -1 (compressed-tensors)."""
    unsized_experts_refusal: str
    """What it says of experts of packed integers without a ``group_size``; empty: it takes whole rows."""
    expert_group_refusal: str
    """What it says of experts whose split width the groups do not divide; empty: it builds them."""
