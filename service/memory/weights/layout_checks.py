"""What a release refuses while it builds quantized weights: layouts it lacks, sizes that do not divide."""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import Final

from packaging.version import Version

from service.architecture.model import ModelArchitecture
from service.architecture.weight_schemes import Granularity, WeightFormat, WeightScheme
from service.engines.refusal import EngineRefusal, Stage
from service.engines.releases import rules_for
from service.engines.rules.layouts import LayoutRules
from service.memory.parallelism import Parallelism
from service.memory.weights.modules import Experts, Linear, Module, Shards
from service.memory.weights.parameters import layer_modules_of, module_bytes_of
from service.memory.weights.weight_layout import weight_layout_at

W4A8_UNIT: Final = 256
"""vLLM 0.19.0 to 0.33.0, CompressedTensorsW4A8Fp8MoEMethod.create_weights: sizes are multiples of this."""
INPUT_BLOCKS: Final = (
    "Weight input_size_per_partition = {size} is not divisible by weight quantization block_k = {block}."
)
OUTPUT_BLOCKS: Final = (
    "Weight output_partition_size = {size} is not divisible by weight quantization block_n = {block}."
)
EXPERT_BLOCKS: Final = (
    "The output_size of gate's and up's weight = {size} is not divisible by weight quantization "
    "block_n = {block}."
)
WEIGHT_ONLY_EXPERTS: Final = "For Fused MoE layers, only format: pack-quantized is supported"
NO_SCHEME: Final = "No compressed-tensors compatible scheme was found."
SPLIT_OUTPUTS: Final = frozenset({"gate_up_proj", "up_proj", "qkv_proj"})
"""Modules whose outputs tensor parallelism splits in every class."""


def check_layouts(architecture: ModelArchitecture, deployment: Parallelism, release: Version) -> None:
    """Refuse quantized weights that a release does not build.

    Raises:
        EngineRefusal: stage ``model``.
    """
    if architecture.quantization is None or not architecture.quantization.schemes:
        return
    # GPUs on which the release builds the same weights share a result.
    kernels = weight_layout_at(release).representative(deployment.compute_capability)
    refusal = _refusal(architecture, replace(deployment, compute_capability=kernels), release)
    if refusal is not None:
        raise refusal


@lru_cache(maxsize=256)
def _refusal(
    architecture: ModelArchitecture, deployment: Parallelism, release: Version
) -> EngineRefusal | None:
    """Return the first refusal in the order in which layers are built."""
    method = "" if architecture.quantization is None else architecture.quantization.method
    sizes, rules = module_bytes_of(architecture, deployment, release), rules_for(release).layouts
    found: dict[tuple[str, WeightScheme], Module] = {}
    for modules in layer_modules_of(architecture, deployment, release):
        for module in modules:
            scheme = sizes.scheme_of(module)
            if scheme is not None and not _may_be_whole(module, deployment.shards):
                found.setdefault((_last(module), scheme), module)
    faults = (_faults(module, scheme, method, rules) for (_, scheme), module in found.items())
    words = next(chain.from_iterable(faults), None)
    return None if words is None else EngineRefusal(Stage.MODEL, words[1], type=words[0])


def _may_be_whole(module: Module, shards: Shards) -> bool:
    """Return whether each rank may have all of a shared expert, which depends on the model's class.

    Source: vLLM 0.12.0 to 0.33.0, ParallelConfig.use_sequence_parallel_moe; ``disable_tp`` of its layers.
    """
    sizes = (shards.tensor_parallel_size, shards.data_parallel_size, shards.expert_parallel_size)
    return isinstance(module, Linear) and ".shared_expert" in module.name and min(sizes) > 1


def _last(module: Module) -> str:
    return module.name.rpartition(".")[2] if isinstance(module, Linear | Experts) else ""


def _faults(
    module: Module, scheme: WeightScheme, method: str, rules: LayoutRules
) -> Iterator[tuple[str, str]]:
    """Yield the class and the words of what the release raises about a module."""
    if isinstance(module, Experts):
        if method == "compressed-tensors":
            yield from _compressed_experts(module, scheme, rules)
        if method == "quark" and scheme.format is WeightFormat.INT8 and not rules.quark_int8_experts:
            yield "RuntimeError", "Unsupported FusedMoe scheme"
    elif isinstance(module, Linear):
        if method == "compressed-tensors" and not _has_linear(scheme, rules):
            yield "NotImplementedError", NO_SCHEME
        if scheme.format is WeightFormat.FP8 and scheme.granularity is Granularity.BLOCK:
            yield from _blocks(module, scheme.block or (128, 128), method, rules)


def _has_linear(scheme: WeightScheme, rules: LayoutRules) -> bool:
    """Source: vLLM 0.12.0 to 0.33.0, CompressedTensorsConfig._get_scheme_from_parts."""
    packed = scheme.format is WeightFormat.PACKED
    return scheme.format.value in rules.compressed_formats and (
        not packed or str(scheme.bits) in rules.packed_bits
    )


def _blocks(
    linear: Linear, block: tuple[int, int], method: str, rules: LayoutRules
) -> Iterator[tuple[str, str]]:
    """Source: vLLM 0.15.1 to 0.33.0, utils/fp8_utils.py validate_fp8_block_shape."""
    high, wide = block
    if linear.input_shards > 1 and linear.inputs % wide:
        yield "ValueError", INPUT_BLOCKS.format(size=linear.inputs, block=wide)
    if _last(linear) not in SPLIT_OUTPUTS or not linear.splits_outputs or _unaligned(linear, method, rules):
        return
    for output in linear.outputs:
        if output % high:
            yield "ValueError", OUTPUT_BLOCKS.format(size=output, block=high)


def _unaligned(linear: Linear, method: str, rules: LayoutRules) -> bool:
    """Return whether the release builds a fused module whatever the widths of its projections."""
    return len(linear.outputs) > 1 and method in rules.unaligned_projections


def _compressed_experts(
    experts: Experts, scheme: WeightScheme, rules: LayoutRules
) -> Iterator[tuple[str, str]]:
    """Source: vLLM 0.19.0 to 0.33.0, compressed_tensors_moe: get_moe_method and create_weights."""
    width = experts.intermediate_size
    if scheme.format.value not in rules.compressed_expert_formats:
        yield "RuntimeError", "Unsupported FusedMoe scheme"
    if scheme.format is WeightFormat.INT8 and scheme.static_activations:
        yield "RuntimeError", "Unsupported FusedMoe scheme"
    if scheme.format is WeightFormat.FP8 and scheme.weight_only:
        yield "ValueError", WEIGHT_ONLY_EXPERTS
    if scheme.format is WeightFormat.FP8 and scheme.granularity is Granularity.BLOCK:
        block = (scheme.block or (128, 128))[0]
        if width % block:
            yield "ValueError", EXPERT_BLOCKS.format(size=width, block=block)
    if scheme.format is WeightFormat.PACKED:
        yield from _packed_experts(experts, scheme, rules)


def _packed_experts(experts: Experts, scheme: WeightScheme, rules: LayoutRules) -> Iterator[tuple[str, str]]:
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
    if not (scheme.symmetric or rules.asymmetric_experts):
        yield "AssertionError", "Only symmetric quantization is supported for MoE"
    group = scheme.group_size
    if group is not None and width % group and rules.expert_group_refusal:
        yield "ValueError", rules.expert_group_refusal.format(width=width, group=group)
