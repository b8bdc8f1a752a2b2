"""Attention with heads over blocks of tokens that an indexer selects: MiniMax M3."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from service.architecture.config import Config, InvalidConfig
from service.architecture.layers.attention import Attention, QueryKeyNorm
from service.architecture.layers.decoder_layer import DecoderLayer
from service.architecture.layers.feed_forward import DenseFeedForward
from service.architecture.layers.sparse_indexers import BlockIndexer
from service.architecture.readers.recipes.family import Family, num_layers
from service.architecture.readers.recipes.recipe import Decoder, Sparse
from service.architecture.readers.recipes.windows import no_layer

_DECODER: Final = Decoder(norm=QueryKeyNorm.PER_HEAD, windows=no_layer)
_EXPERTS: Final = Sparse(
    count=("num_local_experts",),
    width=("intermediate_size",),
    shared_count=("n_shared_experts",),
    router_bias=("use_routing_bias",),
    router_float32=True,
)
DEFAULT_LAYERS: Final = (0,) * 3 + (1,) * 57
"""Layers with sparse attention, and with experts, where the config does not say.

Source: vLLM 0.24.0 to 0.33.0, MiniMaxM3TextConfig.__init__.
"""
DEFAULT_INDEXER: Final = Config(
    {
        "sparse_index_dim": 128,
        "sparse_num_index_heads": 4,
        "sparse_topk_blocks": 16,
        "sparse_attention_freq": list(DEFAULT_LAYERS),
    }
)


def _layers(text: Config) -> tuple[DecoderLayer, ...]:
    """Source: vLLM 0.24.0 to 0.33.0, MiniMaxM3DecoderLayer."""
    count = num_layers(text)
    routed = text.counts("moe_layer_freq") if "moe_layer_freq" in text else DEFAULT_LAYERS
    if len(routed) < count:
        raise InvalidConfig(text.at("moe_layer_freq"), f"has {len(routed)} entries for {count} layers")
    specified = text.section("sparse_attention_config") or DEFAULT_INDEXER
    full = _DECODER.attention(text)
    sparse = replace(full, block_indexer=_indexer(specified, full))
    # Layers beyond the list attend to all tokens.
    selects = (*specified.counts("sparse_attention_freq")[:count], *(0,) * count)
    experts, dense = _EXPERTS.read(text), DenseFeedForward(text.integer("dense_intermediate_size"))
    experts = replace(experts, weights=replace(experts.weights, other_gate=True))
    return tuple(
        DecoderLayer(
            sparse if selects[index] else full,
            experts if routed[index] else dense,
            feed_forward_name="block_sparse_moe" if routed[index] else "mlp",
        )
        for index in range(count)
    )


def _indexer(specified: Config, attention: Attention) -> BlockIndexer:
    """Read the indexer, whose number of heads the engine asserts.

    Source: vLLM 0.24.0 to 0.33.0, MinimaxM3QKVParallelLinearWithIndexer.
    """
    heads = specified.count("sparse_num_index_heads")
    if heads != attention.num_kv_heads:
        raise InvalidConfig(
            specified.at("sparse_num_index_heads"), f"must be num_key_value_heads, {attention.num_kv_heads}"
        )
    return BlockIndexer(heads, specified.integer("sparse_index_dim"), specified.count("sparse_topk_blocks"))


FAMILIES: Final[Mapping[str, Family]] = {
    "MiniMaxM3SparseForCausalLM": Family(_layers, tied=False),
}
