"""How quantized weights are stored: which modules, in how many bits, with which scales."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from service.architecture.config import Config


class WeightFormat(StrEnum):
    """How the elements of one weight are laid out."""

    FP8 = "fp8"
    INT8 = "int8"
    PACKED = "packed"
    """Integers packed along the input into 32-bit words, with a scale per group (compressed-tensors)."""
    AWQ = "awq"
    GPTQ = "gptq"
    NVFP4 = "nvfp4"
    MXFP4 = "mxfp4"
    MXFP8 = "mxfp8"
    """One byte an element, and one for each 32 inputs of a row."""
    BITSANDBYTES = "bitsandbytes"
    """Elements packed in the order they lie, with a 32-bit scale for each group of them."""


class Granularity(StrEnum):
    """How many elements share a scale."""

    TENSOR = "tensor"
    CHANNEL = "channel"
    BLOCK = "block"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class WeightScheme:
    """One way to store a weight matrix."""

    format: WeightFormat
    granularity: Granularity
    bits: int = 8
    group_size: int | None = None
    """Inputs (bitsandbytes: elements) that share a scale; ``None`` shares one along the whole row."""
    block: tuple[int, int] | None = None
    """Outputs and inputs that share a scale."""
    symmetric: bool = True
    static_activations: bool = False
    """The checkpoint brings a scale for the activations too."""
    weight_only: bool = False
    """Activations stay in the model's own type (W4A16)."""
    activation_order: bool = False


@dataclass(frozen=True, slots=True)
class SchemeGroup:
    """The modules that one scheme is for."""

    scheme: WeightScheme
    targets: tuple[str, ...] = ()
    """Module names and patterns; none means every linear layer."""


MAX_GROUPS: Final = 16
"""Groups of modules stored alike, each of which every module is held against; checkpoints have up to four."""
NVFP4_GROUP: Final = 16
MXFP4_GROUP: Final = 32
MXFP8_SCHEME: Final = WeightScheme(WeightFormat.MXFP8, Granularity.GROUP, group_size=32)
AWQ_BITS: Final = 4
BITSANDBYTES_GROUP: Final = 64
"""bitsandbytes, functional.quantize_4bit: its default, which no config changes."""
BITSANDBYTES_4BIT: Final = WeightScheme(
    WeightFormat.BITSANDBYTES, Granularity.GROUP, bits=4, group_size=BITSANDBYTES_GROUP, weight_only=True
)


def read_scheme_groups(section: Config, method: str) -> tuple[SchemeGroup, ...]:
    """Read which modules a ``quantization_config`` stores how.

    Nothing is returned for a method whose layout is not known: its weights cannot be computed.

    Raises:
        InvalidConfig: a field is malformed.
    """
    read = _READERS.get(method)
    return read(section) if read is not None else ()


def read_expert_scheme(section: Config, text: Config) -> WeightScheme | None:
    """Return how routed experts are stored where the model's config names their type apart.

    Source: vLLM 0.32.0, models/deepseek_v4/quant_config.py DeepseekV4FP8Config.
    """
    if section.text("moe_quant_algo") == "NVFP4":
        return WeightScheme(
            WeightFormat.NVFP4, Granularity.GROUP, bits=4, group_size=NVFP4_GROUP, static_activations=True
        )
    if text.text("expert_dtype") == "fp4":
        return WeightScheme(WeightFormat.MXFP4, Granularity.GROUP, bits=4, group_size=MXFP4_GROUP)
    return None


class Names(tuple[str, ...]):  # noqa: SLOT001 - its hash is kept in its dictionary
    """Names whose hash is worked out once: there may be thousands, looked up for every module."""

    _hash: int

    def __hash__(self) -> int:
        """Return the hash of the tuple."""
        try:
            return self._hash
        except AttributeError:
            self._hash = super().__hash__()
            return self._hash


def read_ignored(section: Config) -> tuple[str, ...]:
    """Return the names and patterns of the modules that stay unquantized."""
    inner = section.section("quantization") or section
    names: list[str] = []
    for key in (
        "ignore",
        "ignored_layers",
        "modules_to_not_convert",
        "exclude_modules",
        "llm_int8_skip_modules",
    ):
        for part in (section, inner) if inner is not section else (section,):
            names.extend(part.texts(key))
    return Names(dict.fromkeys(names))


def _group_size(section: Config, *names: str) -> int | None:
    size = section.optional_integer(*names, minimum=-1)
    return size if size is not None and size > 0 else None


def _block(section: Config, name: str) -> tuple[int, int] | None:
    sizes = section.counts(name)
    return (max(1, sizes[0]), max(1, sizes[1])) if len(sizes) > 1 else None


def _fp8(section: Config) -> tuple[SchemeGroup, ...]:
    block = _block(section, "weight_block_size")
    scheme = WeightScheme(
        WeightFormat.FP8,
        Granularity.BLOCK if block else Granularity.TENSOR,
        block=block,
        static_activations=section.text("activation_scheme") == "static",
    )
    return (SchemeGroup(scheme),)


def _awq(section: Config) -> tuple[SchemeGroup, ...]:
    scheme = WeightScheme(
        WeightFormat.AWQ,
        Granularity.GROUP,
        bits=section.integer("bits", "w_bit", default=AWQ_BITS, maximum=8),
        group_size=_group_size(section, "group_size", "q_group_size"),
        symmetric=not section.boolean("zero_point", default=True),
    )
    return (SchemeGroup(scheme),)


def _gptq(section: Config) -> tuple[SchemeGroup, ...]:
    scheme = WeightScheme(
        WeightFormat.GPTQ,
        Granularity.GROUP,
        bits=section.integer("bits", default=4, maximum=8),
        group_size=_group_size(section, "group_size"),
        symmetric=section.boolean("sym", default=True),
        activation_order=section.boolean("desc_act"),
    )
    return (SchemeGroup(scheme),)


def _bitsandbytes(section: Config) -> tuple[SchemeGroup, ...]:
    """Source: vLLM 0.24.0, BitsAndBytesConfig.from_config: four bits unless eight are asked for."""
    eight = section.boolean("load_in_8bit")
    whole_rows = WeightScheme(WeightFormat.BITSANDBYTES, Granularity.CHANNEL, bits=8)
    return (SchemeGroup(whole_rows if eight else BITSANDBYTES_4BIT),)


def _mxfp4(_: Config) -> tuple[SchemeGroup, ...]:
    return (SchemeGroup(WeightScheme(WeightFormat.MXFP4, Granularity.GROUP, bits=4, group_size=32)),)


def _mxfp8(_: Config) -> tuple[SchemeGroup, ...]:
    return (SchemeGroup(MXFP8_SCHEME),)


def modelopt_scheme(algorithm: str, group_size: int | None) -> WeightScheme | None:
    """Return the layout of one of ModelOpt's algorithms, or ``None`` for one that is not known."""
    match algorithm.upper():
        case "FP8":
            return WeightScheme(WeightFormat.FP8, Granularity.TENSOR, static_activations=True)
        case "FP8_PER_CHANNEL_PER_TOKEN":
            return WeightScheme(WeightFormat.FP8, Granularity.CHANNEL)
        case "FP8_PB_WO":
            return WeightScheme(WeightFormat.FP8, Granularity.BLOCK, block=(128, 128))
        case "MXFP8":
            return MXFP8_SCHEME
        case "NVFP4" | "W4A16_NVFP4" as name:
            return WeightScheme(
                WeightFormat.NVFP4,
                Granularity.GROUP,
                bits=4,
                group_size=group_size or NVFP4_GROUP,
                static_activations=name == "NVFP4",
                weight_only=name != "NVFP4",
            )
    return None


def _modelopt(section: Config) -> tuple[SchemeGroup, ...]:
    inner = section.section("quantization") or section
    size = _group_size(inner, "group_size")
    layers = inner.section("quantized_layers")
    if layers is None:
        scheme = modelopt_scheme(inner.text("quant_algo"), size)
        return (SchemeGroup(scheme),) if scheme is not None else ()
    targets: dict[WeightScheme, list[str]] = {}
    for name, layer in layers.sections():
        scheme = modelopt_scheme(layer.text("quant_algo"), _group_size(layer, "group_size") or size)
        if scheme is None:
            return ()
        targets.setdefault(scheme, []).append(name)
    if len(targets) > MAX_GROUPS:
        return ()
    return tuple(SchemeGroup(scheme, Names(names)) for scheme, names in targets.items())


def _compressed_tensors(section: Config) -> tuple[SchemeGroup, ...]:
    groups = section.section("config_groups")
    if groups is None or len(groups.fields) > MAX_GROUPS:
        return ()
    return _all_known(tuple(_compressed_groups(groups)))


def _all_known(groups: tuple[SchemeGroup | None, ...]) -> tuple[SchemeGroup, ...]:
    """Return nothing when one layout is not known: half a sum is worth nothing."""
    known = tuple(group for group in groups if group is not None)
    return known if len(known) == len(groups) else ()


def _compressed_groups(groups: Config) -> Iterator[SchemeGroup | None]:
    for _, group in groups.sections():
        weights = group.section("weights")
        if weights is None:
            continue
        targets = Names(name for name in group.texts("targets") if name != "Linear")
        scheme = _compressed_scheme(weights, group.section("input_activations"))
        yield None if scheme is None else SchemeGroup(scheme, targets)


def _compressed_scheme(weights: Config, activations: Config | None) -> WeightScheme | None:
    """Source: vLLM 0.32.0, CompressedTensorsConfig._get_scheme_from_parts."""
    bits = weights.integer("num_bits", default=8, maximum=64)
    floating = weights.text("type", default="int") == "float"
    size = _group_size(weights, "group_size")
    strategy = weights.text("strategy", default="group" if size else "tensor")
    static = activations is not None and not _is_dynamic(activations)
    if floating and bits == 4:  # noqa: PLR2004 - four-bit floats are NVFP4 or MXFP4
        if size != NVFP4_GROUP:
            return None
        return WeightScheme(
            WeightFormat.NVFP4,
            Granularity.GROUP,
            bits=4,
            group_size=size,
            static_activations=activations is not None,
            weight_only=activations is None,
        )
    if floating or activations is not None:
        block = _block(weights, "block_structure")
        return WeightScheme(
            WeightFormat.FP8 if floating else WeightFormat.INT8,
            Granularity(strategy) if strategy in ("tensor", "channel") else Granularity.BLOCK,
            block=block or (128, 128),
            static_activations=static,
        )
    return WeightScheme(
        WeightFormat.PACKED,
        Granularity.GROUP,
        bits=bits,
        group_size=size,
        symmetric=weights.boolean("symmetric", default=True),
        weight_only=True,
        activation_order=weights.fields.get("actorder") == "group",
    )


def _is_dynamic(activations: Config) -> bool:
    return activations.fields.get("dynamic") not in (None, False)


_READERS: Final[Mapping[str, Callable[[Config], tuple[SchemeGroup, ...]]]] = {
    "fp8": _fp8,
    "awq": _awq,
    "awq_marlin": _awq,
    "auto_awq": _awq,
    "gptq": _gptq,
    "gptq_marlin": _gptq,
    "auto_gptq": _gptq,
    "bitsandbytes": _bitsandbytes,
    "mxfp4": _mxfp4,
    "gpt_oss_mxfp4": _mxfp4,
    "mxfp8": _mxfp8,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "modelopt_mixed": _modelopt,
    "modelopt_mxfp8": _modelopt,
    "compressed-tensors": _compressed_tensors,
}
