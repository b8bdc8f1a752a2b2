"""What a release says of AMD Quark's checkpoints on NVIDIA's GPUs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QuarkRules:
    """What a release says of AMD Quark's checkpoints on NVIDIA's GPUs."""

    int8_experts: bool
    """Whether it has experts in Quark's int8."""
    fp8_refusal: str
    """What it says of Quark's fp8 on GPUs that do not compute in fp8."""
    fp8_error: str
    """The type of that exception."""
    fp4_experts_refusal: str
    """What it says of Quark's experts with weights and activations in MXFP4; empty: it builds them."""
