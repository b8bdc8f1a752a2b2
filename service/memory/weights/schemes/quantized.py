"""Bytes that one module takes, unquantized or in a checkpoint's scheme, before any repacking."""

from collections.abc import Callable, Mapping
from math import gcd
from typing import Final, assert_never

from service.architecture.weight_schemes import Granularity, WeightFormat, WeightScheme
from service.memory.weights.modules import Experts, Linear
from service.memory.weights.weight_layout import QuantizedLayout
from service.units import ceil_div

FLOAT32: Final = 4
HALF: Final = 2
INT32: Final = 4
INT64: Final = 8
WORD_BITS: Final = 32
BYTE_BITS: Final = 8
LEAST_BLOCK: Final = 32
"""The least side to which the engine refines blocks."""


def plain_linear(linear: Linear, element_bytes: int) -> int:
    """Return the bytes of an unquantized linear layer."""
    return (linear.inputs * sum(linear.outputs) + linear.bias) * element_bytes


def plain_experts(experts: Experts, element_bytes: int) -> int:
    """Return the bytes of unquantized experts."""
    biases = (experts.first_width + experts.hidden_size) if experts.bias else 0
    return experts.count * (experts.elements + biases) * element_bytes


def linear_bytes(linear: Linear, scheme: WeightScheme, element_bytes: int) -> int:
    """Return the bytes of a quantized linear layer."""
    matrix = _LINEAR[scheme.format](linear, scheme, element_bytes)
    return matrix + linear.bias * element_bytes


def _scaled_linear(linear: Linear, scheme: WeightScheme, element_bytes: int) -> int:
    """One byte an element; one scale for all activations of an int8 layer.

    Source: vLLM 0.24.0, Fp8LinearMethod, CompressedTensorsW8A8Fp8 and -Int8, QuarkW8A8Int8.
    """
    rows, columns = sum(linear.outputs), linear.inputs
    if scheme.spread_scales:
        return rows * columns + _spread(rows, columns, scheme) * element_bytes
    scales = len(linear.outputs)
    match scheme.granularity:
        case Granularity.CHANNEL:
            scales = rows
        case Granularity.BLOCK:
            high, wide = scheme.block or (128, 128)
            scales = sum(ceil_div(part, high) for part in linear.outputs) * ceil_div(columns, wide)
        case Granularity.TENSOR | Granularity.GROUP:
            pass
        case _:
            assert_never(scheme.granularity)
    shared = scheme.format is WeightFormat.INT8
    activations = (1 if shared else len(linear.outputs)) if scheme.static_activations else 0
    zero_points = scales + activations if scheme.byte_zero_points else 0
    return rows * columns + (scales + activations) * FLOAT32 + zero_points


def _nvfp4_linear(linear: Linear, scheme: WeightScheme, _: int) -> int:
    """Half a byte and a byte per group. Source: vLLM 0.24.0, ModelOptNvFp4LinearMethod."""
    rows, columns = sum(linear.outputs), linear.inputs
    tensors = len(linear.outputs) * (2 if scheme.static_activations else 1)
    return rows * columns // 2 + rows * (columns // _group(scheme, columns)) + tensors * FLOAT32


def _packed_linear(linear: Linear, scheme: WeightScheme, element_bytes: int) -> int:
    """Source: vLLM 0.24.0, CompressedTensorsWNA16."""
    rows, columns = sum(linear.outputs), linear.inputs
    groups = ceil_div(_scaled_inputs(linear, scheme), _group(scheme, columns))
    size = rows * columns * scheme.bits // 8 + rows * groups * element_bytes + 2 * INT64
    if not scheme.symmetric:
        size += rows * scheme.bits // WORD_BITS * groups * INT32
    return size + (columns * INT32 if scheme.activation_order else 0)


def _awq_linear(linear: Linear, scheme: WeightScheme, element_bytes: int) -> int:
    """Source: vLLM 0.24.0, AWQLinearMethod."""
    rows, columns = sum(linear.outputs), linear.inputs
    groups = _scaled_inputs(linear, scheme) // _group(scheme, columns)
    return (
        rows * columns * scheme.bits // 8 + groups * rows * scheme.bits // 8 + groups * rows * element_bytes
    )


def _gptq_linear(linear: Linear, scheme: WeightScheme, element_bytes: int) -> int:
    """Source: vLLM 0.24.0, GPTQMarlinLinearMethod."""
    order = linear.inputs * INT32 if scheme.activation_order else 0
    return _awq_linear(linear, scheme, element_bytes) + order


def _mxfp4_linear(linear: Linear, _: WeightScheme, element_bytes: int) -> int:
    """Only experts are stored in MXFP4. Source: vLLM 0.24.0, Mxfp4Config.get_quant_method."""
    return linear.inputs * sum(linear.outputs) * element_bytes


def _mx_linear(linear: Linear, scheme: WeightScheme, _: int) -> int:
    """Source: vLLM 0.32.0, CompressedTensorsW4A4Mxfp4 and QuarkOCP_MX.create_weights."""
    rows, columns = sum(linear.outputs), linear.inputs
    return rows * (columns * scheme.bits // 8 + columns // _group(scheme, columns))


def _mxfp8_linear(linear: Linear, scheme: WeightScheme, _: int) -> int:
    """Source: vLLM 0.24.0, ModelOptMxFp8LinearMethod.create_weights."""
    rows, columns = sum(linear.outputs), linear.inputs
    return rows * (columns + columns // _group(scheme, columns))


def _bitsandbytes(elements: int, rows: int, scheme: WeightScheme) -> int:
    """Source: vLLM 0.24.0, BitsAndBytesLinearMethod; bitsandbytes_loader.py _dequantize_dq: wide scales."""
    scales = rows if scheme.group_size is None else ceil_div(elements, scheme.group_size)
    return elements * scheme.bits // 8 + scales * FLOAT32


def _bitsandbytes_linear(linear: Linear, scheme: WeightScheme, _: int) -> int:
    rows = sum(linear.outputs)
    return _bitsandbytes(rows * linear.inputs, rows, scheme)


def _group(scheme: WeightScheme, columns: int) -> int:
    return scheme.group_size or columns


def _scaled_inputs(linear: Linear, scheme: WeightScheme) -> int:
    """Return the inputs that a rank has scales for."""
    return linear.inputs * (linear.input_shards if scheme.repeated_scales else 1)


_Rule = Callable[[Linear, WeightScheme, int], int]
_LINEAR: Final[Mapping[WeightFormat, _Rule]] = {
    WeightFormat.FP8: _scaled_linear,
    WeightFormat.INT8: _scaled_linear,
    WeightFormat.PACKED: _packed_linear,
    WeightFormat.AWQ: _awq_linear,
    WeightFormat.GPTQ: _gptq_linear,
    WeightFormat.NVFP4: _nvfp4_linear,
    WeightFormat.MXFP4: _mxfp4_linear,
    WeightFormat.MX: _mx_linear,
    WeightFormat.MXFP8: _mxfp8_linear,
    WeightFormat.BITSANDBYTES: _bitsandbytes_linear,
}


def experts_bytes(experts: Experts, scheme: WeightScheme, element_bytes: int) -> int:
    """Return the bytes of the quantized experts of one layer."""
    biases = experts.count * (experts.first_width + experts.hidden_size) if experts.bias else 0
    bias_bytes = FLOAT32 if scheme.float32_biases else element_bytes
    return experts.count * _EXPERT[scheme.format](experts, scheme, element_bytes) + biases * bias_bytes


def _expert_block(experts: Experts, scheme: WeightScheme) -> tuple[int, int]:
    """Return the sides of the blocks: smaller ones where the stored ones do not divide an expert's width.

    Source: vLLM 0.29.0 and 0.30.0, fused_moe/oracle/fp8.py refine_fp8_moe_block_shape; 0.31.0 and 0.32.0,
    resolve_fp8_moe_weight_block_shape.
    """
    high, wide = scheme.block or (128, 128)
    width = experts.intermediate_size
    side = gcd(high, wide, width, experts.hidden_size)
    return (side, side) if (width % high or width % wide) and side >= LEAST_BLOCK else (high, wide)


def refines(experts: Experts, scheme: WeightScheme) -> bool:
    """Return whether blocks can be made so small that they divide an expert's width."""
    high, wide = scheme.block or (128, 128)
    return gcd(high, wide, experts.intermediate_size, experts.hidden_size) >= LEAST_BLOCK


def _spread(rows: int, columns: int, scheme: WeightScheme) -> int:
    """Return the scales of a matrix of which Marlin gives each row its own.

    Source: vLLM 0.10.2 to 0.33.0, marlin_utils_fp8.py: scales of blocks are repeated for all of their rows.
    """
    _, wide = scheme.block or (128, 128)
    return rows * ceil_div(columns, wide)


def _scaled_expert(experts: Experts, scheme: WeightScheme, element_bytes: int) -> int:
    """Source: vLLM 0.24.0, Fp8MoEMethod.create_weights."""
    hidden, width, first = experts.hidden_size, experts.intermediate_size, experts.first_width
    if scheme.spread_scales:
        spread = _spread(first, hidden, scheme) + _spread(hidden, width, scheme)
        return experts.elements + spread * element_bytes
    scales = 1 + first // width
    match scheme.granularity:
        case Granularity.CHANNEL:
            scales = first + hidden
        case Granularity.BLOCK:
            high, wide = _expert_block(experts, scheme)
            first_rows = first // width * ceil_div(width, high)
            scales = first_rows * ceil_div(hidden, wide) + ceil_div(hidden, high) * ceil_div(width, wide)
        case Granularity.TENSOR | Granularity.GROUP:
            pass
        case _:
            assert_never(scheme.granularity)
    size = experts.elements + (scales + (2 if scheme.static_activations else 0)) * FLOAT32
    # Quark's experts have zero points for their inputs too: quark_moe.py QuarkW8A8Int8MoEMethod.
    return size + (scales + first // width + 1 if scheme.byte_zero_points else 0)


def _nvfp4_expert(experts: Experts, scheme: WeightScheme, _: int) -> int:
    """Source: vLLM 0.24.0, ModelOptNvFp4FusedMoE.create_weights."""
    group = scheme.group_size or 16
    scales = experts.first_width * (experts.hidden_size // group)
    scales += experts.hidden_size * (experts.intermediate_size // group)
    # Two scales and an input scale for each of the first projection's halves and the second one.
    tensors = 2 * (experts.first_width // experts.intermediate_size + 1)
    return experts.elements // 2 + scales + tensors * FLOAT32


def _mxfp4_expert(experts: Experts, scheme: WeightScheme, _: int) -> int:
    """Source: vLLM 0.24.0, GptOssMxfp4MoEMethod.create_weights."""
    return experts.elements // 2 + experts.elements // (scheme.group_size or 32)


def _mx_expert(experts: Experts, scheme: WeightScheme, _: int) -> int:
    """Source: vLLM 0.32.0, CompressedTensorsW4A4Mxfp4MoEMethod and QuarkOCP_MX_MoEMethod.create_weights."""
    return experts.elements * scheme.bits // 8 + experts.elements // (scheme.group_size or 32)


def _mxfp8_expert(experts: Experts, scheme: WeightScheme, _: int) -> int:
    """Source: vLLM 0.24.0, ModelOptMxFp8FusedMoE.create_weights."""
    group = scheme.group_size or experts.hidden_size
    scales = experts.first_width * (experts.hidden_size // group)
    return experts.elements + scales + experts.hidden_size * (experts.intermediate_size // group)


def _packed_expert(experts: Experts, scheme: WeightScheme, element_bytes: int) -> int:
    """Source: vLLM 0.24.0, CompressedTensorsWNA16MarlinMoEMethod and CompressedTensorsW4A8Fp8MoEMethod."""
    hidden, width = experts.hidden_size, experts.intermediate_size
    scales = (hidden // _group(scheme, hidden)) * experts.first_width
    scales += _scaled_width(experts, scheme) // _group(scheme, width) * hidden
    size = experts.elements * scheme.bits // 8 + scales * element_bytes + 4 * element_bytes
    size += 0 if scheme.symmetric else scales * scheme.bits // 8
    size += (experts.first_width + hidden) * FLOAT32 if scheme.channel_scales else 0
    return size + (2 * (hidden + width) * INT32 if scheme.activation_order else 0)


MARLIN_EXPERT_GROUPS: Final = frozenset({None, 32, 64, 128})
MARLIN_GPTQ_BITS: Final = frozenset({4, 8})
MARLIN_HIDDEN: Final = 128
MARLIN_WIDTH: Final = 64
LEAST_GROUP: Final = 32


def runs_on_marlin(experts: Experts, scheme: WeightScheme, layout: QuantizedLayout) -> bool:
    """Return whether Marlin's kernels take experts of AWQ or GPTQ.

    Widths in the order of activations are never padded.

    Source: vLLM 0.19.0 to 0.26.0, utils/marlin_utils.py check_moe_marlin_supports_layer; 0.27.0 to 0.32.0,
    check_moe_marlin_supports_config; 0.19.0, GPTQMarlinConfig.is_gptq_marlin_compatible: TYPE_MAP.
    """
    padded = layout.padded_marlin_experts and not scheme.activation_order
    unit = (scheme.group_size or 1) if padded else max(MARLIN_WIDTH, scheme.group_size or 0)
    divides = experts.hidden_size % MARLIN_HIDDEN == 0 and experts.intermediate_size % unit == 0
    plain = scheme.format is WeightFormat.GPTQ and not (scheme.symmetric and scheme.bits in MARLIN_GPTQ_BITS)
    weighed = experts.weighs_inputs and not layout.weighed_marlin_experts
    return divides and scheme.group_size in MARLIN_EXPERT_GROUPS and not (plain or weighed)


def weight_only_experts(
    experts: Experts, scheme: WeightScheme, element_bytes: int, *, gptq_zero_points: bool
) -> int:
    """Return the bytes of experts that Marlin does not take; groups are halved until they divide the sizes.

    No element lies across two bytes. ``gptq_zero_points``: zero points of what is packed as GPTQ are stored.

    Source: vLLM 0.19.0 to 0.32.0, moe_wna16.py MoeWNA16Method.create_weights; 0.19.0, gptq.py GPTQConfig.
    """
    hidden, width = experts.hidden_size, experts.intermediate_size
    group = scheme.group_size or LEAST_GROUP
    while (width % group or hidden % group) and group > LEAST_GROUP:
        group //= 2
    scales = experts.first_width * (hidden // group) + hidden * (width // group)
    packed = BYTE_BITS // scheme.bits
    stored = not scheme.symmetric and (gptq_zero_points or scheme.format is not WeightFormat.GPTQ)
    zeros = scales // packed if stored else 0
    return experts.count * (experts.elements // packed + scales * element_bytes + zeros)


def _scaled_width(experts: Experts, scheme: WeightScheme) -> int:
    """Return the inputs of an expert's second projection that a rank has scales for."""
    repeats = scheme.repeated_scales and scheme.group_size is not None
    return experts.intermediate_size * (experts.width_shards if repeats else 1)


def _grouped_expert(experts: Experts, scheme: WeightScheme, element_bytes: int) -> int:
    """Source: vLLM 0.24.0, AWQMarlinMoEMethod.create_weights."""
    hidden, width = experts.hidden_size, experts.intermediate_size
    scales = (hidden // _group(scheme, hidden)) * experts.first_width
    scales += ceil_div(_scaled_width(experts, scheme), _group(scheme, width)) * hidden
    return (experts.elements + scales) * scheme.bits // 8 + scales * element_bytes


def _gptq_expert(experts: Experts, scheme: WeightScheme, element_bytes: int) -> int:
    """Source: vLLM 0.19.0 to 0.33.0, create_weights of GPTQMarlinMoEMethod and AutoGPTQMoEMethod."""
    hidden, width = experts.hidden_size, experts.intermediate_size
    size = _grouped_expert(experts, scheme, element_bytes)
    if scheme.zero_points_as_scales:
        scales = ceil_div(hidden, _group(scheme, hidden)) * experts.first_width
        scales += ceil_div(_scaled_width(experts, scheme), _group(scheme, width)) * hidden
        size -= scales * scheme.bits // WORD_BITS * (INT32 - element_bytes)
    return size + (2 * (hidden + width) * INT32 if scheme.activation_order else 0)


def _bitsandbytes_expert(experts: Experts, scheme: WeightScheme, _: int) -> int:
    """Source: vLLM 0.24.0, BitsAndBytesMoEMethod.create_weights."""
    return _bitsandbytes(experts.elements, experts.first_width + experts.hidden_size, scheme)


_ExpertRule = Callable[[Experts, WeightScheme, int], int]
_EXPERT: Final[Mapping[WeightFormat, _ExpertRule]] = {
    WeightFormat.FP8: _scaled_expert,
    WeightFormat.INT8: _scaled_expert,
    WeightFormat.PACKED: _packed_expert,
    WeightFormat.AWQ: _grouped_expert,
    WeightFormat.GPTQ: _gptq_expert,
    WeightFormat.NVFP4: _nvfp4_expert,
    WeightFormat.MXFP4: _mxfp4_expert,
    WeightFormat.MX: _mx_expert,
    WeightFormat.MXFP8: _mxfp8_expert,
    WeightFormat.BITSANDBYTES: _bitsandbytes_expert,
}
