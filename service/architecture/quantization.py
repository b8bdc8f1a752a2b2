"""How a checkpoint's weights and cache are quantized, as its config says."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from service.architecture.config import Config, InvalidConfig
from service.architecture.scheme_readers import quantizes_output, read_scheme_groups
from service.architecture.sparsity import Sparsity, read_sparsity
from service.architecture.weight_schemes import (
    MXFP8_SCHEME,
    SchemeGroup,
    WeightScheme,
    read_expert_scheme,
    read_ignored,
)

FP8_BITS: Final = 8
NVFP4_BITS: Final = 4
MICROSCALED_BLOCK: Final = (32, 32)
"""Blocks of fp8 of which each row of 32 gets a scale where experts have 4 bits.

Source: vLLM 0.30.0 to 0.33.0, models/deepseek_v41/quant_config.py DeepseekV4FP8Config.get_quant_method.
"""


@dataclass(frozen=True, slots=True)
class KvCacheScheme:
    """The cache format that a checkpoint was calibrated for (``kv_cache_scheme``)."""

    num_bits: int
    type: str
    dynamic: bool | None
    """``None``: it does not say."""
    symmetric: bool
    strategy: str


@dataclass(frozen=True, slots=True)
class Quantization:
    """A checkpoint's ``quantization_config``."""

    method: str
    """``quant_method`` in the engine's spelling, e.g. ``compressed-tensors`` or ``modelopt_fp4``."""
    algorithm: str = ""
    """ModelOpt's ``quant_algo``, upper case; empty for what others quantized."""
    by_modelopt: bool = False
    """Whether the engine's classes for ModelOpt build the weights."""
    output: bool = False
    """Whether the output embedding is quantized too (``lm_head``)."""
    names_modelopt: bool = False
    """Whether the config itself names ModelOpt, and not only what it produced."""
    kv_cache_algorithm: str | None = None
    """ModelOpt's ``kv_cache_quant_algo``, lower case."""
    kv_cache_scheme: KvCacheScheme | None = None
    data_type: str = ""
    """AutoRound's ``data_type``; empty for what others quantized."""
    activation_type: str = ""
    """AutoRound's ``act_data_type``; empty where the checkpoint does not say it."""
    packing_format: str = ""
    """AutoRound's ``packing_format``; empty where the checkpoint does not say it."""
    bits: int | None = None
    group_size: int | None = None
    symmetric: bool = True
    block_shape: tuple[int, ...] = ()
    """Rows and columns that share one scale (block-quantized fp8); empty without blocks."""
    schemes: tuple[SchemeGroup, ...] = ()
    """How weights are stored; none when the method's layout is not known."""
    ignored: tuple[str, ...] = ()
    """Names and patterns of modules that stay unquantized."""
    file_algorithm: str = ""
    """ModelOpt's ``quant_algo``, as its own file spells it; empty in the form of config.json."""
    expert_scheme: WeightScheme | None = None
    """How routed experts are stored where the config says so apart (DeepSeek V4)."""
    missing: tuple[str, ...] = ()
    """Names of a field of which the method needs one, and the config has none."""
    sparsity: Sparsity | None = None
    """Whether compressed-tensors leaves weights out that are zero; ``None`` where it does not."""

    @property
    def cache_algorithm(self) -> str | None:
        """The cache format that a ModelOpt checkpoint names, stated by scheme or by algorithm.

        Source: vLLM 0.32.0, utils/torch_utils.py get_kv_cache_quant_algo_string.
        """
        scheme = self.kv_cache_scheme
        if scheme is None:
            return self.kv_cache_algorithm
        if scheme.type != "float":
            return None
        static = {FP8_BITS: "fp8", NVFP4_BITS: "nvfp4"} if scheme.dynamic is False else {NVFP4_BITS: "nvfp4"}
        return static.get(scheme.num_bits)


REQUIRED: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "fp8": (("activation_scheme",),),
    "fbgemm_fp8": (("modules_to_not_convert",), ("activation_scale_ub",)),
}
"""Fields that a method needs, each by its possible names.

Source: vLLM 0.10.2 to 0.33.0, fp8.py and fbgemm_fp8.py from_config: get_from_keys.
"""
AUTO_ROUND: Final = frozenset({"inc", "auto-round", "auto_round"})
UNQUANTIZED_BITS: Final = 16
"""Bits of the smallest weights that are not quantized."""
NESTED_METHODS: Final = {
    "FP8": "modelopt",
    "FP8_PER_CHANNEL_PER_TOKEN": "modelopt",
    "FP8_PB_WO": "modelopt",
    "NVFP4": "modelopt_fp4",
    "MIXED_PRECISION": "modelopt_mixed",
}
"""Methods of a section in the form of ModelOpt's own file; any other algorithm is an error there.

Source: vLLM 0.32.0 and 0.33.0, ModelArchConfigConvertorBase._normalize_quantization_config.
"""
FLAT_METHODS: Final = NESTED_METHODS | {
    "W4A16_NVFP4": "modelopt_fp4",
    "MXFP8": "modelopt_mxfp8",
}
"""Methods of a section that names ModelOpt itself: vLLM 0.32.0, modelopt.py override_quantization_method."""


EXPERTS_ALONE: Final = ("kimi_k3", "compressed-tensors", "mxfp4-pack-quantized")
"""Type of the model, method and format of a checkpoint that is run as MXFP4's, which quantizes experts alone.

Source: vLLM 0.27.0 to 0.33.0, models/config.py KimiK3ForConditionalGenerationConfig; mxfp4.py Mxfp4Config.
"""


def read_quantization(config: Config, text: Config) -> Quantization | None:
    """Read the quantization of a checkpoint, from the whole config or else its text part.

    A section that names no method means an unquantized checkpoint to the engine, and so to us.

    Raises:
        InvalidConfig: the section is malformed.
    """
    section = _section(config, text)
    method = _method(section) if section is not None else ""
    if section is None or not method:
        return None
    if (config.text("model_type"), method, section.text("format")) == EXPERTS_ALONE:
        method = "mxfp4"
    inner = section.section("quantization") or section
    blocks = method in AUTO_ROUND and isinstance(section.fields.get("group_size"), list)
    block_shape = _block_shape(section, "group_size" if blocks else "weight_block_size")
    experts = read_expert_scheme(section, text) if method == "fp8" else None
    microscaled = experts is not None and block_shape == MICROSCALED_BLOCK
    sparsity = read_sparsity(section) if method == "compressed-tensors" else None
    # The layout of the kernel for sparse weights is not modelled: nothing is computed of it.
    stored = () if sparsity is Sparsity.ON_KERNEL else read_scheme_groups(section, method)
    return Quantization(
        method=method,
        algorithm=inner.text("quant_algo").upper() if method.startswith("modelopt") else "",
        by_modelopt=method.startswith("modelopt") or method == "mxfp8",
        output=quantizes_output(section, method),
        file_algorithm=inner.text("quant_algo") if _is_modelopt_file(section) else "",
        names_modelopt=section.text("quant_method").lower() == "modelopt",
        kv_cache_algorithm=_algorithm(section, inner),
        kv_cache_scheme=_scheme(inner, section),
        data_type=section.text("data_type", default="int") if method in AUTO_ROUND else "",
        activation_type=section.text("act_data_type") if method in AUTO_ROUND else "",
        packing_format=section.text("packing_format") if method in AUTO_ROUND else "",
        bits=section.optional_integer("bits", maximum=64),
        group_size=None if blocks else section.optional_integer("group_size", minimum=-1),
        block_shape=block_shape,
        symmetric=section.boolean("sym", default=not section.boolean("zero_point")),
        schemes=(SchemeGroup(MXFP8_SCHEME),) if microscaled else stored,
        ignored=read_ignored(section, method),
        expert_scheme=experts,
        missing=next((names for names in REQUIRED.get(method, ()) if not _any_of(names, section)), ()),
        sparsity=sparsity,
    )


def _any_of(names: tuple[str, ...], section: Config) -> bool:
    return any(name in section for name in names)


def _section(config: Config, text: Config) -> Config | None:
    return (
        config.section("quantization_config")
        or config.section("compression_config")
        or text.section("quantization_config")
        or text.section("compression_config")
    )


def _block_shape(section: Config, key: str) -> tuple[int, ...]:
    sides = section.counts(key)
    if 0 in sides:
        raise InvalidConfig(section.at(key), "has a side of no elements")
    return sides


def _method(section: Config) -> str:
    """Return the method by the engine's name; ModelOpt's follows from its algorithm."""
    nested = section.section("quantization")
    method = section.text("quant_method").lower().replace("compressed_tensors", "compressed-tensors")
    if nested is not None and _is_modelopt_file(section):
        return _by_algorithm(nested, NESTED_METHODS)
    return _by_algorithm(nested or section, FLAT_METHODS) if method == "modelopt" else method


def _is_modelopt_file(section: Config) -> bool:
    """Whether a section is in the form of ModelOpt's own file: by its producer, or by how it was made.

    Source: vLLM 0.26.0 to 0.33.0, ModelArchConfigConvertorBase._normalize_quantization_config. Before, a file
    without a producer was none; the models that have such came with 0.26.0.
    """
    nested, producer = section.section("quantization"), section.section("producer")
    if nested is None:
        return False
    return "modelopt_quant_config" in nested or (producer is not None and producer.text("name") == "modelopt")


def _by_algorithm(part: Config, methods: Mapping[str, str]) -> str:
    algorithm = part.text("quant_algo")
    if algorithm.upper() not in methods:
        raise InvalidConfig(part.at("quant_algo"), f"Unknown ModelOpt quant algo: {algorithm.lower()}")
    return methods[algorithm.upper()]


def unnamed_quantization(config: Config, text: Config) -> str | None:
    """Return what a section without a method says of the weights, such as ``quant_algo FP8`` or ``4 bits``.

    The engine ignores such a section. MLX writes sections that hold ``bits`` and ``group_size`` alone.

    Source: vLLM 0.11.0 to 0.33.0, ModelConfig._verify_quantization: without ``quant_method``, and without
    ``producer`` in the form of ModelOpt's own file, the model is built unquantized.
    """
    section = _section(config, text)
    if section is None or _method(section):
        return None
    inner = section.section("quantization") or section
    algorithm, bits = inner.text("quant_algo"), inner.optional_integer("bits", maximum=64)
    if algorithm:
        return f"quant_algo {algorithm}"
    return None if bits is None or bits >= UNQUANTIZED_BITS else f"{bits} bits"


def _algorithm(section: Config, inner: Config) -> str | None:
    algorithm = inner.text("kv_cache_quant_algo") or section.text("kv_cache_quant_algo")
    return algorithm.lower() or None


def _scheme(inner: Config, section: Config) -> KvCacheScheme | None:
    # Some checkpoints have a word there, of which the engine takes no notice.
    parts = (part for part in (inner, section) if isinstance(part.fields.get("kv_cache_scheme"), Mapping))
    scheme = next((part.section("kv_cache_scheme") for part in parts), None)
    if scheme is None:
        return None
    return KvCacheScheme(
        num_bits=scheme.integer("num_bits", maximum=64),
        type=scheme.text("type"),
        dynamic=scheme.boolean("dynamic") if "dynamic" in scheme else None,
        symmetric=scheme.boolean("symmetric", default=True),
        strategy=scheme.text("strategy", default="tensor"),
    )
