"""Decoders whose layers differ in numbers or sizes of heads, or in what was pruned."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from service.architecture.config import MAX_DIMENSION, Config, InvalidConfig
from service.architecture.layers.attention import Attention, AttentionWeights, NoAttention, QueryKeyNorm
from service.architecture.layers.decoder_layer import DecoderLayer, FeedForward, Mixer
from service.architecture.layers.experts import ExpertWeights, MixtureOfExperts
from service.architecture.layers.feed_forward import DenseFeedForward, NoFeedForward
from service.architecture.readers.recipes.family import (
    Family,
    dense,
    head_size,
    layer_types,
    num_kv_heads,
    num_layers,
    own_fields,
)
from service.architecture.readers.recipes.recipe import Sparse

SLIDING: Final = "sliding_attention"
FFN_MULTIPLE: Final = 256
"""Nemotron-NAS rounds widths up to a multiple of it (vLLM 0.32.0, nemotron_nas._find_multiple)."""


def _llama4_lacks(config: Config, _: Config) -> tuple[str, ...]:
    """Return what the class for text alone misses in a config of text and images, which it reads as a whole.

    Source: vLLM 0.20.2 to 0.33.0, llama4.py Llama4Attention; asked of 0.20.2, 0.26.0 and 0.33.0.
    """
    alone = "Llama4ForCausalLM" in config.texts("architectures")
    if not alone or config.text("model_type") != "llama4" or "text_config" in config:
        return ()
    return tuple(name for name in ("no_rope_layers", "use_qk_norm") if name not in config)


def _llama4(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Llama 4: layers with positions attend to chunks, and every n-th layer has experts.

    Source: vLLM 0.32.0, Llama4Attention and Llama4DecoderLayer.
    """
    count = num_layers(text)
    rope = text.counts("no_rope_layers")
    every = text.count("no_rope_layer_interval", default=4)
    positions = rope if len(rope) >= count else tuple(int((index + 1) % every != 0) for index in range(count))
    chunk = text.optional_integer("attention_chunk_size")
    step = text.count("interleave_moe_layer_step", default=1, minimum=0)
    size = head_size(text)
    mixer = Attention(text.count("num_attention_heads"), num_kv_heads(text), size, size)
    width = text.integer("intermediate_size")
    experts = MixtureOfExperts(
        num_experts=text.count("num_local_experts", default=16),
        experts_per_token=text.count("num_experts_per_tok", default=1),
        intermediate_size=width,
        shared_intermediate_size=width,
        weights=ExpertWeights(weighs_inputs=True),
    )
    network = DenseFeedForward(text.integer("intermediate_size_mlp", default=width))

    return tuple(
        DecoderLayer(
            replace(mixer, attention_chunk_size=chunk if positions[index] else None),
            experts if step and (index + 1) % step == 0 else network,
            feed_forward_name="feed_forward",
        )
        for index in range(count)
    )


def _block(text: Config, blocks: object, index: int) -> tuple[Config, Config]:
    block = blocks[index] if isinstance(blocks, list) and index < len(blocks) else None
    where = Config({"block": block}, f"{text.at('block_configs')}/{index}").section("block")
    attention = where.section("attention") if where is not None else None
    network = where.section("ffn") if where is not None else None
    if attention is None or network is None:
        raise InvalidConfig(text.at("block_configs"), f"has no attention and ffn of layer {index}")
    return attention, network


def _nemotron_nas(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Nemotron-NAS, whose config lists what each block has left (vLLM 0.32.0, DeciLMDecoderLayer)."""
    return tuple(
        _nas_layer(text, *_block(text, text.fields.get("block_configs"), index))
        for index in range(num_layers(text))
    )


def _nas_layer(text: Config, attention: Config, network: Config) -> DecoderLayer:
    heads, size = text.count("num_attention_heads"), head_size(text)
    mixer: Mixer = NoAttention()
    feed_forward: FeedForward = NoFeedForward()
    if not attention.boolean("no_op"):
        kv_heads = max(1, heads // attention.count("n_heads_in_group"))
        bias = text.boolean("attention_bias")
        weights = AttentionWeights(qkv_bias=bias, output_bias=bias)
        mixer = Attention(heads, kv_heads, size, size, weights=weights)
    if not network.boolean("no_op"):
        feed_forward = DenseFeedForward(_nas_width(text, network), bias=text.boolean("mlp_bias"))
    norms = (not isinstance(mixer, NoAttention)) + (not isinstance(feed_forward, NoFeedForward))
    return DecoderLayer(mixer, feed_forward, norms)


def _nas_width(text: Config, network: Config) -> int:
    if "ffn_mult" not in network:
        return network.integer("intermediate_size")
    width = int(2 * network.number("ffn_mult", 1.0) * text.integer("hidden_size") / 3)
    return max(FFN_MULTIPLE, -(-width // FFN_MULTIPLE) * FFN_MULTIPLE)


def _mimo_v2(text: Config) -> tuple[DecoderLayer, ...]:
    """Read MiMo-V2: sliding layers have their own numbers of heads, and values are narrower than keys.

    Source: vLLM 0.32.0, MiMoV2DecoderLayer.
    """
    count = num_layers(text)
    pattern, sparse = text.counts("hybrid_layer_pattern"), text.counts("moe_layer_freq")
    for name, values in (("hybrid_layer_pattern", pattern), ("moe_layer_freq", sparse)):
        if len(values) < count:
            raise InvalidConfig(text.at(name), f"has {len(values)} entries for {count} layers")
    full = _mimo_attention(text, "", sink="add_full_attention_sink_bias")
    window = text.integer("sliding_window_size", "sliding_window")
    sliding = replace(
        _mimo_attention(text, "swa_", sink="add_swa_attention_sink_bias"), sliding_window=window
    )
    experts = MixtureOfExperts(
        num_experts=text.count("n_routed_experts"),
        experts_per_token=text.count("num_experts_per_tok"),
        intermediate_size=text.integer("moe_intermediate_size"),
        weights=ExpertWeights(
            router_bias=True,
            router_float32=text.text("moe_router_dtype", default="float32") == "float32",
        ),
    )
    network = dense(text)
    return tuple(
        DecoderLayer(sliding if pattern[index] == 1 else full, experts if sparse[index] else network)
        for index in range(count)
    )


def _mimo_attention(text: Config, prefix: str, *, sink: str) -> Attention:
    size = text.integer(f"{prefix}head_dim")
    return Attention(
        num_heads=text.count(f"{prefix}num_attention_heads"),
        num_kv_heads=text.count(f"{prefix}num_key_value_heads"),
        head_size=size,
        head_size_v=text.integer(f"{prefix}v_head_dim", default=size),
        sinks=text.boolean(sink),
        weights=AttentionWeights(qkv_bias=text.boolean("attention_bias")),
    )


def _step3p5(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Step 3.5 (vLLM 0.32.0, Step3p5DecoderLayer)."""
    count = num_layers(text)
    types = layer_types(text) or tuple(SLIDING if index % 2 == 0 else "" for index in range(count))
    other = text.section("attention_other_setting")
    enum = text.text("moe_layers_enum")
    specified = {int(part) for part in enum.split(",") if part.strip().isdigit()} if enum else None
    sparse = Sparse(
        count=("moe_num_experts",),
        per_token=("moe_top_k",),
        shared_width=("share_expert_dim", "share_expert_dims"),
        router_bias=("use_moe_router_bias",),
        router_float32=text.boolean("need_fp32_gate"),
    )
    window = text.optional_integer("sliding_window")

    def mixer(kind: str) -> Attention:
        part = other if other is not None and other.text("attention_type") == kind else text
        size = part.integer("head_dim", default=head_size(text))
        return Attention(
            num_heads=part.count("num_attention_heads"),
            num_kv_heads=part.count("num_attention_groups"),
            head_size=size,
            head_size_v=size,
            sliding_window=window if kind == SLIDING else None,
            weights=AttentionWeights(
                qkv_bias=text.boolean("attention_bias"),
                query_key_norm=QueryKeyNorm.PER_HEAD,
                head_gate=text.boolean("use_head_wise_attn_gate"),
            ),
        )

    def network(index: int) -> FeedForward:
        return sparse.read(text) if (index >= 1 if specified is None else index in specified) else dense(text)

    return tuple(DecoderLayer(mixer(types[index]), network(index)) for index in range(count))


def _step3(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Step 3: one key/value head, and one narrow query that each head projects.

    Source: vLLM 0.32.0, Step3TextAttention.
    """
    size = text.integer("head_dim")
    mixer = Attention(
        text.count("num_attention_heads"),
        num_kv_heads=1,
        head_size=size,
        head_size_v=size,
        weights=AttentionWeights(shared_query=text.integer("share_q_dim", default=size)),
    )
    experts = Sparse(
        count=("moe_num_experts",), per_token=("moe_top_k",), shared_width=("share_expert_dim",)
    ).read(text)
    specified = {int(part) for part in text.text("moe_layers_enum").split(",") if part.strip().isdigit()}
    if not specified:
        raise InvalidConfig(text.at("moe_layers_enum"), "is missing: the engine needs this list")
    return tuple(
        DecoderLayer(mixer, experts if index in specified else dense(text))
        for index in range(num_layers(text))
    )


def _laguna(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Laguna: numbers of heads by layer, and gated attention (vLLM 0.32.0, LagunaDecoderLayer)."""
    count = num_layers(text)
    types = layer_types(text)
    specified = text.counts("num_attention_heads_per_layer")
    heads = specified if len(specified) >= count else (text.count("num_attention_heads"),) * count
    networks = text.texts("mlp_layer_types")
    gating = text.fields.get("gating")
    experts = Sparse(shared_width=("shared_expert_intermediate_size",), router_bias=True).read(text)
    size, bias = head_size(text), text.boolean("attention_bias")
    weights = AttentionWeights(
        qkv_bias=bias,
        output_bias=bias,
        query_key_norm=QueryKeyNorm.PER_HEAD,
        head_gate=gating is True or gating == "per-head",
        output_gate=bool(gating) and gating is not True and gating != "per-head",
    )

    def layer(index: int) -> DecoderLayer:
        slides = bool(types) and types[index] == SLIDING
        mixer = Attention(
            num_heads=max(1, heads[index]),
            num_kv_heads=num_kv_heads(text),
            head_size=size,
            head_size_v=size,
            sliding_window=text.optional_integer("sliding_window") if slides else None,
            sinks=slides and text.boolean("swa_attention_sink_enabled"),
            weights=weights,
        )
        sparse = networks[index] == "sparse" if len(networks) > index else index > 0
        return DecoderLayer(mixer, experts if sparse else dense(text))

    return tuple(map(layer, range(count)))


def _domyn_edge(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Domyn Edge, whose head sizes and windows differ by layer.

    Source: vLLM 0.33.0, DomynEdgeDecoderLayer; transformers 5.19, HeterogeneousConfigMixin.
    """
    count = num_layers(text)
    windows = text.fields.get("window_sizes")
    if not isinstance(windows, list) or len(windows) < count:
        raise InvalidConfig(text.at("window_sizes"), f"has no entries for {count} layers")
    if len(text.texts("position_layers")) < count:
        raise InvalidConfig(text.at("position_layers"), f"has no entries for {count} layers")

    def mixer(index: int) -> Attention:
        own = own_fields(text, index)
        size = head_size(Config({**text.fields, **own.fields}, own.pointer))
        return Attention(
            num_heads=text.count("num_attention_heads"),
            num_kv_heads=num_kv_heads(text),
            head_size=size,
            head_size_v=size,
            sliding_window=_earlier_tokens(text, windows[index]),
            weights=AttentionWeights(query_key_norm=QueryKeyNorm.KEYS_PER_HEAD),
        )

    return tuple(
        DecoderLayer(
            mixer(index), dense(text), norms=4, mixer_name="attention", feed_forward_name="feedforward"
        )
        for index in range(count)
    )


def _earlier_tokens(text: Config, window: object) -> int | None:
    """Return the window of a layer with the query itself, which the config does not count."""
    before = window[0] if isinstance(window, list) and window else None
    if type(before) is not int or before > MAX_DIMENSION:
        raise InvalidConfig(text.at("window_sizes"), "is not a list of pairs of whole numbers")
    return before + 1 if before > 0 else None


FAMILIES: Final[Mapping[str, Family]] = {
    "DeciLMForCausalLM": Family(_nemotron_nas),
    "DomynEdgeForCausalLM": Family(_domyn_edge, supports_pipeline=False),
    "LagunaForCausalLM": Family(_laguna),
    "Llama4ForCausalLM": Family(_llama4, lacks=_llama4_lacks),
    "MiMoV2FlashForCausalLM": Family(_mimo_v2, reads_text_part=True),
    "MiMoV2ForCausalLM": Family(_mimo_v2),
    "Step3TextForCausalLM": Family(_step3),
    "Step3p5ForCausalLM": Family(_step3p5),
}
