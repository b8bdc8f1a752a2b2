"""The arguments that SGLang sets by itself for sparse attention (DeepSeek V3.2 and its kin).

Source: SGLang 0.5.10 server_args.py (`_set_default_nsa_kv_cache_dtype`), 0.5.20 and 0.5.23
arg_groups/overrides.py (`_dsa_kv_cache_dtype_default`) and model_overrides/deepseek_v2.py; all
alike, read only.
"""

from dataclasses import replace
from typing import Final

from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.model import ModelArchitecture
from service.sglang.server_args import TRTLLM, SglangArgs

SPARSE_PAGE: Final = 64
"""Tokens of a page, whatever was given; pooled keys of the indexer multiply it."""
BLACKWELL: Final = 10
"""Major compute capability since which rows have 8 bits and trtllm's layout."""


def with_automatic_args(args: SglangArgs, model: ModelArchitecture, generation: int | None) -> SglangArgs:
    """Return the arguments as they are when pools are sized.

    ``generation``: major compute capability of the GPU; ``None`` for a GPU without one.
    """
    pooled = [
        mixer.indexer.group_size
        for mixer in (layer.mixer for layer in model.layers)
        if isinstance(mixer, MultiHeadLatentAttention) and mixer.indexer is not None
    ]
    if not pooled or generation is None:
        return args
    is_blackwell = generation >= BLACKWELL
    automatic = "fp8_e4m3" if is_blackwell else "bfloat16"
    dtype = automatic if args.kv_cache_dtype == "auto" else args.kv_cache_dtype
    backend = TRTLLM if is_blackwell else None
    return replace(args, page_size=SPARSE_PAGE * max(pooled), kv_cache_dtype=dtype, dsa_backend=backend)
