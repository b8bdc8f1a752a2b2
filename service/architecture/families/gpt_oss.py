"""gpt-oss: every other layer slides, every head has a sink."""

from collections.abc import Mapping
from typing import Final

from service.architecture.config import Config
from service.architecture.families.family import (
    Family,
    head_size,
    num_kv_heads,
    num_layers,
)
from service.architecture.layers import Attention, DecoderLayer, MixtureOfExperts
from service.architecture.stages import ALL_EVERYWHERE


def _gpt_oss(text: Config) -> tuple[DecoderLayer, ...]:
    window = text.integer("sliding_window", default=128)
    size = head_size(text)
    experts = MixtureOfExperts(
        num_experts=text.count("num_local_experts"),
        experts_per_token=text.count("num_experts_per_tok", "experts_per_token", default=4),
        intermediate_size=text.integer("intermediate_size"),
        router_bias=True,
        expert_bias=True,
    )

    def layer(index: int) -> DecoderLayer:
        mixer = Attention(
            num_heads=text.count("num_attention_heads"),
            num_kv_heads=num_kv_heads(text),
            head_size=size,
            head_size_v=size,
            # Even layers slide whatever `layer_types` says: vLLM 0.32.0, gpt_oss.OAIAttention.
            sliding_window=window if index % 2 == 0 else None,
            sinks=True,
            qkv_bias=True,
            output_bias=True,
        )
        return DecoderLayer(mixer, experts)

    return tuple(map(layer, range(num_layers(text))))


FAMILIES: Final[Mapping[str, Family]] = {
    "GptOssForCausalLM": Family(_gpt_oss, tied=False, frame=ALL_EVERYWHERE)
}
