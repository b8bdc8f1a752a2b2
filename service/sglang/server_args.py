"""SglangArgs: the arguments of `sglang.launch_server` that decide its pools."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

CACHE_BITS: Final[Mapping[str, int]] = {
    "auto": 16,
    "bf16": 16,
    "bfloat16": 16,
    "fp8_e5m2": 8,
    "fp8_e4m3": 8,
    "mxfp8": 8,
    "nvfp4": 4,
    "fp4_e2m1": 4,
    "fp4_mx_block16": 4,
}
"""Bits of an element, without scales: SGLang 0.5.23, `--kv-cache-dtype`; `auto` is the model's dtype."""


TRTLLM: Final = "trtllm"
"""The backend of sparse attention whose 8-bit rows have no scales (`calculate_mla_kv_cache_dim`)."""


@dataclass(frozen=True, slots=True)
class SglangArgs:
    """Arguments by their own names. ``None``: not given."""

    tp_size: int = 1
    mem_fraction_static: float | None = None
    max_total_tokens: int | None = None
    max_running_requests: int | None = None
    chunked_prefill_size: int | None = None
    """Tokens of a prefill chunk; -1 switches chunks off; ``None``: by the GPU's memory."""
    swa_full_tokens_ratio: float = 0.8
    hybrid_kvcache_ratio: float | None = None
    """Share of windows in releases up to 0.4.9; ``None``: no pool of their own."""
    page_size: int | None = None
    kv_cache_dtype: str = "auto"
    context_length: int | None = None
    disable_radix_cache: bool = False
    disable_overlap_schedule: bool = False
    mamba_full_memory_ratio: float = 0.9
    max_mamba_cache_size: int | None = None
    cuda_graph_max_bs: int | None = None
    dsa_backend: str | None = None
    """Backend of sparse attention, where it decides the layout of rows (`TRTLLM`)."""
