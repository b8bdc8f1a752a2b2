"""Questions that tests share, with answers from the engine's own logs or arithmetic."""

from typing import Any, Final

GEMMA: Final[dict[str, Any]] = {
    "model": "google/gemma-4-31B-it",
    "engine": {"name": "vllm", "version": "0.19.0"},
    "gpus": ["rtx-3090-24gb"],
    "serve": {
        "tensor_parallel_size": 2,
        "max_model_len": 131072,
        "max_num_batched_tokens": 2048,
        "kv_cache_memory_bytes": 12390980648,
        "kv_cache_dtype": "auto",
    },
}
"""A start-up that was logged: 25,200 tokens and 1.87x in 0.19.0."""

GEMMA_QUERY: Final[dict[str, Any]] = {
    "model": GEMMA["model"],
    "engine_version": GEMMA["engine"]["version"],
    "gpu": GEMMA["gpus"],
    **GEMMA["serve"],
}

LLAMA_CONFIG: Final[dict[str, Any]] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
}
"""Llama 3.1 8B: 32 layers x 8 heads x 128 elements x 2 B, keys and values, make 2 MiB for 16 tokens."""


def with_serve(question: dict[str, Any], **flags: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON value
    """Return a question with other flags."""
    return {**question, "serve": {**question["serve"], **flags}}


def with_engine(question: dict[str, Any], version: str, *patches: str) -> dict[str, Any]:
    """Return a question for another release."""
    return {**question, "engine": {"version": version, "patches": list(patches)}}
