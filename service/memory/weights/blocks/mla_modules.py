"""The modules of multi-head latent attention and of its indexer: vLLM 0.24.0, models/deepseek_v2.py."""

from service.architecture.layers.mla import MultiHeadLatentAttention
from service.memory.shards import Shards
from service.memory.weights.modules import (
    Linear,
    Modules,
    PlainModule,
)

FLOAT32_BYTES = 4


def mla_modules(mixer: MultiHeadLatentAttention, hidden: int, name: str, shards: Shards) -> Modules:
    """Yield the modules of one layer of multi-head latent attention called ``name``."""
    weights, heads = mixer.weights, shards.share(mixer.num_heads)
    query = mixer.qk_nope_head_dim + mixer.qk_rope_head_dim
    compressed = mixer.kv_lora_rank + mixer.qk_rope_head_dim
    if weights.q_lora_rank is None:
        yield Linear(f"{name}.kv_a_proj_with_mqa", hidden, (compressed,))
        yield Linear(f"{name}.q_proj", hidden, (heads * query,), splits_outputs=shards.splits)
    else:
        parts = ("q_a_proj", "kv_a_proj_with_mqa")
        yield Linear(f"{name}.fused_qkv_a_proj", hidden, (weights.q_lora_rank, compressed), parts)
        yield PlainModule(weights.q_lora_rank)
        queries = (heads * query,)
        yield Linear(f"{name}.q_b_proj", weights.q_lora_rank, queries, splits_outputs=shards.splits)
    if weights.output_gate:
        yield Linear(f"{name}.g_proj", hidden, (heads * weights.v_head_dim,))
    if weights.head_gate:
        yield Linear(f"{name}.g_proj", hidden, (mixer.num_heads if weights.rotary_norm else heads,))
    if weights.rotary_norm:
        yield PlainModule(mixer.qk_rope_head_dim)
    if mixer.sinks:
        # Sparse kernels take sinks in 32 bits; layers without an indexer store them in the model's dtype.
        yield PlainModule(heads, None if mixer.indexer is None else FLOAT32_BYTES)
    yield PlainModule(mixer.kv_lora_rank)
    yield mla_expansion(mixer, name, shards)
    ranks = shards.tensor_parallel_size
    yield Linear(f"{name}.o_proj", heads * weights.v_head_dim, (hidden,), input_shards=ranks)


def indexer_modules(
    mixer: MultiHeadLatentAttention, hidden: int, name: str, *, fused_keys: bool, reuses_none: bool
) -> Modules:
    """Yield the indexer that selects tokens; every rank has it in full (vLLM 0.24.0, Indexer).

    ``fused_keys``: its key and weight projections are one matrix, which is never quantized. ``reuses_none``:
    a layer that uses the tokens which another layer selected has no indexer.
    """
    indexer = mixer.indexer
    if indexer is None or (indexer.reuses_selection and reuses_none):
        return
    inputs = mixer.weights.q_lora_rank or hidden
    yield Linear(f"{name}.indexer.wq_b", inputs, (indexer.num_heads * indexer.head_dim,))
    yield Linear(f"{name}.indexer.wk", hidden, (indexer.head_dim,), quantizable=not fused_keys)
    yield PlainModule(hidden * indexer.num_heads)
    yield PlainModule(2 * indexer.head_dim, FLOAT32_BYTES)
    if indexer.group_size > 1:
        # vLLM 0.32.0, models/glm5next Indexer: positions within a group, and scores of its tokens.
        yield PlainModule(indexer.group_size * indexer.head_dim, FLOAT32_BYTES)
        yield PlainModule(hidden * indexer.head_dim)


def mla_expansion(mixer: MultiHeadLatentAttention, name: str, shards: Shards) -> Linear:
    """Return the projection from the compressed vector to keys and values."""
    outputs = shards.share(mixer.num_heads) * (mixer.qk_nope_head_dim + mixer.weights.v_head_dim)
    return Linear(f"{name}.kv_b_proj", mixer.kv_lora_rank, (outputs,), splits_outputs=shards.splits)
