"""An example question for every operation that takes one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Example:
    """What to send to one operation."""

    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Path and query parameters by name."""
    body: Mapping[str, Any] | None = None


MODEL: Final = "google/gemma-4-31B-it"
SERVE: Final[Mapping[str, Any]] = {
    "tensor_parallel_size": 2,
    "max_model_len": 131072,
    "max_num_batched_tokens": 2048,
    "kv_cache_memory_bytes": 12390980648,
    "kv_cache_dtype": "auto",
}

EXAMPLES: Final[Mapping[str, Example]] = {
    "create_plan": Example(
        body={
            "model": MODEL,
            "engine": {"name": "vllm", "version": "0.19.0"},
            "gpus": ["rtx-3090-24gb"],
            "serve": SERVE,
        }
    ),
    "get_plan": Example({"model": MODEL, "gpu": ["rtx-3090-24gb"], "engine_version": "0.19.0", **SERVE}),
    "explain_log": Example(
        body={
            "log": "Initializing a V1 LLM engine (v0.19.0) with config: model='google/gemma-4-31B-it', "
            "dtype=torch.bfloat16, max_seq_len=131072, tensor_parallel_size=2, kv_cache_dtype=auto\n"
            "Available KV cache memory: 11.54 GiB\nGPU KV cache size: 25,200 tokens\n"
            "Maximum concurrency for 131,072 tokens per request: 1.87x\n",
            "gpu": "rtx-3090-24gb",
            "serve": {"max_num_batched_tokens": 2048},
        }
    ),
    "list_models": Example({"search": "gemma"}),
    "get_model": Example({"org": "google", "name": "gemma-4-31B-it"}),
    "get_gpu": Example({"gpu_id": "rtx-3090-24gb"}),
    "get_problem": Example({"slug": "unknown-gpu"}),
}
"""By operation id; operations that are not here take nothing."""
