"""The modules of a decoder layer, by its kind of mixer and feed-forward network."""

from dataclasses import replace
from itertools import chain

from service.architecture.layers.attention import Attention, NoAttention, QueryKeyNorm
from service.architecture.layers.compressed_attention import CompressedAttention, SharedCompressedAttention
from service.architecture.layers.decoder_layer import DecoderLayer, Mixer, SharedBlock
from service.architecture.layers.feed_forward import DenseFeedForward
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.layers.ngram_lookup import NgramLookup
from service.architecture.layers.recurrence import (
    GatedDeltaNet,
    LinearAttention,
    Recurrence,
    ShortConvolution,
)
from service.architecture.layers.sparse_indexers import RegionIndexer
from service.memory.shards import Shards
from service.memory.weights.blocks.built import Built
from service.memory.weights.blocks.compressed_modules import compressed_modules, shared_compressed_modules
from service.memory.weights.blocks.feed_forward_modules import feed_forward_modules
from service.memory.weights.blocks.mla_modules import indexer_modules, mla_modules
from service.memory.weights.blocks.recurrent_modules import recurrent_modules
from service.memory.weights.modules import (
    PARTS_OF_QKV,
    Linear,
    Module,
    Modules,
    PlainModule,
)
from service.units import next_power_of_two

FLOAT32_BYTES = 4


def layer_modules(layer: DecoderLayer, hidden: int, name: str, shards: Shards, built: Built) -> Modules:
    """Yield the modules of one decoder layer called ``name``."""
    if layer.shared is not None:
        yield from _adapters(layer, layer.shared, hidden, name, shards)
    if layer.shared is None or layer.shared.owns_weights:
        yield from _block(layer, hidden, name, shards, built)
    if layer.before is not None:
        yield from recurrent_modules(layer.before, hidden, f"{name}.ple", shards)
    if layer.beside is not None:
        yield from recurrent_modules(layer.beside, hidden, f"{name}.mamba", shards)
    if layer.ngrams is not None:
        shared = shards if built.split_ngram_projections else Shards()
        yield from _ngrams(layer.ngrams, hidden, f"{name}.engram", shared)


def _ngrams(lookup: NgramLookup, hidden: int, name: str, shards: Shards) -> Modules:
    """Yield what turns n-gram embeddings into keys and a value: vLLM 0.30.0 to 0.33.0, common/engram.py.

    Its tables are in the host's memory.
    """
    outputs = shards.share(hidden * (lookup.copies + 1))
    yield Linear(f"{name}.wkv", lookup.tables * lookup.width, (outputs,), splits_outputs=shards.splits)
    yield PlainModule(2 * lookup.copies * hidden)


def _block(layer: DecoderLayer, hidden: int, name: str, shards: Shards, built: Built) -> Modules:
    yield PlainModule(layer.norms * hidden)
    mixer_name = f"{name}.{layer.mixer_name or _module_name(layer.mixer)}"
    own = Shards() if built.whole_layers else shards
    one_key = isinstance(layer.mixer, Attention) and layer.mixer.num_kv_heads == 1
    attending = shards if built.split_single_key_heads and one_key else own
    yield from _mixer(layer.mixer, hidden, mixer_name, attending, built)
    yield from feed_forward_modules(
        layer.feed_forward, hidden, f"{name}.{layer.feed_forward_name}", own, built
    )


def _adapters(layer: DecoderLayer, block: SharedBlock, hidden: int, name: str, shards: Shards) -> Modules:
    """Yield what a layer adds to a block that it shares with others: vLLM 0.32.0, models/zamba2.py."""
    rank = shards.share(block.adapter_rank)
    # The norm of the state space layer that runs beside the block.
    yield PlainModule(hidden)
    yield Linear(f"{name}.linear", hidden, (hidden,))
    if block.attention_adapters and isinstance(layer.mixer, Attention):
        inputs = layer.mixer.weights.input_size or hidden
        outputs = shards.share(layer.mixer.num_heads) * layer.mixer.head_size
        for part in ("q", "k", "v"):
            adapter = f"{name}.linear_{part}_adapter"
            yield Linear(f"{adapter}.A", inputs, (rank,), splits_outputs=shards.splits)
            yield Linear(f"{adapter}.B", block.adapter_rank, (outputs,), splits_outputs=shards.splits)
    if isinstance(layer.feed_forward, DenseFeedForward):
        width = shards.share(layer.feed_forward.intermediate_size)
        yield Linear(f"{name}.gate_up_proj_adapter.A", hidden, (rank,))
        yield Linear(f"{name}.gate_up_proj_adapter.B", block.adapter_rank, (width, width))


def _module_name(mixer: Mixer) -> str:
    return "linear_attn" if isinstance(mixer, Recurrence) else "self_attn"


def _mixer(mixer: Mixer, hidden: int, name: str, shards: Shards, built: Built) -> Modules:
    match mixer:
        case Attention():
            return _of_heads(mixer, hidden, name, shards, built)
        case MultiHeadLatentAttention():
            indexer = indexer_modules(
                mixer,
                hidden,
                name,
                fused_keys=built.fused_indexer_keys,
                reuses_none=built.reused_selection_needs_none,
            )
            return chain(mla_modules(mixer, hidden, name, shards), indexer)
        case SharedCompressedAttention():
            sinks = max(built.least_sinks, next_power_of_two(shards.share(mixer.num_heads)))
            return shared_compressed_modules(mixer, hidden, name, shards, sinks)
        case CompressedAttention():
            return compressed_modules(mixer, hidden, name, shards)
        case NoAttention():
            return iter(())
        case _:
            return (_as_built(each, mixer, built) for each in recurrent_modules(mixer, hidden, name, shards))


def _as_built(module: Module, mixer: Recurrence, built: Built) -> Module:
    """Return a module of a recurrent layer as the release builds it."""
    match mixer:
        case ShortConvolution() if isinstance(module, Linear) and not built.quantized_short_convolutions:
            return replace(module, quantizable=False)
        case GatedDeltaNet() if isinstance(module, Linear) and built.whole_state_gates:
            gates = (mixer.num_value_heads,) * 2
            return replace(module, outputs=gates) if module.name.endswith(".in_proj_ba") else module
    return module


def _of_heads(mixer: Attention, hidden: int, name: str, shards: Shards, built: Built) -> Modules:
    if mixer.weights.low_rank is not None:
        return mla_modules(mixer.weights.low_rank, hidden, name, shards)
    if mixer.weights.linear_weights:
        plain = LinearAttention(mixer.num_heads, mixer.head_size)
        return recurrent_modules(plain, hidden, name, Shards())
    return _attention(mixer, hidden, name, shards, built.shared_projections)


def _attention(mixer: Attention, hidden: int, name: str, shards: Shards, projects_shared: bool) -> Modules:
    weights = mixer.weights
    heads = shards.share(mixer.num_heads)
    kv_heads = shards.kv_heads(mixer.num_kv_heads)
    queries = heads * mixer.head_size * (2 if weights.output_gate else 1)
    keys, values = kv_heads * mixer.head_size, kv_heads * mixer.head_size_v
    if weights.shared_query is not None:
        yield PlainModule(weights.shared_query)
        yield Linear(f"{name}.wq", weights.shared_query, (queries,))
        queries = weights.shared_query
    whole = mixer.shares_cache_of is None or projects_shared
    outputs: tuple[int, ...] = (queries, keys, values) if whole else (queries,)
    parts: tuple[str, ...] = PARTS_OF_QKV if whole else PARTS_OF_QKV[:1]
    if weights.value_experts:
        outputs, parts = outputs[:2], parts[:2]
        yield from _value_experts(weights.value_experts, hidden, name, values)
    outputs += _indexer_outputs(mixer, kv_heads)
    inputs = weights.input_size or hidden
    yield Linear(
        f"{name}.qkv_proj",
        inputs,
        outputs,
        parts,
        bias=sum(outputs) if weights.qkv_bias else 0,
        splits_outputs=shards.splits and len(outputs) == len(PARTS_OF_QKV),
    )
    yield Linear(
        f"{name}.o_proj",
        heads * mixer.head_size_v,
        (hidden,),
        bias=hidden if weights.output_bias else 0,
        input_shards=shards.tensor_parallel_size,
    )
    yield PlainModule(_norm_elements(mixer, shards, whole=whole) + _indexer_norms(mixer))
    if weights.head_gate:
        yield Linear(f"{name}.g_proj", hidden, (heads,))
    if mixer.region_indexer is not None:
        yield from _region_indexer(mixer, mixer.region_indexer, hidden, name, shards)
    yield from _convolved(mixer, keys + values, hidden, name, shards)
    if weights.pass_gate:
        yield Linear(f"{name}.gate_proj", mixer.head_size, (heads,), bias=heads)
    if mixer.sinks:
        yield PlainModule(heads)
    if mixer.stored_sinks:
        yield PlainModule(mixer.stored_sinks * (keys + (values if weights.sink_values else 0)))
    if weights.token_gates:
        yield PlainModule(heads * (1 + 2 * (queries + keys + values) * shards.tensor_parallel_size))


def _indexer_outputs(mixer: Attention, kv_heads: int) -> tuple[int, ...]:
    """Return the outputs that the fused matrix of queries, keys and values has for an indexer.

    Source: vLLM 0.33.0, MinimaxM3QKVParallelLinearWithIndexer splits its queries as keys are and has its key
    on every rank; Qwen4ExpQSAQKVIndexerLinear has both on every rank.
    """
    blocks, groups = mixer.block_indexer, mixer.group_indexer
    if blocks is not None:
        return kv_heads * blocks.head_dim, blocks.head_dim
    return () if groups is None else ((groups.num_heads + 1) * groups.head_dim,)


def _region_indexer(
    mixer: Attention, indexer: RegionIndexer, hidden: int, name: str, shards: Shards
) -> Modules:
    """Yield the indexer that selects regions: its queries are split as the key heads are, its keys are not.

    Source: vLLM 0.33.0, Step5FusedQKVIndexerLinear, Step5SparseIndexerIndexTPLinear and Step5Attention.
    """
    queries = indexer.num_heads // indexer.providers * shards.kv_heads(indexer.providers)
    yield Linear(f"{name}.qkv_indexer_proj", hidden, ((queries + 2) * indexer.head_dim,))
    yield PlainModule(queries * hidden)
    yield PlainModule(mixer.num_heads, FLOAT32_BYTES)
    yield PlainModule(3 * indexer.head_dim)


def _indexer_norms(mixer: Attention) -> int:
    return sum(2 * indexer.head_dim for indexer in (mixer.block_indexer, mixer.group_indexer) if indexer)


def _convolved(mixer: Attention, cached: int, hidden: int, name: str, shards: Shards) -> Modules:
    """Yield short convolutions and relative position scores (vLLM 0.33.0, InklingAttention)."""
    if mixer.convolutions is not None:
        yield PlainModule((cached + 2 * shards.share(hidden)) * mixer.convolutions.kernel)
    relative = mixer.weights.relative
    if relative is not None:
        yield Linear(f"{name}.qkvr", hidden, (shards.share(mixer.num_heads) * relative.width,))
        yield PlainModule(relative.width * relative.extent)


def _value_experts(count: int, hidden: int, name: str, values: int) -> Modules:
    """Yield routed value projections, with their router (vLLM 0.32.0, K2HorizonMoVAAttention)."""
    for index in range(count):
        yield Linear(f"{name}.v_experts.{index}", hidden, (values,))
    yield Linear(f"{name}.v_router", hidden, (count,))


def _norm_elements(mixer: Attention, shards: Shards, *, whole: bool) -> int:
    """Return the elements of the norms of queries and keys, in units of the model's dtype."""
    size, heads, kv_heads = mixer.head_size, mixer.num_heads, mixer.num_kv_heads
    return {
        QueryKeyNorm.NONE: 0,
        QueryKeyNorm.PER_HEAD: (2 if whole else 1) * size,
        QueryKeyNorm.PER_HEAD_FLOAT32: 2 * 2 * size,
        QueryKeyNorm.KEYS_PER_HEAD: size,
        QueryKeyNorm.PER_HEAD_AND_BIAS: 4 * size,
        QueryKeyNorm.FULL: (shards.share(heads) + shards.kv_heads(kv_heads)) * size,
        QueryKeyNorm.WHOLE: (heads + kv_heads) * size,
    }[mixer.weights.query_key_norm]
