"""Tables of cosines and sines of rotary embeddings, which the engine stores with the weights."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from service.architecture.config import Config
from service.architecture.layers.attention import Attention
from service.architecture.layers.compressed_attention import CompressedAttention
from service.architecture.layers.decoder_layer import DecoderLayer
from service.architecture.layers.mla import MultiHeadLatentAttention

UNROTATED: Final = frozenset({"gpt2", "jamba", "nemotron_h", "opt"})
"""Model types without rotary embeddings (vLLM 0.19.0, gpt2.py, jamba.py, nemotron_h.py, opt.py)."""
UNSCALED_WINDOWS: Final = frozenset({"olmo3"})
"""Model types whose sliding layers have unscaled positions (vLLM 0.24.0, Olmo2Attention)."""
IN_FLOAT32: Final = frozenset({"gpt_oss"})
"""Model types whose tables are in float32 (vLLM 0.19.0, OAIAttention)."""

SCALED_LENGTHS: Final = frozenset({"linear", "dynamic"})
ORIGINAL_LENGTHS: Final = frozenset({"yarn", "deepseek_yarn"})


@dataclass(frozen=True, slots=True)
class RotaryTable:
    """One table: a row per position. Source: vLLM 0.24.0, layers.rotary_embedding.get_rope."""

    positions: int
    width: int
    """Elements per position: cosines and sines together."""
    multimodal: bool = False
    """Positions in three dimensions (M-RoPE)."""
    interleaved: bool = False
    base: str = ""
    """The base of the angles as the config names it; each base has its own table."""
    float32: bool = False


def read_rotary_tables(text: Config, layers: tuple[DecoderLayer, ...]) -> tuple[RotaryTable, ...]:
    """Return the distinct tables of a model's layers; none where the config names no length."""
    if "max_position_embeddings" not in text or text.text("model_type") in UNROTATED:
        return ()
    return tuple(dict.fromkeys(_tables(text, layers)))


def _tables(text: Config, layers: tuple[DecoderLayer, ...]) -> Iterator[RotaryTable]:
    # dict.fromkeys keeps the order of the few distinct mixers; a set would not.
    for mixer in dict.fromkeys(layer.mixer for layer in layers):
        if isinstance(mixer, MultiHeadLatentAttention):
            yield _table(text, _scaling(text, sliding=False), mixer.qk_rope_head_dim)
        elif isinstance(mixer, Attention):
            yield _attention_table(text, mixer, sliding=mixer.sliding_window is not None)
        elif isinstance(mixer, CompressedAttention):
            yield _compressed_table(text, mixer)


def _attention_table(text: Config, mixer: Attention, *, sliding: bool) -> RotaryTable:
    scaling = _scaling(text, sliding=sliding)
    local = "rope_local_base_freq" if _is_local(text, sliding=sliding) else "rope_theta"
    specified = (
        text.fields.get(local) if scaling is None else scaling.fields.get(local, text.fields.get(local))
    )
    unscaled = sliding and text.text("model_type") in UNSCALED_WINDOWS
    return replace(
        _table(text, scaling, mixer.head_size),
        base=f"{specified} unscaled" if unscaled else str(specified),
        float32=text.text("model_type") in IN_FLOAT32,
    )


def _compressed_table(text: Config, mixer: CompressedAttention) -> RotaryTable:
    """Return the table of a layer; layers that compress have another base than layers with only a window.

    Source: vLLM 0.32.0, models/deepseek_v4/common/rope.py; both tables are in float32.
    """
    name = "compress_rope_theta" if mixer.reads_compressed else "rope_theta"
    return RotaryTable(
        text.integer("max_position_embeddings"),
        mixer.qk_rope_head_dim,
        base=str(text.fields.get(name)),
        float32=True,
    )


def _scaling(text: Config, *, sliding: bool) -> Config | None:
    kind = "sliding_attention" if sliding else "full_attention"
    for name in ("rope_parameters", "rope_scaling"):
        section = text.section(name)
        if section is not None:
            return section.section(kind) or (None if _is_unscaled(text, sliding=sliding) else section)
    return None


def _is_unscaled(text: Config, *, sliding: bool) -> bool:
    specified = text.text("model_type") in UNSCALED_WINDOWS
    return _is_local(text, sliding=sliding) or (sliding and specified)


def _is_local(text: Config, *, sliding: bool) -> bool:
    """Return whether sliding layers have their own unscaled base (Gemma 3)."""
    return sliding and "rope_local_base_freq" in text


def _table(text: Config, scaling: Config | None, width: int) -> RotaryTable:
    length = text.integer("max_position_embeddings")
    if scaling is None:
        return RotaryTable(length, _rotated(text, None, width))
    kind = scaling.text("rope_type", "type", default="default")
    factor = scaling.number("factor", 1.0)
    if kind in SCALED_LENGTHS:
        length = int(length * factor)
    elif kind in ORIGINAL_LENGTHS:
        length = int(scaling.integer("original_max_position_embeddings", default=length) * factor)
    elif kind == "longrope":
        length += text.integer("original_max_position_embeddings", default=0, minimum=0)
    return RotaryTable(
        max(1, length),
        width if kind == "proportional" else _rotated(text, scaling, width),
        multimodal="mrope_section" in scaling,
        interleaved=scaling.boolean("mrope_interleaved"),
    )


def _rotated(text: Config, scaling: Config | None, width: int) -> int:
    share = text.number("partial_rotary_factor", 1.0)
    if scaling is not None:
        share = scaling.number("partial_rotary_factor", share)
    return max(2, int(width * share))
