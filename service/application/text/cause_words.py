"""Writes the name of a cause as people write it."""

from typing import Final

UNKNOWN: Final = "a cause that is not known"
_WRITTEN: Final = (
    "AMD", "CPU", "CUDA", "CUTLASS", "FP8", "GEMM", "GGUF", "GPU", "GPUs", "HIP", "HPU", "ID", "JSON",
    "KV", "MLA", "MPS", "NCCL", "NVFP4", "NVLS", "NVML", "TPU", "WSL", "XPU", "Apple", "Ascend",
    "DeepSeek", "FastAPI", "FlashInfer", "Intel", "LoRA", "Mistral", "MoE", "Python", "ROCm", "Ray",
    "Rust", "Triton", "TurboQuant", "Volta", "Windows", "cuDNN", "oneCCL", "vLLM", "xFormers",
)  # fmt: skip
_SPELLED: Final = {each.lower(): each for each in _WRITTEN}
PHRASES: Final = {
    "ascend_fault": "the Ascend device or its libraries failed",
    "build_does_not_match": "installed libraries do not match each other",
    "chat_template": "the chat template cannot be read",
    "check_refused": "a check refused what it was given",
    "deep_gemm": "DeepGEMM is missing or too old",
    "engine_fault": "the engine's code met a state that it was not written for",
    "engine_died_serving": "a process of the engine ended",
    "environment_variable": "an environment variable is wrong",
    "flashinfer_without_gpu_of_its_own": "FlashInfer has no such kernel for this GPU",
    "gpu_fault": "the GPU failed",
    "hpu_fault": "the HPU or its libraries failed",
    "length_beyond_cache_tokens": "the cache holds less than one request of the maximum length",
    "listens_nowhere": "the server cannot listen on its address",
    "lora_rank": "the rank of a LoRA adapter is too large",
    "nccl": "NCCL failed",
    "nccl_nvls": "NCCL failed to set up NVLS",
    "neuron_fault": "the Neuron device or its libraries failed",
    "oneccl": "oneCCL failed",
    "operator_call_failed": "a compiled operator failed",
    "peer_access": "GPUs have no peer access to each other",
    "rocm_fault": "ROCm failed",
    "thread_limit": "the limit of threads is reached",
    "time_limit": "a supervisor ended the start at its time limit",
    "triton_compile": "Triton could not build or launch a kernel",
    "xpu_fault": "the XPU or its libraries failed",
}
"""Sentences for causes whose names say too little alone."""


def cause_in_words(name: str | None) -> str:
    """Return a cause's name without underscores, with acronyms as they are written."""
    if name is None:
        return UNKNOWN
    return PHRASES.get(name) or " ".join(_SPELLED.get(word, word) for word in name.split("_"))
