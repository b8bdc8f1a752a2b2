"""Which packed integers the kernels of a release take, and what it raises about others.

Scales are shared by groups of inputs. A layer that tensor parallelism splits by its inputs has whole groups
on each rank, or the release cannot build it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from service.architecture.quantization import AUTO_ROUND
from service.architecture.weight_schemes import WeightFormat, WeightScheme
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.layouts import LayoutRules
from service.memory.weights.checks.compressed_checks import ON_HOPPER
from service.memory.weights.modules import Linear
from service.memory.weights.schemes.compressed_kinds import linear_kind

NO_KERNEL: Final = "Failed to find a kernel that can implement the WNA16 linear layer."
UNALIGNED_INPUTS: Final = (
    "The input size is not aligned with the quantized weight shape. This can be caused by too large tensor "
    "parallel size."
)
UNALIGNED_OUTPUTS: Final = (
    "The output size is not aligned with the quantized weight shape. This can be caused by too large tensor "
    "parallel size."
)
MARLIN_GROUPS: Final = frozenset({None, 32, 64, 128})
MARLIN_TILE: Final = (128, 64)
"""Inputs and outputs: vLLM 0.15.1 to 0.23.0, marlin_utils.py GPTQ_MARLIN_MIN_THREAD_K and -_N."""
MACHETE_GROUPS: Final = frozenset({None, 64, 128})
MACHETE_TILE: Final = (64, 128)
"""vLLM 0.15.1 to 0.33.0, machete_utils.py: MACHETE_PREPACKED_BLOCK_SHAPE."""
ALLSPARK_TILE: Final = (16, 16)
"""vLLM 0.15.1 to 0.30.0, allspark_utils.py: ALLSPARK_AMPERE_K_ALIGN, ALLSPARK_AMPERE_N_ALIGN."""
CUTLASS_UNIT: Final = 128
HOPPER: Final = (9, 0)
AMPERE: Final = (8, 0)
ZERO_POINT_BITS: Final = 4
BYTE_BITS: Final = 8
PACKED_BITS: Final = frozenset({ZERO_POINT_BITS, BYTE_BITS})
WORD_BITS: Final = 32
KERNEL_METHODS: Final = frozenset({"auto-round", "auto_gptq", "compressed-tensors", "gptq", "gptq_marlin"})
"""Methods that ask for a kernel and have no other way to run a layer."""


@dataclass(frozen=True, slots=True)
class Device:
    """What decides which kernels run, and for which layers."""

    compute_capability: tuple[int, int]
    dtype: str
    """The model's."""
    by_list: bool = False
    """A list of the checkpoint says which layers are quantized."""


def packed_faults(
    linear: Linear, scheme: WeightScheme, method: str, device: Device, rules: LayoutRules
) -> Iterator[EngineRefusal]:
    """Yield what a release raises about a linear layer of packed integers.

    Source: vLLM 0.15.1 to 0.33.0, create_weights of CompressedTensorsWNA16, GPTQMarlinLinearMethod,
    AutoGPTQLinearMethod, AWQLinearMethod and AutoAWQLinearMethod.
    """
    if scheme.format is WeightFormat.AWQ and method not in KERNEL_METHODS:
        # Without a list the checkpoint's tensors decide, and tools leave narrow outputs alone. Where Marlin
        # pads tiles, it takes any outputs.
        outputs = device.by_list and not rules.padded_marlin
        yield from (each for each in _unaligned(linear, scheme) if outputs or str(each) == UNALIGNED_INPUTS)
        return
    if scheme.format is WeightFormat.AWQ and not _asks_for_kernel(scheme):
        yield from _awq_faults(linear, scheme, rules)
        return
    if scheme.format is WeightFormat.GPTQ and _is_plain(scheme) and "humming" not in rules.packed_kernels:
        yield from _unaligned(linear, scheme)
    if scheme.format is WeightFormat.GPTQ and method in AUTO_ROUND and not on_marlin(scheme):
        # Until a release refuses them (`AutoRoundRules.linear_refusal`), GPTQ's own kernels run them.
        yield from _unaligned(linear, scheme)
        return
    if scheme.bits not in PACKED_BITS or method not in KERNEL_METHODS:
        return
    if not _has_kernel(linear, scheme, device, rules):
        yield EngineRefusal(Stage.MODEL, NO_KERNEL, detail=_cut(linear, scheme))
    if scheme.format is WeightFormat.PACKED and _splits_groups(linear, scheme):
        yield _split_group(linear, scheme.group_size or 0, rules)


def _asks_for_kernel(scheme: WeightScheme) -> bool:
    """Return whether AutoRound looks for a kernel for what is packed as AWQ packs; else AWQ's own run.

    Source: vLLM 0.20.2 to 0.27.0, check_marlin_supported of unsigned integers: four bits with zero points.
    """
    four = scheme.bits == ZERO_POINT_BITS
    return four and not scheme.symmetric and scheme.group_size in MARLIN_GROUPS


def _awq_faults(linear: Linear, scheme: WeightScheme, rules: LayoutRules) -> Iterator[EngineRefusal]:
    """Yield what AWQ's own kernels raise: vLLM 0.20.2 to 0.33.0, AWQConfig and AutoAWQConfig."""
    if scheme.bits != ZERO_POINT_BITS:
        yield EngineRefusal(
            Stage.MODEL, rules.awq_refusal.format(bits=scheme.bits), detail=f"The layer is {linear.name}."
        )
    yield from _unaligned(linear, scheme)


def _unaligned(linear: Linear, scheme: WeightScheme) -> Iterator[EngineRefusal]:
    """Yield what kernels without padding raise: vLLM 0.15.1 to 0.33.0, AWQLinearMethod, GPTQLinearMethod."""
    if linear.inputs % (scheme.group_size or linear.inputs):
        yield EngineRefusal(Stage.MODEL, UNALIGNED_INPUTS, detail=_cut(linear, scheme))
    if sum(linear.outputs) % Fraction(WORD_BITS, scheme.bits).numerator:
        yield EngineRefusal(Stage.MODEL, UNALIGNED_OUTPUTS, detail=_cut(linear, scheme))


def on_marlin(scheme: WeightScheme) -> bool:
    """Return whether AutoRound asks for a kernel for what is packed as GPTQ packs.

    Source: vLLM 0.14.0 to 0.33.0, apply_gptq_quant_layer and INCWNA16LinearScheme: check_marlin_supported.
    """
    return scheme.bits in PACKED_BITS and scheme.symmetric and scheme.group_size in MARLIN_GROUPS


def _is_plain(scheme: WeightScheme) -> bool:
    return scheme.bits not in PACKED_BITS


def _splits_groups(linear: Linear, scheme: WeightScheme) -> bool:
    """Return whether a rank has a part of a group whose scale it needs whole.

    Source: vLLM 0.15.1 to 0.33.0, marlin_repeat_scales_on_all_ranks: groups in the order of activations are
    on every rank.
    """
    return bool(scheme.group_size and linear.inputs % scheme.group_size) and not scheme.activation_order


def _split_group(linear: Linear, group: int, rules: LayoutRules) -> EngineRefusal:
    words = rules.split_group_refusal
    if not words:
        detail = (
            f"{linear.name}: {linear.inputs} inputs of a rank are not a multiple of the group size {group}."
        )
        return EngineRefusal(Stage.MODEL, "", type="AssertionError", detail=detail)
    return EngineRefusal(Stage.MODEL, words.format(inputs=linear.inputs, name=linear.name, group=group))


def _cut(linear: Linear, scheme: WeightScheme) -> str:
    group = scheme.group_size or "whole rows"
    return (
        f"{linear.name} has {linear.inputs} inputs and {sum(linear.outputs)} outputs on a rank; the weights "
        f"share scales in groups of {group}."
    )


def _has_kernel(linear: Linear, scheme: WeightScheme, device: Device, rules: LayoutRules) -> bool:
    """Return whether a kernel takes the layer: vLLM 0.15.1 to 0.33.0, choose_mp_linear_kernel."""
    takes = {
        "machete": _machete,
        "allspark": _allspark,
        "marlin": _padding_marlin if rules.padded_marlin else _marlin,
        "exllama": _exllama,
        "humming": _humming,
    }
    if scheme.byte_activations:
        return "humming" in rules.packed_kernels or (
            _on_hopper(scheme, device, rules) and _cutlass(linear, scheme, device)
        )
    return any(takes[kernel](linear, scheme, device) for kernel in rules.packed_kernels)


def _on_hopper(scheme: WeightScheme, device: Device, rules: LayoutRules) -> bool:
    """Return whether the release takes the activations for 8-bit floats."""
    kind = None
    if scheme.compressed is not None:
        kind = linear_kind(scheme.compressed, device.compute_capability, rules.compressed_linear)
    return kind in ON_HOPPER


def _fits(linear: Linear, tile: tuple[int, int]) -> bool:
    return linear.inputs % tile[0] == 0 and sum(linear.outputs) % tile[1] == 0


def _ordered_parts(linear: Linear, scheme: WeightScheme) -> bool:
    """Return whether inputs in the order of their activations are split over ranks."""
    return scheme.activation_order and linear.input_shards > 1


def _cutlass(linear: Linear, scheme: WeightScheme, device: Device) -> bool:
    """Return whether the kernel of four bits beside activations of eight takes a layer.

    Source: vLLM 0.19.0 to 0.33.0, CutlassW4A8LinearKernel.can_implement.
    """
    return (
        device.compute_capability == HOPPER
        and device.dtype == "bfloat16"
        and scheme.group_size == CUTLASS_UNIT
        and _fits(linear, (CUTLASS_UNIT, CUTLASS_UNIT))
    )


def _humming(_: Linear, scheme: WeightScheme, __: Device) -> bool:
    """Zero points, which releases before 0.26.0 do not give to these kernels, are taken for granted."""
    return not scheme.activation_order


def _machete(linear: Linear, scheme: WeightScheme, device: Device) -> bool:
    return (
        device.compute_capability == HOPPER
        and scheme.group_size in MACHETE_GROUPS
        and not _ordered_parts(linear, scheme)
        and _fits(linear, MACHETE_TILE)
    )


def _allspark(linear: Linear, scheme: WeightScheme, device: Device) -> bool:
    plain = scheme.symmetric and not scheme.activation_order and scheme.group_size is None
    integers = scheme.bits != ZERO_POINT_BITS
    return (
        plain and integers and AMPERE <= device.compute_capability < HOPPER and _fits(linear, ALLSPARK_TILE)
    )


def _padding_marlin(linear: Linear, scheme: WeightScheme, device: Device) -> bool:
    """Since a release pads tiles, only groups that are split over ranks are not taken."""
    if scheme.activation_order:
        return _marlin(linear, scheme, device)
    return _marlin_type(scheme) and not _splits_groups_of_whole(linear, scheme)


def _marlin(linear: Linear, scheme: WeightScheme, _: Device) -> bool:
    return _marlin_type(scheme) and _fits(linear, MARLIN_TILE) and not _splits_groups_of_whole(linear, scheme)


def _marlin_type(scheme: WeightScheme) -> bool:
    return scheme.group_size in MARLIN_GROUPS and (scheme.symmetric or scheme.bits == ZERO_POINT_BITS)


def _splits_groups_of_whole(linear: Linear, scheme: WeightScheme) -> bool:
    group = scheme.group_size
    return group is not None and group < linear.inputs * linear.input_shards and linear.inputs % group != 0


def _exllama(linear: Linear, scheme: WeightScheme, device: Device) -> bool:
    group = scheme.group_size
    return (
        device.dtype == "float16"
        and scheme.symmetric
        and group is not None
        and linear.inputs * linear.input_shards % group == 0
        and sum(linear.outputs) % (WORD_BITS // scheme.bits) == 0
        and not _ordered_parts(linear, scheme)
    )
