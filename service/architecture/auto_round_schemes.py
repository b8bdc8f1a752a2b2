"""Schemes of AutoRound (Intel Neural Compressor) checkpoints."""

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Final

from service.architecture.alike import Kinds, kinds_of
from service.architecture.config import Config
from service.architecture.uniform_lists import (
    MOST_EXPRESSIONS,
    OPERATORS,
    Alike,
    EntryForm,
    labelled_literals,
)
from service.architecture.weight_schemes import (
    LONG,
    MAX_GROUPS,
    MXFP4_GROUP,
    MXFP8_SCHEME,
    Granularity,
    Names,
    SchemeGroup,
    WeightFormat,
    WeightScheme,
    block_sides,
    positive_group_size,
)

FP8_TYPES: Final = frozenset({"fp", "fp8"})
"""Values of ``data_type`` that mean fp8 in blocks, whose sides ``group_size`` lists."""
UNQUANTIZED_BITS: Final = 16
SPECIAL: Final = frozenset(f"\\{OPERATORS}")
"""Characters that make a key of ``extra_config`` a regular expression."""


def read_auto_round(section: Config) -> tuple[SchemeGroup, ...]:
    """Return the groups of modules; none if the layout of one of them is not known.

    Modules that ``extra_config`` names come first, then the blocks to be quantized; other modules stay
    unquantized.

    Source: vLLM 0.32.0, quantization/inc/inc.py INCConfig.from_config; inc/config_parser.py _resolve_raw.
    """
    try:
        return tuple(_groups(section))
    except LookupError:
        return ()


def names_output(section: Config) -> bool:
    """Return whether ``extra_config`` quantizes the output embedding, which AutoRound leaves alone otherwise.

    Source: vLLM 0.13.0 to 0.33.0, INCConfig.get_layer_config: not ``isinstance(layer, ParallelLMHead)``.
    """
    extra = section.section("extra_config")
    part = extra.section("lm_head") if extra is not None else None
    bits = section.integer("bits", default=4, maximum=64)
    return part is not None and part.integer("bits", default=bits, maximum=64) < UNQUANTIZED_BITS


def _groups(section: Config) -> Iterator[SchemeGroup]:
    yield from _exceptions(section)
    yield SchemeGroup(_scheme(section, section), _beginnings(_blocks(section)))


def _exceptions(section: Config) -> Iterator[SchemeGroup]:
    """Yield the groups of modules that ``extra_config`` names."""
    extra = section.section("extra_config")
    if extra is None:
        return
    kinds = kinds_of(extra, ("bits", "group_size", "sym"))
    schemes: dict[WeightScheme | None, list[int]] = {}
    for number, part in enumerate(kinds.examples):
        schemes.setdefault(_scheme(section, part), []).append(number)
    if len(schemes) > MAX_GROUPS:
        raise LookupError("too many groups")
    keys = list(zip(schemes, _read_keys(kinds, list(schemes.values())), strict=True))
    for scheme, (names, _) in keys:
        yield from (SchemeGroup(scheme, targets) for targets in names)
    for scheme, (_, expressions) in keys:
        yield from (SchemeGroup(scheme, targets) for targets in expressions)


def _read_keys(kinds: Kinds, together: Sequence[Sequence[int]]) -> Iterator[tuple[list[Names], list[Names]]]:
    """Yield of kinds that are read together those keys that are names, and those that are expressions.

    The engine looks for names first. Expressions are searched for anywhere in a module's name.
    """
    labels = kinds.labelled(together)
    long = len(labels) > LONG
    read = labelled_literals(kinds.names, labels=labels, searched=True) if long else ()
    for label, numbers in enumerate(together):
        yield _named(*read[label]) if labels.count(label) > LONG else _read_few(kinds.of(*numbers))


def _named(parts: Sequence[Alike], others: Sequence[str]) -> tuple[list[Names], list[Names]]:
    names = [Names.of(part, form) for part, form in parts if form.whole]
    expressions = [Names.of(part, form) for part, form in parts if not form.whole]
    return names, expressions + _searched(others)


def _read_few(keys: Sequence[str]) -> tuple[list[Names], list[Names]]:
    names = Names.of(key for key in keys if SPECIAL.isdisjoint(key))
    return [names] if names else [], _searched([key for key in keys if not SPECIAL.isdisjoint(key)])


def _searched(expressions: Sequence[str]) -> list[Names]:
    read = map(str.removeprefix, expressions[:MOST_EXPRESSIONS], repeat(".*"))
    return [Names.of(map("re:.*".__add__, read))] if expressions else []


def _beginnings(blocks: tuple[str, ...]) -> Names:
    """Return blocks as what the names of their modules begin with; those of a long list are no patterns.

    Source: vLLM 0.32.0, INCConfigParser._resolve_raw: ``startswith``.
    """
    if len(blocks) > LONG:
        return Names.of(blocks, EntryForm())
    return Names.of(f"{block}*" for block in blocks)


def _blocks(section: Config) -> tuple[str, ...]:
    for key in ("block_name_to_quantize", "to_quant_block_names"):
        value = section.fields.get(key)
        if isinstance(value, str):
            return tuple(filter(None, map(str.strip, value.split(","))))
        if value is not None:
            return section.texts(key)
    return ()


def _scheme(section: Config, part: Config) -> WeightScheme | None:
    """Return the scheme of some modules, ``None`` if they stay unquantized.

    Raises:
        LookupError: the layout is not known.
    """
    whole = section.integer("bits", default=4, maximum=64)
    bits = part.integer("bits", default=whole, maximum=64)
    if bits >= UNQUANTIZED_BITS:
        return None
    kind = section.text("data_type", default="int")
    if "mx_fp" in kind:
        if bits == MXFP8_SCHEME.bits:
            return MXFP8_SCHEME
        return WeightScheme(WeightFormat.MX, Granularity.GROUP, bits=bits, group_size=MXFP4_GROUP)
    sized = part if "group_size" in part else section
    if kind in FP8_TYPES and isinstance(sized.fields.get("group_size"), list):
        return WeightScheme(WeightFormat.FP8, Granularity.BLOCK, block=block_sides(sized, "group_size"))
    packing = section.text("packing_format", default="auto_round:auto_gptq")
    packing += section.text("backend", "vllm_backend")
    if kind != "int" or not ("gptq" in packing or "awq" in packing or packing.startswith("auto_round")):
        raise LookupError(kind)
    size = positive_group_size(sized, "group_size")
    symmetric = part.boolean("sym", default=section.boolean("sym", default=True))
    awq = "awq" in packing
    return WeightScheme(
        WeightFormat.AWQ if awq else WeightFormat.GPTQ,
        Granularity.GROUP,
        bits=bits,
        group_size=size,
        symmetric=symmetric,
    )
