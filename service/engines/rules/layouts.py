"""Which layouts of quantized weights a release builds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LayoutRules:
    """Which layouts of quantized weights a release builds."""

    awq_refusal: str
    """What it says of an AWQ checkpoint of other than four bits."""
    fp8_needs_activations: bool
    """Whether GPUs with kernels for fp8 run weights in fp8 only beside activations in fp8."""
    compressed_linear: frozenset[str]
    """Schemes of compressed-tensors that it has for linear layers."""
    compressed_experts: frozenset[str]
    """Schemes of compressed-tensors that it has for experts."""
    integer_experts_refusal: str
    """What it says of experts in four bits beside integer activations of eight."""
    integer_experts_error: str
    """The type of that exception."""
    packed_bits: frozenset[str]
    """Bits of packed integers (compressed-tensors)."""
    unaligned_projections: frozenset[str]
    """Methods of which fused projections are built even if FP8's blocks do not divide their split widths."""
    mixed_shards_refusal: str
    """What it says of a fused module of which a list leaves some projections unquantized."""
    packed_kernels: frozenset[str]
    """Kernels of packed integers."""
    padded_marlin: bool
    """Whether Marlin pads layers whose sizes are no multiple of its tiles."""
    split_group_refusal: str
    """What it says of a group of packed integers that is split over ranks; empty: no words."""
    expert_block_check: bool
    """Whether split experts must be a multiple of the scale blocks of block-quantized fp8."""
    modelopt_block_inputs: str
    """What it says of inputs that blocks of ModelOpt's FP8_PB_WO do not divide."""
    modelopt_block_outputs: str
    """What it says of outputs that such blocks do not divide; empty: it builds them."""
    modelopt_mxfp8_inputs: str
    """What it says of inputs that groups of ModelOpt's MXFP8 do not divide."""
    mxfp8_refusal: str
    """What it says of a checkpoint whose method is mxfp8; empty: it takes them where the GPU does."""
    modelopt_mxfp8_refusal: str
    """What it says of every ModelOpt checkpoint in MXFP8; empty: it takes them, if it knows the algorithm."""
    modelopt_algorithms: tuple[str, ...]
    """Values of ModelOpt's quant_algo that the release knows, in its own order."""
    modelopt_file_algorithms: frozenset[str]
    """Values of ModelOpt's quant_algo that it takes of ModelOpt's own file, hf_quant_config.json."""
