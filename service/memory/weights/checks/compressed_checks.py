"""What a release says of compressed-tensors weights that it does not build.

Source: vLLM 0.19.0 to 0.33.0, compressed_tensors.py; compressed_tensors_moe: get_moe_method, create_weights.
"""

from collections.abc import Iterator
from typing import Final

from service.architecture.compressed_parts import WHOLE_ROWS
from service.architecture.weight_schemes import Granularity, WeightFormat, WeightScheme
from service.engines.rules.layouts import LayoutRules
from service.engines.rules.packed_experts import PackedExpertRules
from service.memory.weights.modules import Experts
from service.memory.weights.schemes.compressed_kinds import Kind, expert_kind, linear_kind

Fault = tuple[str, str]
"""The type and the words of an exception."""
W4A8_UNIT: Final = 256
"""vLLM 0.19.0 to 0.33.0, CompressedTensorsW4A8Fp8MoEMethod.create_weights: sizes are multiples of this."""
W4A8_GROUP: Final = 128
W4A8_GROUPS: Final = "W4A8 kernels require group quantization with group size 128"
EXPERT_BLOCKS: Final = (
    "The output_size of gate's and up's weight = {size} is not divisible by weight quantization "
    "block_n = {block}."
)
WEIGHT_ONLY_EXPERTS: Final = "For Fused MoE layers, only format: pack-quantized is supported"
NO_SCHEME: Final = "No compressed-tensors compatible scheme was found"
NO_EXPERT_SCHEME: Final = "Unsupported FusedMoe scheme"

BYTE_BITS: Final = 8
MARLIN_HIDDEN: Final = 128
"""What Marlin's experts have a multiple of inputs of."""
ON_HOPPER: Final = frozenset({Kind.W4A8, Kind.W4A8_FP8})
ON_CPU: Final = frozenset({Kind.W4A8_ON_CPU, Kind.W4A8_INT})


def compressed_linear(
    scheme: WeightScheme, capability: tuple[int, int], rules: LayoutRules
) -> Iterator[Fault]:
    """Yield what the release raises about linear layers."""
    kind = None
    if scheme.compressed is not None:
        kind = linear_kind(scheme.compressed, capability, rules.compressed_linear)
    if kind is None or (kind is Kind.WNA16 and str(scheme.bits) not in rules.packed_bits):
        yield "NotImplementedError", NO_SCHEME
    if kind in ON_HOPPER and scheme.group_size != W4A8_GROUP:
        yield "ValueError", W4A8_GROUPS


def compressed_experts(
    experts: Experts,
    scheme: WeightScheme,
    capability: tuple[int, int],
    rules: LayoutRules,
) -> Iterator[Fault]:
    """Yield what the release raises about experts of any format."""
    kind = None
    if scheme.compressed is not None:
        kind = expert_kind(scheme.compressed, capability, rules.compressed_experts)
    if scheme.format is WeightFormat.FP8 and scheme.weight_only:
        yield "ValueError", WEIGHT_ONLY_EXPERTS
    if kind is None:
        yield "RuntimeError", NO_EXPERT_SCHEME
    if kind in ON_CPU:
        yield rules.integer_experts_error, rules.integer_experts_refusal
    if scheme.format is WeightFormat.FP8 and scheme.granularity is Granularity.BLOCK:
        yield from expert_blocks(experts, scheme)
    if scheme.format is WeightFormat.FP8 and _static_beside_channels(scheme):
        yield "AssertionError", ""


def is_whole_rows(scheme: WeightScheme) -> bool:
    """Return whether experts of packed integers share scales along whole rows, which Marlin alone takes.

    Source: vLLM 0.19.0 to 0.33.0, CompressedTensorsWNA16MoEMethod: ``strategy == "group"``.
    """
    return scheme.format is WeightFormat.PACKED and scheme.group_size is None and not scheme.byte_activations


def expert_blocks(experts: Experts, scheme: WeightScheme) -> Iterator[tuple[str, str]]:
    """Source: vLLM 0.10.2 to 0.29.0, Fp8MoEMethod.create_weights."""
    width, block = experts.intermediate_size, (scheme.block or (128, 128))[0]
    if width % block:
        yield "ValueError", EXPERT_BLOCKS.format(size=width, block=block)


def _static_beside_channels(scheme: WeightScheme) -> bool:
    """Source: vLLM 0.19.0 to 0.33.0, CompressedTensorsW8A8Fp8MoEMethod.__init__."""
    return scheme.granularity is Granularity.CHANNEL and scheme.static_activations


def packed_experts(
    experts: Experts, scheme: WeightScheme, rules: PackedExpertRules, *, asymmetric: bool
) -> Iterator[Fault]:
    """Yield what it raises about experts of packed integers; ``asymmetric``: they may have zero points."""
    width, hidden = experts.intermediate_size, experts.hidden_size
    if scheme.byte_activations:
        if hidden % W4A8_UNIT:
            yield "AssertionError", f"{hidden=} must be divisible by {W4A8_UNIT}"
        if width % W4A8_UNIT:
            yield (
                "AssertionError",
                f"intermediate_size_per_partition={width} must be divisible by {W4A8_UNIT}",
            )
        return
    yield from _unselected_kernel(experts, scheme, rules)
    if not (scheme.symmetric or asymmetric):
        yield "AssertionError", "Only symmetric quantization is supported for MoE"
    group = scheme.group_size
    if group is not None and width % group and rules.expert_group_refusal:
        yield "ValueError", rules.expert_group_refusal.format(width=width, group=group)


def _unselected_kernel(
    experts: Experts, scheme: WeightScheme, rules: PackedExpertRules
) -> Iterator[tuple[str, str]]:
    """Yield what the choice of a kernel raises, which takes the config's ``group_size`` as it is.

    Source: vLLM 0.27.0 to 0.29.0, CompressedTensorsWNA16MoEMethod.__init__; marlin_utils.py
    check_moe_marlin_supports_config, which compares the size where Marlin takes the hidden size.
    """
    stated = None if scheme.compressed is None else scheme.compressed.weights.group_size
    if rules.byte_experts_in_rows and scheme.bits == BYTE_BITS and stated != WHOLE_ROWS:
        yield "AssertionError", ""
    if rules.unsized_experts_refusal and stated is None and experts.hidden_size % MARLIN_HIDDEN == 0:
        yield "TypeError", rules.unsized_experts_refusal
