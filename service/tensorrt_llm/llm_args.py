"""TensorrtArgs: the arguments of `trtllm-serve` and of its `kv_cache_config` that decide the pools."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

CACHE_BITS: Final[Mapping[str, int]] = {"auto": 16, "bfloat16": 16, "float16": 16, "fp8": 8, "nvfp4": 4}
"""Bits of an element, without scales; `auto` is the model's dtype (KvCacheConfig.dtype)."""


@dataclass(frozen=True, slots=True)
class TensorrtArgs:
    """Arguments by their own names. ``None``: not given."""

    tp_size: int = 1
    free_gpu_memory_fraction: float = 0.9
    tokens_per_block: int | None = None
    max_attention_window: tuple[int, ...] = ()
    """Window of each layer, repeated from the beginning where layers are left; empty: the model's."""
    max_tokens: int | None = None
    """Tokens that the cache holds at most."""
    max_gpu_total_bytes: int | None = None
    max_batch_size: int = 2048
    max_num_tokens: int = 8192
    max_seq_len: int | None = None
    max_beam_width: int = 1
    sink_token_length: int = 0
    dtype: str = "auto"
    use_kv_cache_manager_v2: bool | None = None
    pool_ratio: tuple[float, ...] = ()
    """Shares of the second manager's pool groups, in the order in which layers first use their windows."""
    avg_seq_len: int | None = None
    """Length of a typical request, for the second manager's split; ``None``: its default split."""
