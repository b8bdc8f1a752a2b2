"""What a release refuses while it builds quantized weights: layouts it lacks, sizes that do not divide."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, starmap
from typing import Final

from packaging.version import Version

from service.architecture.long_lists import LONG_LISTS
from service.architecture.model import ModelArchitecture
from service.architecture.quantization import AUTO_ROUND
from service.architecture.weight_schemes import Granularity, WeightFormat, WeightScheme
from service.engines.refusal import EngineRefusal, Stage
from service.engines.releases import rules_for
from service.engines.rules.auto_round import AutoRoundRules
from service.engines.rules.layouts import LayoutRules
from service.engines.rules.packed_experts import PackedExpertRules
from service.engines.rules.quark import QuarkRules
from service.memory.parallelism import Parallelism
from service.memory.shards import Shards
from service.memory.weights.checks.auto_round_checks import auto_round_experts, auto_round_faults
from service.memory.weights.checks.compressed_checks import (
    compressed_experts,
    compressed_linear,
    expert_blocks,
    is_whole_rows,
    packed_experts,
)
from service.memory.weights.checks.mixed_shards import mixed_shards
from service.memory.weights.checks.modelopt_checks import modelopt_experts, modelopt_linear
from service.memory.weights.checks.packed_kernels import Device, packed_faults
from service.memory.weights.checks.quark_checks import quark_linear
from service.memory.weights.counts.parameters import (
    layer_modules_of,
    module_bytes_of,
    modules_of_ends,
    tower_modules_of,
)
from service.memory.weights.modules import (
    Experts,
    Linear,
    Module,
)
from service.memory.weights.schemes.module_bytes import AS_STORED
from service.memory.weights.schemes.module_schemes import AWQ_METHODS, COMPRESSED_TENSORS, MODELOPT_MIXED
from service.memory.weights.schemes.quantized import refines, runs_on_marlin
from service.memory.weights.weight_layout import QuantizedLayout, weight_layout_at

INPUT_BLOCKS: Final = (
    "Weight input_size_per_partition = {size} is not divisible by weight quantization block_k = {block}."
)
OUTPUT_BLOCKS: Final = (
    "Weight output_partition_size = {size} is not divisible by weight quantization block_n = {block}."
)
UNMATCHED: Final = "Unable to find matching target for {layer} in the compressed-tensors config."
NEGATIVE_SIZE: Final = "Trying to create tensor with negative dimension -{hidden}: {shape}"
LEAST_GROUP: Final = 32
GENERAL_FORMATS: Final = frozenset({WeightFormat.AWQ, WeightFormat.GPTQ})
"""Formats of experts that other kernels take where Marlin does not."""
UNNAMED_EXPERTS: Final = (
    "The checkpoint's lists name the projections of its experts gate_proj, up_proj and down_proj. This "
    "release looks for the names of the model's own class, so it builds the experts unquantized, and has no "
    "parameters for their packed weights: reading the checkpoint fails with a KeyError."
)
"""vLLM 0.33.0, CompressedTensorsMoEMethod.get_moe_method, DeepseekV4Model.load_weights (params_dict)."""
PACKED_IN_PLAIN: Final = (
    "The checkpoint stores layers in a layout (W4A16_NVFP4 or MXFP8) that this release does not know in "
    "mixed ModelOpt checkpoints: it builds them unquantized, and their packed weights do not fit there: "
    "reading the checkpoint fails. The weights are counted as they are built."
)
"""vLLM 0.21.0, ModelOptMixedPrecisionConfig.get_quant_method (FP8 and NVFP4 alone), layers/linear.py
weight_loader."""
SPLIT_OUTPUTS: Final = frozenset(
    {"fused_qkv_a_proj", "gate_up_proj", "kv_b_proj", "q_b_proj", "q_proj", "qkv_proj", "up_proj"}
    | {"per_layer_model_projection"}
)
"""Modules that every class fuses, or splits by their outputs, as they are counted here."""
TRANSFORMERS_MXFP4: Final = "Transformers modeling backend does not support MXFP4 quantization yet."
"""vLLM 0.22.1 to 0.32.0, models/transformers/base.py."""
PACKED_FORMATS: Final = frozenset({WeightFormat.AWQ, WeightFormat.GPTQ, WeightFormat.PACKED})


def check_layouts(architecture: ModelArchitecture, deployment: Parallelism, release: Version) -> None:
    """Refuse quantized weights that a release does not build.

    Raises:
        EngineRefusal: stage ``model``.
    """
    if architecture.quantization is None or not architecture.quantization.schemes:
        return
    by_transformers = architecture.class_name in weight_layout_at(release).stages.transformers_classes
    if by_transformers and architecture.quantization.method == "mxfp4":
        raise EngineRefusal(Stage.MODEL, TRANSFORMERS_MXFP4, type="NotImplementedError")
    refusal = _refusal(architecture, deployment, release)
    if refusal is not None:
        raise refusal


def check_towers(architecture: ModelArchitecture, deployment: Parallelism, release: Version) -> None:
    """Refuse quantized weights of encoders that a release does not build.

    Of AWQ and GPTQ without a list the checkpoint's tensors say which modules are quantized, and tools leave
    encoders alone.

    Raises:
        EngineRefusal: stage ``model``.
    """
    quantization = architecture.quantization
    if quantization is None or not quantization.schemes:
        return
    if quantization.method in AS_STORED and not (quantization.ignored and quantization.method in AWQ_METHODS):
        return
    refusal = _refusal(architecture, deployment, release, towers=True)
    if refusal is not None:
        raise refusal


@LONG_LISTS.emptied
@lru_cache(maxsize=256)
def unread_weights(
    architecture: ModelArchitecture, deployment: Parallelism, release: Version
) -> tuple[str, ...]:
    """Return why reading the checkpoint would fail though the release builds its model; empty if not."""
    quantization = architecture.quantization
    if quantization is None or quantization.method not in {COMPRESSED_TENSORS, MODELOPT_MIXED}:
        return ()
    sizes = module_bytes_of(architecture, deployment, release)
    if sizes.leaves_packed:
        return (PACKED_IN_PLAIN,)
    built = chain.from_iterable(layer_modules_of(architecture, deployment, release))
    return (UNNAMED_EXPERTS,) if any(map(sizes.lacks_names_of, built)) else ()


@LONG_LISTS.emptied
@lru_cache(maxsize=256)
def _refusal(
    architecture: ModelArchitecture, deployment: Parallelism, release: Version, *, towers: bool = False
) -> EngineRefusal | None:
    """Return the first refusal in the order in which layers, or ``towers``, are built.

    Layers may differ: every module is looked at, those of one name, scheme and size once.
    """
    sizes = module_bytes_of(architecture, deployment, release)
    quantization = architecture.quantization
    loader = _Loader(
        "" if quantization is None else quantization.method,
        quantization is not None and quantization.by_modelopt,
        Device(
            deployment.compute_capability,
            deployment.dtype or architecture.dtype,
            by_list=quantization is not None and bool(quantization.ignored),
        ),
        rules_for(release).layouts,
        rules_for(release).packed_experts,
        rules_for(release).auto_round,
        rules_for(release).quark,
        sizes.layout,
        towers,
    )
    seen: set[tuple[object, ...]] = set()
    built = (
        tower_modules_of(architecture, deployment, release)
        if towers
        else chain(
            chain.from_iterable(layer_modules_of(architecture, deployment, release)),
            modules_of_ends(architecture, deployment, release),
        )
    )
    for module in built:
        scheme = sizes.scheme_of(module)
        unmatched = sizes.unmatched_name(module) if scheme is None else None
        if unmatched is not None:
            return _refuse("ValueError", UNMATCHED.format(layer=unmatched))
        mixed = mixed_shards(sizes, module, loader.rules)
        if mixed is not None:
            return _refuse("ValueError", mixed)
        kind = (_last(module), scheme, *_sizes(module))
        if scheme is None or kind in seen or _may_be_whole(module, deployment.shards):
            continue
        seen.add(kind)
        fault = next(loader.faults(module, scheme), None)
        if fault is not None:
            return fault
    return None


def _sizes(module: Module) -> tuple[object, ...]:
    if isinstance(module, Experts):
        return module.hidden_size, module.intermediate_size
    return (module.inputs, module.outputs) if isinstance(module, Linear) else ()


def _may_be_whole(module: Module, shards: Shards) -> bool:
    """Return whether each rank may have all of a shared expert, which depends on the model's class.

    Source: vLLM 0.12.0 to 0.33.0, ParallelConfig.use_sequence_parallel_moe; ``disable_tp`` of its layers.
    """
    sizes = (shards.tensor_parallel_size, shards.data_parallel_size, shards.expert_parallel_size)
    return isinstance(module, Linear) and ".shared_expert" in module.name and min(sizes) > 1


def _last(module: Module) -> str:
    return module.name.rpartition(".")[2] if isinstance(module, Linear | Experts) else ""


@dataclass(frozen=True, slots=True)
class _Loader:
    """What builds the modules: the checkpoint's method, the release and the GPU."""

    method: str
    by_modelopt: bool
    device: Device
    rules: LayoutRules
    packed_experts: PackedExpertRules
    auto_round: AutoRoundRules
    quark: QuarkRules
    layout: QuantizedLayout
    towers: bool = False
    """What is built are encoders."""

    def faults(self, module: Module, scheme: WeightScheme) -> Iterator[EngineRefusal]:
        """Yield what the release raises about a module."""
        if isinstance(module, Experts):
            yield from self._experts(module, scheme)
        elif isinstance(module, Linear):
            yield from self._linear(module, scheme)

    def _experts(self, experts: Experts, scheme: WeightScheme) -> Iterator[EngineRefusal]:
        blocks = scheme.format is WeightFormat.FP8 and scheme.granularity is Granularity.BLOCK
        if self.method == "compressed-tensors":
            faults = compressed_experts(experts, scheme, self.device.compute_capability, self.rules)
            yield from starmap(_refuse, faults)
            if scheme.format is WeightFormat.PACKED:
                yield from starmap(_refuse, self._packed_experts(experts, scheme))
        if (
            blocks
            and self.method == "fp8"
            and (self.rules.expert_block_check or not refines(experts, scheme))
        ):
            yield from starmap(_refuse, expert_blocks(experts, scheme))
        if self.method == "quark" and scheme.format is WeightFormat.INT8 and not self.quark.int8_experts:
            yield _refuse("RuntimeError", "Unsupported FusedMoe scheme")
        if self.method in AUTO_ROUND:
            yield from auto_round_experts(scheme)
        if self.by_modelopt:
            yield from modelopt_experts(experts, scheme)
        if scheme.format in GENERAL_FORMATS and self._on_marlin(experts, scheme):
            yield from starmap(_refuse, _marlin_experts(experts, scheme))
        elif scheme.format in GENERAL_FORMATS:
            yield from starmap(_refuse, self._general_experts(experts, scheme))

    def _packed_experts(self, experts: Experts, scheme: WeightScheme) -> Iterator[tuple[str, str]]:
        rules, on_marlin = self.packed_experts, self._on_marlin(experts, scheme)
        asymmetric = rules.asymmetric_experts and (rules.asymmetric_without_marlin or on_marlin)
        yield from packed_experts(experts, scheme, rules, asymmetric=asymmetric)
        if scheme.activation_order and rules.ordered_experts_error and not on_marlin:
            yield rules.ordered_experts_error, rules.ordered_experts_refusal
        if is_whole_rows(scheme) and not on_marlin:
            yield "AssertionError", ""

    def _general_experts(self, experts: Experts, scheme: WeightScheme) -> Iterator[tuple[str, str]]:
        """Yield what the kernels raise that take experts of AWQ and GPTQ where Marlin does not.

        A group of whole rows is -1 to them, and they divide by it. Groups are halved until they divide both
        sizes.

        Source: vLLM 0.14.0 to 0.33.0, moe_wna16.py MoeWNA16Method.create_weights.
        """
        if self.method in AUTO_ROUND and str(scheme.bits) in self.auto_round.humming_bits:
            return
        hidden, width, group = experts.hidden_size, experts.intermediate_size, scheme.group_size
        if group is None:
            shape = f"[{experts.count}, {2 * width}, -{hidden}]"
            yield "RuntimeError", NEGATIVE_SIZE.format(hidden=hidden, shape=shape)
            return
        while width % group or hidden % group:
            group //= 2
            if group < LEAST_GROUP:
                yield "AssertionError", ""
                return

    def _on_marlin(self, experts: Experts, scheme: WeightScheme) -> bool:
        return runs_on_marlin(experts, scheme, self.layout)

    def _linear(self, linear: Linear, scheme: WeightScheme) -> Iterator[EngineRefusal]:
        blocks = scheme.format is WeightFormat.FP8 and scheme.granularity is Granularity.BLOCK
        if self.method == "compressed-tensors":
            faults = compressed_linear(scheme, self.device.compute_capability, self.rules)
            yield from starmap(_refuse, faults)
        if self.method == "quark":
            yield from starmap(_refuse, quark_linear(scheme, self.device.compute_capability, self.quark))
        if self.by_modelopt:
            yield from modelopt_linear(linear, scheme, self.rules)
        elif blocks:
            yield from starmap(_refuse, self._blocks(linear, scheme.block or (128, 128)))
        if self.method in AUTO_ROUND:
            yield from auto_round_faults(linear, scheme, self.auto_round)
        if scheme.format in PACKED_FORMATS:
            yield from packed_faults(linear, scheme, self.method, self.device, self.rules)

    def _blocks(self, linear: Linear, block: tuple[int, int]) -> Iterator[tuple[str, str]]:
        """Source: vLLM 0.15.1 to 0.33.0, utils/fp8_utils.py validate_fp8_block_shape.

        Of a fused matrix that is not split, the last projection may end inside a block.
        """
        high, wide = block
        if linear.input_shards > 1 and linear.inputs % wide:
            yield "ValueError", INPUT_BLOCKS.format(size=linear.inputs, block=wide)
        known = self.towers or linear.splits_outputs or _last(linear) in SPLIT_OUTPUTS
        if not known or _unaligned(linear, self.method, self.rules):
            return
        for output in linear.outputs if linear.splits_outputs else linear.outputs[:-1]:
            if output % high:
                yield "ValueError", OUTPUT_BLOCKS.format(size=output, block=high)


def _refuse(kind: str, words: str) -> EngineRefusal:
    return EngineRefusal(Stage.MODEL, words, type=kind)


def _unaligned(linear: Linear, method: str, rules: LayoutRules) -> bool:
    """Return whether the release builds a fused module whatever the widths of its projections."""
    return len(linear.outputs) > 1 and method in rules.unaligned_projections


def _marlin_experts(experts: Experts, scheme: WeightScheme) -> Iterator[tuple[str, str]]:
    """Yield what Marlin's class for AWQ raises, which takes a group of whole rows for -1 too.

    Source: vLLM 0.14.0 to 0.33.0, AWQMarlinMoEMethod and AutoAWQMoEMethod: num_groups_w13.
    """
    if scheme.format is WeightFormat.AWQ and scheme.group_size is None:
        shape = f"[{experts.count}, -{experts.hidden_size}, {2 * experts.intermediate_size}]"
        yield "RuntimeError", NEGATIVE_SIZE.format(hidden=experts.hidden_size, shape=shape)
