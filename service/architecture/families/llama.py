"""Mistral and Mixtral, and the attention of every Llama-like layer."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from service.architecture import towers
from service.architecture.config import Config
from service.architecture.families.family import Family, head_size, num_kv_heads
from service.architecture.families.recipe import Decoder, Sparse
from service.architecture.families.windows import by_type, every_layer
from service.architecture.layers import Attention
from service.architecture.stages import ALL_EVERYWHERE


def attention(text: Config, *, qkv_bias: bool = False, window: int | None = None) -> Attention:
    """Return the attention of a Llama-like layer."""
    size = head_size(text)
    return Attention(
        num_heads=text.count("num_attention_heads"),
        num_kv_heads=num_kv_heads(text),
        head_size=size,
        head_size_v=size,
        sliding_window=window,
        qkv_bias=qkv_bias,
    )


MIXTRAL_EXPERTS: Final = Sparse(count=("num_local_experts",), width=("intermediate_size",))
_MISTRAL: Final = Family(Decoder(windows=by_type))

FAMILIES: Final[Mapping[str, Family]] = {
    "MistralForCausalLM": _MISTRAL,
    "Ministral3ForCausalLM": _MISTRAL,
    "MixtralForCausalLM": Family(Decoder(windows=every_layer, sparse=MIXTRAL_EXPERTS), frame=ALL_EVERYWHERE),
    "Mistral3ForConditionalGeneration": replace(
        _MISTRAL, multimodal=True, splits_media_heads=True, towers=towers.pixtral
    ),
}
