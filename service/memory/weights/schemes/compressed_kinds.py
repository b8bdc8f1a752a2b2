"""Which scheme a release finds for a group of a compressed-tensors config, or that it finds none.

A release asks one condition after the other and takes the first that holds. The conditions have not changed
since 0.10.2, but releases have more or fewer of them.

Source: vLLM 0.10.2 to 0.33.0, CompressedTensorsConfig._get_scheme_from_parts and the functions that it calls;
CompressedTensorsMoEMethod.get_moe_method.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Final

from service.architecture.compressed_parts import CompressedGroup, Elements

Capability = tuple[int, int]
HOPPER: Final = (9, 0)
EIGHT_BITS: Final = 8
FOUR_BITS: Final = 4
PACKED: Final = "pack-quantized"
MARLIN_24: Final = "marlin-24"
OF_ACTIVATIONS: Final = frozenset(
    {"naive-quantized", "int-quantized", "float-quantized", "nvfp4-pack-quantized"}
)
"""Formats of quantized activations: compressed_tensors/utils.py is_activation_quantization_format."""
BY_ROWS: Final = frozenset({"channel", "group"})
WHOLE: Final = frozenset({"channel", "tensor"})


class Kind(StrEnum):
    """A scheme, in the order in which a release asks for it."""

    NVFP4 = "nvfp4"
    NVFP4_A16 = "nvfp4-a16"
    MXFP4_A8 = "mxfp4-a8"
    MXFP4 = "mxfp4"
    MXFP8 = "mxfp8"
    W4A8 = "w4a8"
    """Four bits beside activations of eight, whatever their types, on Hopper alone."""
    W4A8_FP8 = "w4a8-fp8"
    """Integers of four bits beside activations in fp8, on Hopper alone."""
    W4A8_FP8_ANYWHERE = "w4a8-fp8-anywhere"
    WNA8O8 = "wna8o8"
    WNA8 = "wna8"
    WNA4 = "wna4"
    WNA16 = "wna16"
    SPARSE_24 = "sparse-24"
    FP8 = "fp8"
    FP8_BLOCK = "fp8-block"
    FP8_A16 = "fp8-a16"
    INT8_STATIC = "int8-static"
    INT8_DYNAMIC = "int8-dynamic"
    W4A8_ON_CPU = "w4a8-on-cpu"
    """Four bits beside activations of eight, whatever their types."""
    W4A8_INT = "w4a8-int"


def linear_kind(group: CompressedGroup, capability: Capability, known: Iterable[str]) -> Kind | None:
    """Return the scheme of linear layers, ``None`` if a release that knows ``known`` has none."""
    left_out = set[Kind]()
    if group.format not in OF_ACTIVATIONS:
        left_out |= _OF_ACTIVATIONS_ALONE
    if group.format != PACKED:
        left_out.add(Kind.WNA16)
    return expert_kind(group, capability, set(known) - left_out)


def expert_kind(group: CompressedGroup, capability: Capability, known: Iterable[str]) -> Kind | None:
    """Return the scheme of experts, whose conditions do not ask for the format."""
    kinds = frozenset(known)
    return next((kind for kind in Kind if kind in kinds and _CONDITIONS[kind](group, capability)), None)


_OF_ACTIVATIONS_ALONE: Final = frozenset(
    {Kind.FP8, Kind.FP8_BLOCK, Kind.FP8_A16, Kind.INT8_STATIC, Kind.INT8_DYNAMIC}
    | {Kind.W4A8_ON_CPU, Kind.W4A8_INT}
)


def _grouped_floats(elements: Elements | None, bits: int, size: int, strategy: str) -> bool:
    return elements is not None and elements == Elements(
        True, bits, strategy, elements.symmetric, elements.dynamic, size
    )


def _nvfp4(elements: Elements | None) -> bool:
    return _grouped_floats(elements, FOUR_BITS, 16, "tensor_group")


def _mxfp4(elements: Elements) -> bool:
    return _grouped_floats(elements, FOUR_BITS, 32, "group") and elements.symmetric


def _mxfp4_with_fp8(group: CompressedGroup, _: Capability) -> bool:
    inputs = group.inputs
    return (
        _mxfp4(group.weights)
        and inputs is not None
        and inputs.is_float
        and inputs.bits == EIGHT_BITS
        and inputs.dynamic
        and inputs.strategy in ("token", "group")
        and inputs.symmetric
    )


def _w4a8(group: CompressedGroup) -> bool:
    """Return whether weights have four bits and each token's activations eight, whatever their types."""
    weights, inputs = group.weights, group.inputs
    return (
        (weights.bits, weights.symmetric, weights.dynamic) == (FOUR_BITS, True, False)
        and weights.strategy in BY_ROWS
        and inputs is not None
        and (inputs.bits, inputs.strategy, inputs.dynamic) == (EIGHT_BITS, "token", True)
    )


def _w4a8_in_groups(group: CompressedGroup) -> bool:
    symmetric = group.inputs is not None and group.inputs.symmetric
    return _w4a8(group) and group.weights.strategy == "group" and symmetric


def _w4a8_fp8(group: CompressedGroup) -> bool:
    return _w4a8_in_groups(group) and _types(group) == (False, True)


def _types(group: CompressedGroup) -> tuple[bool, bool]:
    """Return whether weights and activations are floats."""
    return group.weights.is_float, group.inputs is not None and group.inputs.is_float


def _static_int8(elements: Elements | None) -> bool:
    return (
        elements is not None
        and not elements.is_float
        and (elements.bits, elements.strategy, elements.dynamic) == (EIGHT_BITS, "tensor", False)
    )


def _integers(weights: Elements) -> bool:
    return not weights.is_float and not weights.dynamic and weights.strategy in BY_ROWS


def _static_in_and_out(group: CompressedGroup, _: Capability) -> bool:
    """Return whether inputs and outputs are rounded to eight bits."""
    formats = (PACKED, "int-quantized")
    return (
        _integers(group.weights)
        and group.format in formats
        and _static_int8(group.inputs)
        and _static_int8(group.outputs)
    )


def _dynamic_integers(group: CompressedGroup, bits: int) -> bool:
    inputs = group.inputs
    return (
        _integers(group.weights)
        and group.format == PACKED
        and inputs is not None
        and not inputs.is_float
        and inputs.symmetric
        and inputs.dynamic
        and inputs.strategy in ("token", "group")
        and inputs.bits == bits
    )


def _weight_only(group: CompressedGroup, _: Capability) -> bool:
    return group.weights.strategy in BY_ROWS and group.inputs is None and not group.weights.dynamic


def _sparse(group: CompressedGroup, capability: Capability) -> bool:
    return _weight_only(group, capability) and group.format == MARLIN_24


def _fp8_weights(group: CompressedGroup) -> bool:
    weights = group.weights
    return weights.is_float and weights.symmetric and not weights.dynamic


def _fp8(group: CompressedGroup) -> bool:
    inputs = group.inputs
    if not _fp8_weights(group) or inputs is None or not inputs.is_float:
        return False
    return inputs.dynamic or (inputs.symmetric and inputs.strategy == "tensor")


def _static_bytes(group: CompressedGroup, _: Capability) -> bool:
    inputs = group.inputs
    return (
        _is_bytes(group)
        and inputs is not None
        and inputs.strategy == "tensor"
        and not (group.weights.dynamic or inputs.dynamic)
    )


def _dynamic_bytes(group: CompressedGroup, _: Capability) -> bool:
    inputs = group.inputs
    return (
        _is_bytes(group)
        and inputs is not None
        and (inputs.strategy, inputs.dynamic) == ("token", True)
        and not group.weights.dynamic
    )


def _is_bytes(group: CompressedGroup) -> bool:
    weights, inputs = group.weights, group.inputs
    both = inputs is not None and weights.bits == inputs.bits == EIGHT_BITS
    return both and weights.strategy in WHOLE and weights.symmetric


_Condition = Callable[[CompressedGroup, Capability], bool]
_CONDITIONS: Final[Mapping[Kind, _Condition]] = {
    Kind.NVFP4: lambda group, _: _nvfp4(group.weights) and _nvfp4(group.inputs),
    Kind.NVFP4_A16: lambda group, _: _nvfp4(group.weights) and group.inputs is None,
    Kind.MXFP4_A8: _mxfp4_with_fp8,
    Kind.MXFP4: lambda group, _: _mxfp4(group.weights),
    Kind.MXFP8: lambda group, _: _grouped_floats(group.weights, EIGHT_BITS, 32, "group"),
    Kind.W4A8: lambda group, capability: capability == HOPPER and _w4a8_in_groups(group),
    Kind.W4A8_FP8: lambda group, capability: capability == HOPPER and _w4a8_fp8(group),
    Kind.W4A8_FP8_ANYWHERE: lambda group, _: _w4a8_fp8(group),
    Kind.WNA8O8: _static_in_and_out,
    Kind.WNA8: lambda group, _: _dynamic_integers(group, EIGHT_BITS),
    Kind.WNA4: lambda group, _: _dynamic_integers(group, FOUR_BITS),
    Kind.WNA16: _weight_only,
    Kind.SPARSE_24: _sparse,
    Kind.FP8: lambda group, _: _fp8(group) and group.weights.strategy in WHOLE,
    Kind.FP8_BLOCK: lambda group, _: _fp8_weights(group) and group.weights.strategy == "block",
    Kind.FP8_A16: lambda group, _: _fp8_weights(group) and group.weights.strategy in WHOLE,
    Kind.INT8_STATIC: _static_bytes,
    Kind.INT8_DYNAMIC: _dynamic_bytes,
    Kind.W4A8_ON_CPU: lambda group, _: _w4a8(group),
    Kind.W4A8_INT: lambda group, _: _w4a8(group) and _types(group) == (False, False),
}
