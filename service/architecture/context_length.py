"""The context lengths that a config names."""

from dataclasses import dataclass
from typing import Final

from service.architecture.config import Config

LENGTH_KEYS: Final = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
"""vLLM 0.32.0, ModelArchConfigConvertorBase.derive_max_model_len_and_key: the smallest present counts."""


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """Scaling of rotary positions for one type of layer."""

    type: str
    factor: float | None
    original_length: int | None


@dataclass(frozen=True, slots=True)
class ContextLength:
    """The lengths that a config names, before the engine's rules select one."""

    key: str | None
    """Field with the smallest length; ``None`` without any."""
    length: int | None
    model_max_length: int | None
    original_length: int | None
    """``original_max_position_embeddings`` of the model itself (LongRoPE)."""
    scalings: tuple[RopeScaling, ...]


def read_context_length(text: Config) -> ContextLength:
    """Read the length fields of the text part of a config."""
    present = [(text.integer(key), key) for key in LENGTH_KEYS if key in text]
    length, key = min(present, key=lambda pair: pair[0]) if present else (None, None)
    override = text.optional_integer("model_max_length")
    if override is not None:
        length, key = override, "model_max_length"
    return ContextLength(
        key=key,
        length=length,
        model_max_length=override,
        original_length=text.optional_integer("original_max_position_embeddings"),
        scalings=_scalings(text),
    )


def _scalings(text: Config) -> tuple[RopeScaling, ...]:
    for name in ("rope_parameters", "rope_scaling"):
        rope = text.section(name)
        if rope is None:
            continue
        nested = tuple(part for _, part in rope.sections())
        return tuple(map(_scaling, nested)) if nested else (_scaling(rope),)
    return ()


def _scaling(rope: Config) -> RopeScaling:
    return RopeScaling(
        type=rope.text("rope_type", "type", default="default"),
        factor=rope.number("factor", 1.0) if "factor" in rope else None,
        original_length=rope.optional_integer("original_max_position_embeddings"),
    )
