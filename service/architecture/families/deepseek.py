"""DeepSeek V2, V3 and R1, Kimi K2: multi-head latent attention and many experts."""

from collections.abc import Mapping
from typing import Final

from service.architecture import towers
from service.architecture.config import Config, InvalidConfig
from service.architecture.families.family import Family, dense, num_layers
from service.architecture.layers import DecoderLayer, FeedForward, LatentAttention, MixtureOfExperts


def _latent_attention(text: Config) -> LatentAttention:
    return LatentAttention(
        num_heads=text.count("num_attention_heads"),
        q_lora_rank=text.optional_integer("q_lora_rank"),
        kv_lora_rank=text.integer("kv_lora_rank"),
        qk_nope_head_dim=text.integer("qk_nope_head_dim"),
        qk_rope_head_dim=text.integer("qk_rope_head_dim"),
        v_head_dim=text.integer("v_head_dim"),
        qkv_bias=text.boolean("attention_bias"),
    )


def _experts(text: Config) -> MixtureOfExperts:
    width = text.integer("moe_intermediate_size")
    return MixtureOfExperts(
        num_experts=text.count("n_routed_experts"),
        experts_per_token=text.count("num_experts_per_tok"),
        intermediate_size=width,
        shared_intermediate_size=width * text.count("n_shared_experts", default=0, minimum=0),
        # The noaux_tc router corrects its scores by a learned bias: vLLM 0.32.0, DeepseekV2MoE.
        router_bias=text.text("topk_method") == "noaux_tc",
    )


def _layers(text: Config) -> tuple[DecoderLayer, ...]:
    if "index_topk" in text:
        raise InvalidConfig(text.at("index_topk"), "sparse attention (an indexer cache) is not modelled yet")
    mixer = _latent_attention(text)
    first_sparse = text.count("first_k_dense_replace", default=0, minimum=0)
    every = text.count("moe_layer_freq", default=1)

    def feed_forward(index: int) -> FeedForward:
        sparse = "n_routed_experts" in text and index >= first_sparse and index % every == 0
        return _experts(text) if sparse else dense(text)

    return tuple(DecoderLayer(mixer, feed_forward(index)) for index in range(num_layers(text)))


FAMILIES: Final[Mapping[str, Family]] = {
    "DeepseekV2ForCausalLM": Family(_layers),
    "DeepseekV3ForCausalLM": Family(_layers),
    "KimiK25ForConditionalGeneration": Family(_layers, multimodal=True, towers=towers.moonvit),
}
