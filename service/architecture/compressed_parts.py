"""What a group of a compressed-tensors config says of weights and activations, word for word.

A release looks for a scheme that takes this combination: `memory/weights/schemes/compressed_kinds.py`.
"""

from dataclasses import dataclass

from service.architecture.config import Config

WHOLE_ROWS = -1


@dataclass(frozen=True, slots=True)
class Elements:
    """How the elements of weights or activations are quantized."""

    is_float: bool
    bits: int
    strategy: str
    """Which elements share a scale: ``tensor``, ``channel``, ``group``, ``token``, ``block`` and others."""
    symmetric: bool = True
    dynamic: bool = False
    group_size: int | None = None


@dataclass(frozen=True, slots=True)
class CompressedGroup:
    """One of ``config_groups``."""

    weights: Elements
    inputs: Elements | None
    """Activations that go into a layer; ``None``: they keep the model's type."""
    outputs: Elements | None
    format: str
    """Its own, or the checkpoint's."""


def read_elements(section: Config | None) -> Elements | None:
    """Return what a section says; a strategy that it does not name follows from its group size.

    Source: compressed-tensors 0.17.0, quantization/quant_args.py QuantizationArgs.validate_model_after.
    """
    if section is None or not section.fields:
        return None
    size = section.optional_integer("group_size", minimum=WHOLE_ROWS)
    inferred = "tensor" if not size else "channel" if size == WHOLE_ROWS else "group"
    return Elements(
        is_float=section.text("type", default="int").lower() == "float",
        bits=section.integer("num_bits", default=8, maximum=64),
        strategy=(section.text("strategy") or inferred).lower(),
        symmetric=section.boolean("symmetric", default=True),
        dynamic=section.fields.get("dynamic") not in (None, False),
        group_size=size,
    )


def read_group(group: Config, weights: Config, whole: Config) -> CompressedGroup | None:
    """Return one group of a checkpoint's config ``whole``, ``None`` if it says nothing of weights."""
    elements = read_elements(weights)
    if elements is None:
        return None
    return CompressedGroup(
        elements,
        read_elements(group.section("input_activations")),
        read_elements(group.section("output_activations")),
        group.text("format") or whole.text("format"),
    )
