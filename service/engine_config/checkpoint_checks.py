"""Whether the release and the GPU can load a quantized checkpoint."""

from typing import Final

from service.architecture.auto_round_schemes import FP8_TYPES
from service.architecture.layers.experts import MixtureOfExperts
from service.architecture.model import ModelArchitecture
from service.architecture.quantization import Quantization
from service.architecture.weight_schemes import AWQ_BITS, WeightFormat
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.auto_round import AutoRoundRules
from service.engines.rules.checkpoints import CheckpointRules
from service.engines.rules.config_fields import ConfigFieldRules
from service.engines.rules.gguf import GGUF, GgufRules
from service.engines.rules.layouts import LayoutRules
from service.gpus.capability import ComputeCapability

AWQ_METHODS: Final = frozenset({"awq", "awq_marlin", "auto_awq"})
MX_TYPE: Final = "mx_fp"
MXFP8: Final = "MXFP8"
FP8_ACTIVATIONS: Final = "fp"
FP8_BITS: Final = 8
"""Values of AutoRound's data_type and bits that mean fp8 in blocks."""
MARLIN_BITS: Final = frozenset({4, 8})
MARLIN_GROUPS: Final = frozenset({-1, 32, 64, 128})
"""GPTQ checkpoints of these shapes run on Marlin kernels (vLLM 0.19.0, gptq_marlin.py)."""


def check_checkpoint(
    quantization: Quantization | None,
    dtype: str,
    capability: ComputeCapability,
    rules: CheckpointRules,
    *,
    flag: str | None = None,
) -> None:
    """Refuse a checkpoint format that this GPU or this release cannot run; ``flag``: ``--quantization``.

    Source: vLLM 0.32.0, VllmConfig._get_quantization_config.

    Raises:
        EngineRefusal: stage ``config``.
    """
    if quantization is None:
        return
    minimum = rules.quantization_min_capability.get(quantization.method)
    current = capability.major * 10 + capability.minor
    if minimum is not None and current < int(minimum):
        raise EngineRefusal(
            Stage.CONFIG,
            f"VllmConfig: The quantization method {quantization.method} is not supported for the current "
            f"GPU. Minimum capability: {minimum}. Current capability: {current}.",
            type="ValidationError",
        )
    if quantization.missing:
        names = list(quantization.missing)
        words = f"VllmConfig: Cannot find any of {names} in the model's quantization config."
        raise EngineRefusal(Stage.CONFIG, words, type="ValidationError")
    _check_activation_order(quantization, rules)
    forced = flag == quantization.method
    if quantization.method == "gptq" and (not _runs_on_marlin(quantization) or (forced and rules.plain_gptq)):
        _check_plain_gptq(quantization, dtype, rules)
        return
    if quantization.method == "awq" and rules.plain_awq and (forced or not _is_marlin_awq(quantization)):
        if dtype != "float16" and quantization.bits in (None, AWQ_BITS):
            raise _unsupported(dtype, "awq", ("float16",))
        return
    for types in rules.activation_types:
        online = types.name.startswith("modelopt") and not quantization.by_modelopt
        if types.checkpoint == quantization.method and dtype not in types.dtypes and not online:
            raise _unsupported(dtype, types.name, types.dtypes)


def check_gguf(
    quantization: Quantization | None, dtype: str, capability: ComputeCapability, rules: GgufRules
) -> None:
    """Refuse a type in which a release does not run weights in GGUF's format on a GPU.

    Raises:
        EngineRefusal: stage ``config``.
    """
    least = rules.least_major_without_bfloat16
    if quantization is None or quantization.method != GGUF or least is None or capability.major < least:
        return
    if dtype == "bfloat16":
        raise _unsupported(dtype, GGUF, ("float16", "float32"))


ORDERED: Final = {
    WeightFormat.GPTQ: "GPTQ group activation ordering (desc_act=True) is no longer supported. Use a "
    "checkpoint with static activation ordering or desc_act=False.",
    WeightFormat.PACKED: "Compressed-tensors group/dynamic activation ordering (actorder='group') is no "
    "longer supported. Use a checkpoint with static/weight activation ordering or without activation "
    "ordering.",
}
"""What vLLM 0.30.0 to 0.32.0 says of each format."""


def _check_activation_order(quantization: Quantization, rules: CheckpointRules) -> None:
    if rules.activation_order:
        return
    for group in quantization.schemes:
        scheme = group.scheme
        if scheme is not None and scheme.activation_order:
            raise EngineRefusal(Stage.CONFIG, f"VllmConfig: {ORDERED[scheme.format]}", type="ValidationError")


def check_modelopt_algorithm(quantization: Quantization | None, rules: LayoutRules) -> None:
    """Refuse an algorithm of ModelOpt that the release does not know.

    Raises:
        EngineRefusal: stage ``config``.
    """
    algorithms = rules.modelopt_algorithms
    if quantization is not None and quantization.algorithm and quantization.algorithm not in algorithms:
        raise EngineRefusal(
            Stage.CONFIG,
            f"VllmConfig: ModelOpt currently only supports: {list(algorithms)} quantizations in vLLM. Please "
            "check the `hf_quant_config.json` file for your model's quant configuration.",
            type="ValidationError",
        )


def check_method(quantization: Quantization | None, rules: LayoutRules, auto_round: AutoRoundRules) -> None:
    """Refuse a kind of AWQ, AutoRound or ModelOpt checkpoint that a release does not know.

    Raises:
        EngineRefusal: stage ``config``.
    """
    if quantization is None:
        return
    if quantization.algorithm == MXFP8 and rules.modelopt_mxfp8_refusal:
        words = f"ModelConfig: {rules.modelopt_mxfp8_refusal}"
        raise EngineRefusal(Stage.CONFIG, words, type="ValidationError")
    if quantization.method == MXFP8.lower() and rules.mxfp8_refusal:
        raise EngineRefusal(Stage.CONFIG, rules.mxfp8_refusal, type="NotImplementedError")
    _check_auto_round(quantization, auto_round)
    scheme = quantization.schemes[-1].scheme if quantization.schemes else None
    if quantization.method in AWQ_METHODS and scheme is not None and scheme.bits != AWQ_BITS:
        raise _invalid(rules.awq_refusal.format(bits=scheme.bits))


def _check_auto_round(quantization: Quantization, rules: AutoRoundRules) -> None:
    """Source: vLLM 0.14.0 to 0.33.0, INCConfig.__init__ and _validate_fp8_block_quantization."""
    known = rules.types
    # MXFP types have variants, such as "mx_fp_rceil".
    kind = MX_TYPE if MX_TYPE in quantization.data_type else quantization.data_type
    if kind in FP8_TYPES and known & FP8_TYPES:
        kind = next(iter(known & FP8_TYPES))
    if kind and kind not in known:
        words = f"Unsupported data_type: {quantization.data_type}, currently only support "
        raise _invalid(words + f"{{{', '.join(map(repr, sorted(known)))}}}.")
    packing, packings = quantization.packing_format, rules.packings
    if packing and packing not in packings:
        words = f"Unsupported packing_format: {packing}, currently only support "
        raise _invalid(words + f"{{{', '.join(map(repr, packings))}}}.")
    if quantization.data_type in FP8_TYPES and quantization.bits == FP8_BITS and rules.block_refusal:
        _check_fp8_blocks(quantization, rules.block_refusal)


def _check_fp8_blocks(quantization: Quantization, words: str) -> None:
    """Source: vLLM 0.29.0 to 0.33.0, INCConfig._validate_fp8_block_quantization and _validate_raw_config."""
    if quantization.group_size is not None:
        raise _invalid(words.format(group=quantization.group_size))
    found = quantization.activation_type
    if found and found != FP8_ACTIVATIONS:
        raise _invalid(
            f"INC block-wise FP8 only supports act_data_type={FP8_ACTIVATIONS!r}, but found "
            f"act_data_type={found!r}."
        )


def _invalid(words: str) -> EngineRefusal:
    return EngineRefusal(Stage.CONFIG, f"VllmConfig: {words}", type="ValidationError")


def _runs_on_marlin(quantization: Quantization) -> bool:
    return (
        quantization.bits in MARLIN_BITS
        and quantization.group_size in MARLIN_GROUPS
        and quantization.symmetric
    )


def _is_marlin_awq(quantization: Quantization) -> bool:
    """Source: vLLM 0.12.0 to 0.23.0, AWQMarlinConfig.is_awq_marlin_compatible."""
    return (
        quantization.bits == AWQ_BITS
        and quantization.group_size in MARLIN_GROUPS
        and not quantization.symmetric
    )


def _check_plain_gptq(quantization: Quantization, dtype: str, rules: CheckpointRules) -> None:
    if not rules.plain_gptq:
        raise EngineRefusal(
            Stage.CONFIG,
            f"VllmConfig: Unsupported quantization config: bits={quantization.bits}, "
            f"sym={quantization.symmetric}",
            type="ValidationError",
        )
    if dtype != "float16":
        raise _unsupported(dtype, "gptq", ("float16",))


def _unsupported(dtype: str, name: str, supported: tuple[str, ...]) -> EngineRefusal:
    return EngineRefusal(
        Stage.CONFIG,
        f"VllmConfig: torch.{dtype} is not supported for quantization method {name}. "
        f"Supported dtypes: [{', '.join(f'torch.{each}' for each in supported)}]",
        type="ValidationError",
    )


OF_TEXT: Final = "_text"
"""Ends of the types of configs that describe the text part of a model alone."""
TEXT_ALONE: Final = (
    "The config describes the text part alone (its model_type ends in _text), but `architectures` names the "
    "class for text and media, which reads a vision_config. Name the class for text (…ForCausalLM) in the "
    "config or by --hf-overrides, on a release that lists it."
)
"""Asked of vLLM 0.26.0: Qwen3.5's class with a config of qwen3_5_moe_text."""


def check_vision(architecture: ModelArchitecture, rules: ConfigFieldRules) -> None:
    """Refuse a config without a part on images where the class needs one.

    Raises:
        EngineRefusal: stage ``model``.
    """
    if architecture.declared.vision:
        return
    words = rules.vision_required.get(architecture.class_name)
    if words is not None:
        error, _, said = words.partition(": ")
        raise EngineRefusal(Stage.MODEL, said, type=error)
    if architecture.multimodal and architecture.model_type.endswith(OF_TEXT):
        words = f"the config class of {architecture.model_type} has no attribute 'vision_config'"
        raise EngineRefusal(Stage.MODEL, words, type="AttributeError", detail=TEXT_ALONE)


def check_clamped_experts(
    architecture: ModelArchitecture, capability: ComputeCapability, rules: CheckpointRules
) -> None:
    """Refuse NVFP4 experts with a clamp where no kernel of the release clamps.

    Source: vLLM 0.22.1 and 0.24.0, fused_moe/oracle/nvfp4.py NVFP4_BACKENDS_WITH_CLAMP.

    Raises:
        EngineRefusal: stage ``model``.
    """
    majors = rules.clamped_nvfp4_majors
    quantization = architecture.quantization
    scheme = None if quantization is None else quantization.expert_scheme
    if not majors or scheme is None or scheme.format is not WeightFormat.NVFP4:
        return
    clamped = any(
        isinstance(layer.feed_forward, MixtureOfExperts) and layer.feed_forward.clamped
        for layer in architecture.layers
    )
    if clamped and str(capability.major) not in majors:
        raise EngineRefusal(
            Stage.MODEL,
            "No NvFp4 MoE backend supports the deployment configuration.",
            type="NotImplementedError",
        )
