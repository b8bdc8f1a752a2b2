"""Dots 3 Note: latent attention over picked tokens, between latent attention with windows."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from service.architecture.config import Config, InvalidConfig
from service.architecture.families.deepseek import deepseek_experts, indexer, mla_attention
from service.architecture.families.family import (
    Family,
    dense,
    layer_types,
    num_layers,
)
from service.architecture.families.recipe import after_dense
from service.architecture.layers import DecoderLayer, MultiHeadLatentAttention


def _layers(text: Config) -> tuple[DecoderLayer, ...]:
    """Source: vLLM 0.28.0 to 0.33.0, models/dots3_note/nvidia/model.py Dots3NoteDecoderLayer."""
    types = layer_types(text)
    if not types:
        raise InvalidConfig(text.at("layer_types"), "is missing")
    windowed = _windowed(text)
    full = replace(mla_attention(text), qkv_bias=False, row_size=windowed.head_size, rotary_norm=True)
    full = _gated(full, text.text("attention_gate_type"))
    experts, plain = deepseek_experts(text), dense(text)
    return tuple(
        DecoderLayer(
            windowed if types[index] == "sliding_attention" else replace(full, indexer=indexer(text, index)),
            experts if after_dense(text, index) else plain,
        )
        for index in range(num_layers(text))
    )


def _windowed(text: Config) -> MultiHeadLatentAttention:
    mixer = MultiHeadLatentAttention(
        num_heads=text.count("swa_num_attention_heads"),
        q_lora_rank=text.integer("swa_q_lora_rank"),
        kv_lora_rank=text.integer("swa_kv_lora_rank"),
        qk_nope_head_dim=text.integer("swa_qk_nope_head_dim"),
        qk_rope_head_dim=text.integer("swa_qk_rope_head_dim"),
        v_head_dim=text.integer("swa_v_head_dim"),
        sliding_window=text.integer("sliding_window_size"),
        rotary_norm=True,
    )
    return _gated(mixer, text.text("swa_attention_gate_type"))


def _gated(mixer: MultiHeadLatentAttention, kind: str) -> MultiHeadLatentAttention:
    """Return attention with a gate per head, or one as wide as the values for any other kind or none."""
    return replace(mixer, head_gate=kind == "headwise", output_gate=kind != "headwise")


FAMILIES: Final[Mapping[str, Family]] = {"Dots3NoteForCausalLM": Family(_layers, multimodal=True, tied=False)}
