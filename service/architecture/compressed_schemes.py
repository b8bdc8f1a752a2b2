"""Schemes of compressed-tensors checkpoints: which modules are stored how."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from service.architecture.compressed_parts import CompressedGroup, read_group
from service.architecture.config import Config
from service.architecture.weight_schemes import (
    MAX_GROUPS,
    MXFP4_GROUP,
    MXFP8_SCHEME,
    NVFP4_GROUP,
    Granularity,
    Names,
    SchemeGroup,
    WeightFormat,
    WeightScheme,
    block_sides,
    positive_group_size,
)

LINEAR: Final = "Linear"
"""The target that names every linear layer by its class."""
PACKED: Final = "pack-quantized"
FOUR_BITS: Final = 4
EIGHT_BITS: Final = 8
BLOCK: Final = (128, 128)


def read_compressed_tensors(section: Config) -> tuple[SchemeGroup, ...]:
    """Return the groups of modules; none if the layout of one of them is not known.

    Groups that name modules come before those that name every linear layer, because the engine looks for a
    module's name before it looks for its class.

    Source: vLLM 0.32.0, CompressedTensorsConfig.get_scheme_dict; compressed_tensors/utils.py
    find_matched_target.
    """
    groups = section.section("config_groups")
    if groups is None or len(groups.fields) > MAX_GROUPS:
        return ()
    read = tuple(_groups(groups, section))
    known = tuple(group for group in read if group is not None)
    if len(known) != len(read):
        return ()
    return tuple(sorted(known, key=lambda group: not group.targets))


def _groups(groups: Config, section: Config) -> Iterator[SchemeGroup | None]:
    for _, group in groups.sections():
        weights = group.section("weights")
        if weights is None:
            continue
        named = group.texts("targets")
        targets = Names.of(name for name in named if name != LINEAR) if LINEAR in named else Names.of(named)
        stated = read_group(group, weights, section)
        scheme = _scheme(weights, group.section("input_activations"), stated)
        yield None if scheme is None else SchemeGroup(replace(scheme, compressed=stated), targets)


def _scheme(
    weights: Config, activations: Config | None, stated: CompressedGroup | None
) -> WeightScheme | None:
    """Source: vLLM 0.32.0, CompressedTensorsConfig._get_scheme_from_parts."""
    bits = weights.integer("num_bits", default=EIGHT_BITS, maximum=64)
    packed = stated is None or stated.format == PACKED
    if weights.text("type", default="int") == "float":
        return _floats(bits, weights, activations)
    if activations is not None and bits == EIGHT_BITS and not packed:
        return _bytes(WeightFormat.INT8, weights, activations)
    # Integers of fewer bits are packed whatever type the activations have (W4A8).
    return WeightScheme(
        WeightFormat.PACKED,
        Granularity.GROUP,
        bits=bits,
        group_size=positive_group_size(weights, "group_size"),
        symmetric=weights.boolean("symmetric", default=True),
        weight_only=activations is None,
        byte_activations=activations is not None,
        activation_order=weights.fields.get("actorder") == "group",
        named_order=bool(weights.fields.get("actorder")),
    )


def _floats(bits: int, weights: Config, activations: Config | None) -> WeightScheme | None:
    size = positive_group_size(weights, "group_size")
    if bits == EIGHT_BITS and size == MXFP8_SCHEME.group_size and weights.text("strategy") == "group":
        return MXFP8_SCHEME
    if bits == EIGHT_BITS:
        return _bytes(WeightFormat.FP8, weights, activations)
    if bits == FOUR_BITS and size == MXFP4_GROUP:
        return WeightScheme(
            WeightFormat.MX,
            Granularity.GROUP,
            bits=bits,
            group_size=size,
            weight_only=activations is None,
            byte_activations=activations is not None
            and activations.integer("num_bits", default=0) == EIGHT_BITS,
        )
    if bits == FOUR_BITS and size == NVFP4_GROUP:
        return WeightScheme(
            WeightFormat.NVFP4,
            Granularity.GROUP,
            bits=bits,
            group_size=size,
            static_activations=activations is not None,
            weight_only=activations is None,
        )
    return None


def _bytes(format_: WeightFormat, weights: Config, activations: Config | None) -> WeightScheme:
    strategy = weights.text(
        "strategy", default="group" if positive_group_size(weights, "group_size") else "tensor"
    )
    return WeightScheme(
        format_,
        Granularity(strategy) if strategy in ("tensor", "channel") else Granularity.BLOCK,
        block=block_sides(weights, "block_structure") or BLOCK,
        static_activations=activations is not None and not _is_dynamic(activations),
        weight_only=activations is None,
    )


def _is_dynamic(activations: Config) -> bool:
    return activations.fields.get("dynamic") not in (None, False)
