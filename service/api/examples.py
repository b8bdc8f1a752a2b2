"""An example request for every operation that takes parameters or a body."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Example:
    """An example request for one operation."""

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

PROBE_ID: Final = "6f1de4c5b0f44c6f9a2a3e1c5b7d8e90"
NODE: Final = "node-1"
H100: Final = "NVIDIA H100 80GB HBM3"
PROBE: Final[Mapping[str, Any]] = {
    "kind": "engine",
    "plan": {
        "model": "Qwen/Qwen3-8B",
        "engine": {"name": "vllm", "version": "0.32.0"},
        "gpus": ["h100-sxm-80gb"],
        "serve": {"tensor_parallel_size": 1, "max_model_len": 8192},
    },
    "limits": {"wall_seconds": 600},
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
    "colocate": Example(
        body={
            "gpu": "h100-sxm-80gb",
            "version": "0.19.0",
            "command": "vllm serve Qwen/Qwen3-8B --gpu-memory-utilization 0.5 --max-model-len 8192 &\n"
            "vllm serve meta-llama/Llama-3.1-8B --port 8001 --gpu-memory-utilization 0.45\n",
        }
    ),
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
    "list_gpus": Example({"limit": 2}),
    "list_problems": Example({"limit": 2}),
    "get_model": Example({"org": "google", "name": "gemma-4-31B-it"}),
    "get_weights": Example({"org": "google", "name": "gemma-4-31B-it"}),
    "get_gpu": Example({"gpu_id": "rtx-3090-24gb"}),
    "create_probe": Example(body=PROBE),
    "get_probe": Example({"probe_id": PROBE_ID}),
    "follow_probe": Example({"probe_id": PROBE_ID}),
    "cancel_probe": Example({"probe_id": PROBE_ID}),
    "create_lease": Example(
        body={"node": NODE, "kinds": ["engine"], "gpu_names": [H100], "releases": ["0.32.0"], "gpus": 1}
    ),
    "heartbeat": Example({"probe_id": PROBE_ID}, {"node": NODE, "fence": 1, "phase": "the engine starts"}),
    "put_result": Example(
        {"probe_id": PROBE_ID},
        {
            "node": NODE,
            "fence": 1,
            "result": {"outcome": "refused", "detail": "the GPU is busy"},
        },
    ),
    "import_measurements": Example(),
    "get_problem": Example({"slug": "unknown-gpu"}),
}
"""By operation id; operations that are not here take nothing."""


def answers() -> Mapping[str, Any]:
    """Return what the service answered to examples, by operation id.

    `python -m tests.api.record_examples` writes the file, and a test compares it with the answers of today.
    """
    recorded: Mapping[str, Any] = json.loads(
        files("service.api").joinpath("recorded_answers.json").read_text("utf-8")
    )
    return recorded
