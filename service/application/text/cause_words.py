"""Says a cause in words."""

from typing import Final

from service.explanation.explanation_types import Diagnosis
from service.startup_log.catalogue.phrases import CAUSES

UNKNOWN: Final = "a cause that is not known"
_WRITTEN: Final = (
    "AMD", "CPU", "CUDA", "CUTLASS", "FP8", "GEMM", "GGUF", "GPU", "GPUs", "HIP", "HPU", "ID", "JSON",
    "KV", "MLA", "MPS", "NCCL", "NVFP4", "NVLS", "NVML", "TPU", "WSL", "XPU", "Apple", "Ascend",
    "DeepSeek", "FastAPI", "FlashInfer", "Intel", "LoRA", "Mistral", "MoE", "Python", "ROCm", "Ray",
    "Rust", "Triton", "TurboQuant", "Volta", "Windows", "cuDNN", "oneCCL", "vLLM", "xFormers",
)  # fmt: skip
_SPELLED: Final = {each.lower(): each for each in _WRITTEN}
_TITLES: Final = {each.name: each.title for each in CAUSES if each.title}


def cause_in_words(name: str | None) -> str:
    """Return a cause's title, or its name without underscores and with acronyms as they are written."""
    if name is None:
        return UNKNOWN
    return _TITLES.get(name) or " ".join(_SPELLED.get(word, word) for word in name.split("_"))


def failed_in_words(ending: Diagnosis) -> str:
    """Return what failed: as the form of the cause says it, else the cause in words."""
    return ending.title or cause_in_words(ending.cause)
