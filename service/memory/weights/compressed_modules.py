"""The modules of compressed attention: vLLM 0.32.0, models/deepseek_v4/attention.py and compressor.py."""

from service.architecture.layers.compressed_attention import CompressedAttention
from service.memory.weights.modules import (
    Linear,
    Modules,
    PlainModule,
    Shards,
)
from service.memory.weights.recurrent_modules import FLOAT32_BYTES


def compressed_modules(mixer: CompressedAttention, hidden: int, name: str, shards: Shards) -> Modules:
    """Yield the modules of one attention layer called ``name``."""
    heads, size = shards.share(mixer.num_heads), mixer.head_size
    groups = shards.share(mixer.output_groups)
    yield PlainModule(heads, FLOAT32_BYTES)
    yield Linear(f"{name}.fused_wqa_wkv", hidden, (mixer.q_lora_rank, size), ("wq_a", "wkv"))
    yield PlainModule(mixer.q_lora_rank + size)
    yield Linear(f"{name}.wq_b", mixer.q_lora_rank, (heads * size,))
    yield Linear(f"{name}.wo_a", mixer.num_heads * size // mixer.output_groups, (groups * mixer.output_rank,))
    yield Linear(f"{name}.wo_b", groups * mixer.output_rank, (hidden,))
    if mixer.compresses:
        yield from _compressor(mixer, size, hidden)
    if mixer.indexer is not None:
        indexer = mixer.indexer
        width = indexer.num_heads * indexer.head_dim
        yield Linear(f"{name}.indexer.wq_b", mixer.q_lora_rank, (width,))
        yield PlainModule(hidden * indexer.num_heads)
        yield from _compressor(mixer, indexer.head_dim, hidden)


def _compressor(mixer: CompressedAttention, size: int, hidden: int) -> Modules:
    """Yield the compressor of groups into vectors of ``size`` elements; every rank has it in full."""
    width = (2 if mixer.overlaps else 1) * size
    yield PlainModule(mixer.compress_ratio * width, FLOAT32_BYTES)
    yield PlainModule(2 * width * hidden)
    yield PlainModule(size)
