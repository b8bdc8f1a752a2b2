"""Schemes of AMD Quark checkpoints."""

from collections.abc import Iterator, Mapping
from typing import Final

from service.architecture.config import Config
from service.architecture.weight_schemes import (
    MAX_GROUPS,
    MXFP4_GROUP,
    Granularity,
    Names,
    SchemeGroup,
    WeightFormat,
    WeightScheme,
    block_sides,
)

MX_BITS: Final[Mapping[str, int]] = {"fp4": 4, "fp6_e3m2": 6, "fp6_e2m3": 6}
"""Bits of the element types that share a one-byte scale in groups of 32."""
GRANULARITIES: Final = {
    "per_tensor": Granularity.TENSOR,
    "per_channel": Granularity.CHANNEL,
    "per_block": Granularity.BLOCK,
}
BYTES: Final = {"fp8_e4m3": WeightFormat.FP8, "int8": WeightFormat.INT8}


def read_quark(section: Config) -> tuple[SchemeGroup, ...]:
    """Return the groups of modules; none if the layout of one of them is not known.

    A name or shell pattern in ``layer_quant_config`` comes before ``global_quant_config``.

    Source: vLLM 0.32.0, quark.py QuarkConfig._find_matched_config and _get_scheme_cls_from_config; 0.19.0 to
    0.32.0, quark_moe.py create_weights: biases in float32.
    """
    by_name = section.section("layer_quant_config")
    by_class = section.section("layer_type_quant_config")
    if (by_class is not None and by_class.fields) or (
        by_name is not None and len(by_name.fields) > MAX_GROUPS
    ):
        return ()
    read = tuple(_groups(by_name, section.section("global_quant_config")))
    return read if all(group.scheme is not None for group in read) else ()


def _groups(by_name: Config | None, everything: Config | None) -> Iterator[SchemeGroup]:
    if by_name is not None:
        for pattern, part in by_name.sections():
            yield SchemeGroup(_scheme(part), Names.of((pattern,)))
    if everything is not None:
        yield SchemeGroup(_scheme(everything))


def _scheme(part: Config) -> WeightScheme | None:
    if isinstance(part.fields.get("weight"), list):
        return None
    weights = part.section("weight")
    if weights is None:
        return None
    kind, shared = weights.text("dtype"), weights.text("qscheme")
    if kind in MX_BITS and shared == "per_group" and weights.optional_integer("group_size") == MXFP4_GROUP:
        return WeightScheme(
            WeightFormat.MX,
            Granularity.GROUP,
            bits=MX_BITS[kind],
            group_size=MXFP4_GROUP,
            float32_biases=True,
            rounded_experts=MX_BITS[kind] == MX_BITS["fp4"],
            activation_type=_activation_type(part),
        )
    if kind in BYTES and shared in GRANULARITIES:
        return WeightScheme(
            BYTES[kind],
            GRANULARITIES[shared],
            block=block_sides(weights, "block_size"),
            static_activations=_is_static(part),
            channel_activations=_is_static(part) and _activation_scales(part) == "per_channel",
            byte_zero_points=kind == "int8",
            float32_biases=True,
        )
    return None


def _activations(part: Config) -> Config | None:
    return None if isinstance(part.fields.get("input_tensors"), list) else part.section("input_tensors")


def _activation_type(part: Config) -> str:
    activations = _activations(part)
    return "" if activations is None else activations.text("dtype")


def _activation_scales(part: Config) -> str:
    activations = _activations(part)
    return "" if activations is None else activations.text("qscheme")


def _is_static(part: Config) -> bool:
    activations = _activations(part)
    return activations is not None and not activations.boolean("is_dynamic")
