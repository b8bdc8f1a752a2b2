"""How quantized weights are stored: which modules, in how many bits, with which scales."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import chain, repeat
from operator import contains
from typing import Any, Final, TypeVar

from service.architecture.compressed_parts import CompressedGroup
from service.architecture.config import Config
from service.architecture.long_lists import LONG_LISTS
from service.architecture.uniform_lists import EntryForm


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
    MX = "mx"
    """Floats of fewer than eight bits packed into bytes, with a byte for each group of inputs of a row."""
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
    byte_activations: bool = False
    """Activations have eight bits beside weights of fewer (W4A8)."""
    activation_order: bool = False
    """Groups are made of inputs in the order of their activations."""
    named_order: bool = False
    """The config names an order of activations, be it that of groups or of weights alone."""
    byte_zero_points: bool = False
    """Each scale has a zero point of one byte beside it, even if the weights are symmetric."""
    repeated_scales: bool = False
    """Every rank has the scales of all ranks' inputs."""
    channel_scales: bool = False
    """Each output has a 32-bit scale beside those of its groups."""
    float32_biases: bool = False
    """Biases of experts have 32 bits."""
    spread_scales: bool = False
    """Each output has a copy of the scale of its block, in the model's own type."""
    zero_points_as_scales: bool = False
    """Zero points of experts have the type of their scales, not words of 32 bits."""
    rounded_experts: bool = False
    """The sizes of experts are rounded up to multiples that the kernels of MXFP4 ask for."""
    activation_type: str = ""
    """The type to which activations are rounded, as Quark's config calls it; empty for others."""
    channel_activations: bool = False
    """Static activations have a scale for each channel, not one for all."""
    compressed: CompressedGroup | None = None
    """What a compressed-tensors config says of these modules."""


@dataclass(frozen=True, slots=True)
class SchemeGroup:
    """The modules that one scheme is for."""

    scheme: WeightScheme | None
    """``None``: these modules stay unquantized."""
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


def read_expert_scheme(section: Config, text: Config) -> WeightScheme | None:
    """Return how routed experts are stored where the model's config names their type apart.

    Source: vLLM 0.32.0, models/deepseek_v4/quant_config.py DeepseekV4FP8Config; 0.30.0 to 0.33.0,
    transformers_utils/configs/deepseek_v41.py, which reads the type from the quantization's own section.
    """
    if section.text("moe_quant_algo") == "NVFP4":
        return WeightScheme(
            WeightFormat.NVFP4, Granularity.GROUP, bits=4, group_size=NVFP4_GROUP, static_activations=True
        )
    if "fp4" in {text.text("expert_dtype"), section.text("expert_dtype")}:
        return WeightScheme(WeightFormat.MXFP4, Granularity.GROUP, bits=4, group_size=MXFP4_GROUP)
    return None


LONG: Final = 1024
"""Names of a list of which few are shared: they may take 16 MiB."""
T = TypeVar("T")


class Names(tuple[str, ...]):  # noqa: SLOT001 - its hash is kept in its dictionary
    """Names whose hash is worked out once: there may be 100,000 of them, looked up for every module."""

    form: EntryForm | None = None
    """How all of them are written, where that is known."""
    lengths: frozenset[int]
    """How many characters they have, each number once."""
    _hash: int
    _made: dict[Callable[["Names"], Any], Any]

    @classmethod
    def of(cls, names: Iterable[str], form: EntryForm | None = None) -> "Names":
        """Return the names; the same object for equal ones, so that a look-up compares no element."""
        known = cls(names)
        return _shared_long(known, form) if len(known) > LONG else _shared(known, form)

    def once(self, make: Callable[["Names"], T]) -> T:
        """Return what a function makes of the names; it is called once."""
        try:
            made = self._made
        except AttributeError:
            made = self._made = {}
        if make not in made:
            made[make] = make(self)
        result: T = made[make]
        return result

    def __hash__(self) -> int:
        """Return the hash of the tuple."""
        try:
            return self._hash
        except AttributeError:
            self._hash = super().__hash__()
            return self._hash


@lru_cache(maxsize=256)
def _shared(names: Names, form: EntryForm | None) -> Names:
    return _written(names, form, list(map(len, names)))


def _written(names: Names, form: EntryForm | None, lengths: list[int]) -> Names:
    names.lengths = frozenset(lengths)
    if form is not None:
        names.form = form
    return names


@LONG_LISTS.emptied
@lru_cache(maxsize=16)
def _shared_long(names: Names, form: EntryForm | None) -> Names:
    lengths = list(map(len, names))
    LONG_LISTS.add(lengths)
    return _written(names, form, lengths)


def positive_group_size(section: Config, *names: str) -> int | None:
    """Return the inputs that share a scale, ``None`` where a whole row does (-1 in configs)."""
    size = section.optional_integer(*names, minimum=-1)
    return size if size is not None and size > 0 else None


def block_sides(section: Config, name: str) -> tuple[int, int] | None:
    """Return the outputs and inputs that share a scale, or ``None``."""
    sizes = section.counts(name)
    return (max(1, sizes[0]), max(1, sizes[1])) if len(sizes) > 1 else None


IGNORING: Final[Mapping[str, tuple[str, ...]]] = {
    "fp8": ("ignored_layers", "modules_to_not_convert"),
    "quark": ("exclude",),
    "mxfp4": (),
    "gpt_oss_mxfp4": (),
}
"""Keys under which a method looks for unquantized modules.

Source: vLLM 0.32.0, from_config of Fp8Config and QuarkConfig; 0.10.2 to 0.33.0, Mxfp4Config.from_config,
which reads nothing.
"""
ANY_IGNORING: Final = (
    "ignore",
    "ignored_layers",
    "modules_to_not_convert",
    "exclude_modules",
    "llm_int8_skip_modules",
)


EXPRESSION: Final = "re:"
"""Begins an entry that is a regular expression, where a method knows any."""
PLAIN_LISTS: Final = frozenset({"auto_awq", "awq", "awq_marlin", "fp8"})
"""Methods whose lists hold names or parts of them alone: a pattern names no module.

Source: vLLM 0.20.2 to 0.32.0, quant_utils.py is_layer_skipped.
"""
GLOB_LISTS: Final = frozenset({"mxfp8", "modelopt", "modelopt_fp4", "modelopt_mxfp8", "modelopt_mixed"})
"""Methods whose lists may hold shell patterns too: vLLM 0.20.2 to 0.32.0, modelopt.py is_layer_excluded."""


def read_ignored(section: Config, method: str) -> tuple[str, ...]:
    """Return the names and patterns of the modules that stay unquantized."""
    inner = section.section("quantization") or section
    sections = (section, inner) if inner is not section else (section,)
    lists = [part.texts(key) for key in IGNORING.get(method, ANY_IGNORING) for part in sections]
    stated = [names for each in lists if (names := _matchable(each, method))]
    return Names.of(stated[0] if len(stated) == 1 else dict.fromkeys(chain.from_iterable(stated)))


def _matchable(names: tuple[str, ...], method: str) -> tuple[str, ...]:
    """Return the entries that a method can match with a name."""
    if method in PLAIN_LISTS and any(map(contains, names, repeat("*"))):
        names = tuple(name for name in names if "*" not in name)
    if method in PLAIN_LISTS | GLOB_LISTS and any(map(contains, names, repeat(EXPRESSION))):
        return tuple(name for name in names if not name.startswith(EXPRESSION))
    return names


def modelopt_scheme(algorithm: str, group_size: int | None) -> WeightScheme | None:
    """Return the layout of one of ModelOpt's algorithms, or ``None`` for one that is not known."""
    match algorithm.upper():
        case "FP8":
            return WeightScheme(WeightFormat.FP8, Granularity.TENSOR, static_activations=True)
        case "FP8_PER_CHANNEL_PER_TOKEN":
            return WeightScheme(WeightFormat.FP8, Granularity.CHANNEL)
        case "FP8_PB_WO" | "FP8_BLOCK_SCALES":
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
