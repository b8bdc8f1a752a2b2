"""The modules of compressed attention: vLLM 0.32.0, models/deepseek_v4/attention.py and compressor.py."""

from service.architecture.layers.compressed_attention import CompressedAttention, SharedCompressedAttention
from service.memory.shards import Shards
from service.memory.weights.blocks.recurrent_modules import FLOAT32_BYTES
from service.memory.weights.modules import (
    Linear,
    Modules,
    PlainModule,
)


def compressed_modules(mixer: CompressedAttention, hidden: int, name: str, shards: Shards) -> Modules:
    """Yield the modules of one attention layer called ``name``."""
    yield PlainModule(shards.share(mixer.num_heads), FLOAT32_BYTES)
    yield from _attention(mixer, hidden, name, shards)
    if mixer.compresses:
        yield from _compressor(mixer, mixer.head_size, hidden)
    if mixer.indexer is not None:
        indexer = mixer.indexer
        width = indexer.num_heads * indexer.head_dim
        yield Linear(f"{name}.indexer.wq_b", mixer.q_lora_rank, (width,))
        yield PlainModule(hidden * indexer.num_heads)
        yield from _compressor(mixer, indexer.head_dim, hidden)


def shared_compressed_modules(
    mixer: SharedCompressedAttention, hidden: int, name: str, shards: Shards, sinks: int
) -> Modules:
    """Yield the modules of one attention layer called ``name`` of DeepSeek V4.1, with ``sinks`` on each rank.

    Source: vLLM 0.30.0 to 0.33.0, models/deepseek_v41/attention.py and compressor.py: an indexer makes its
    keys of the compressed tokens, and a layer that keeps every token has no gate.
    """
    yield PlainModule(sinks, FLOAT32_BYTES)
    yield from _attention(mixer, hidden, name, shards)
    if mixer.compresses:
        yield PlainModule((2 if mixer.pools else 1) * mixer.head_size * hidden + mixer.head_size)
    indexer = mixer.indexer
    if indexer is not None:
        yield Linear(f"{name}.indexer.wq_b", mixer.q_lora_rank, (indexer.num_heads * indexer.head_dim,))
        yield PlainModule(hidden * indexer.num_heads)
        yield PlainModule((mixer.head_size + 1) * indexer.head_dim if mixer.keeps_keys else 0)


def _attention(mixer: CompressedAttention, hidden: int, name: str, shards: Shards) -> Modules:
    heads, size = shards.share(mixer.num_heads), mixer.head_size
    groups = shards.share(mixer.output_groups)
    yield Linear(f"{name}.fused_wqa_wkv", hidden, (mixer.q_lora_rank, size), ("wq_a", "wkv"))
    yield PlainModule(mixer.q_lora_rank + size)
    yield Linear(f"{name}.wq_b", mixer.q_lora_rank, (heads * size,))
    yield Linear(f"{name}.wo_a", mixer.num_heads * size // mixer.output_groups, (groups * mixer.output_rank,))
    yield Linear(f"{name}.wo_b", groups * mixer.output_rank, (hidden,))


def _compressor(mixer: CompressedAttention, size: int, hidden: int) -> Modules:
    """Yield the compressor of groups into vectors of ``size`` elements; every rank has it in full."""
    width = (2 if mixer.overlaps else 1) * size
    yield PlainModule(mixer.compress_ratio * width, FLOAT32_BYTES)
    yield PlainModule(2 * width * hidden)
    yield PlainModule(size)
