"""Tiny models of random weights, one for each way in which a cache is laid out."""

from collections.abc import Mapping
from typing import Any, Final

_SMALL: Final[Mapping[str, Any]] = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 1024,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}

BLOCK: Final = 128
"""Tokens of the CPU's blocks."""
BLOCKS: Final[Mapping[str, int]] = {"latent attention": 16}
"""The same where the CPU's backend has blocks of its own, whatever is asked for."""
MODELS: Final[Mapping[str, Mapping[str, Any]]] = {
    "one group": {**_SMALL, "architectures": ["LlamaForCausalLM"], "model_type": "llama"},
    "one group, normed heads": {**_SMALL, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"},
    "sliding and full layers": {
        **_SMALL,
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "num_hidden_layers": 6,
        "sliding_window": 512,
        "sliding_window_pattern": 3,
        "query_pre_attn_scalar": 64,
        "rope_local_base_freq": 10000.0,
        "hidden_activation": "gelu_pytorch_tanh",
    },
    "latent attention": {
        **{name: value for name, value in _SMALL.items() if name != "head_dim"},
        "architectures": ["DeepseekV2ForCausalLM"],
        "model_type": "deepseek_v2",
        "num_key_value_heads": 4,
        "kv_lora_rank": 128,
        "q_lora_rank": None,
        "qk_nope_head_dim": 64,
        "qk_rope_head_dim": 32,
        "v_head_dim": 64,
        # All layers are dense.
        "first_k_dense_replace": 4,
        "moe_layer_freq": 1,
        "n_routed_experts": 8,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 128,
        "n_group": 1,
        "topk_group": 1,
        "topk_method": "greedy",
    },
}
