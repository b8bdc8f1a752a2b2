"""Selective state spaces, alone or with attention: Mamba, Jamba, Granite 4, Falcon-H1, Nemotron-H, Zamba."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from service.architecture.config import MAX_LAYERS, Config, InvalidConfig
from service.architecture.encoders import adapted_patches
from service.architecture.layers.attention import Attention, AttentionWeights, NoAttention, QueryKeyNorm
from service.architecture.layers.decoder_layer import DecoderLayer, FeedForward, Mixer, SharedBlock
from service.architecture.layers.experts import ExpertWeights, MixtureOfExperts
from service.architecture.layers.feed_forward import DenseFeedForward, NoFeedForward
from service.architecture.layers.recurrence import Mamba, Mamba2
from service.architecture.layers.stage_frame import ALL_EVERYWHERE
from service.architecture.readers.recipes.family import (
    Family,
    attention,
    dense,
    evenly,
    layer_types,
    num_kv_heads,
    num_layers,
)
from service.units import ceil_div

TIME_STEP_SHARE: Final = 16
"""transformers 5.19, MambaConfig: an automatic rank of the time step is the hidden size over this."""


def _rank(text: Config, key: str) -> int:
    specified = text.fields.get(key)
    return (
        ceil_div(text.integer("hidden_size"), TIME_STEP_SHARE) if specified == "auto" else text.integer(key)
    )


def _expanded(text: Config, key: str) -> int:
    width = int(text.number(key, 2) * text.integer("hidden_size"))
    if width < 1:
        raise InvalidConfig(text.at(key), "leaves no channel of the hidden size")
    return width


def _mamba(text: Config) -> tuple[DecoderLayer, ...]:
    mixer = Mamba(
        intermediate_size=text.optional_integer("intermediate_size") or _expanded(text, "expand"),
        state_size=text.integer("state_size"),
        conv_kernel=text.count("conv_kernel"),
        time_step_rank=_rank(text, "time_step_rank"),
        conv_bias=text.boolean("use_conv_bias", default=True),
        projection_bias=text.boolean("use_bias"),
    )
    return (DecoderLayer(mixer, NoFeedForward(), norms=1, mixer_name="mixer"),) * num_layers(text)


def _mamba2(text: Config) -> tuple[DecoderLayer, ...]:
    """Source: vLLM 0.32.0, models/mamba2.py."""
    mixer = Mamba2(
        num_heads=text.count("num_heads"),
        head_dim=text.integer("head_dim"),
        num_groups=text.count("n_groups"),
        state_size=text.integer("state_size"),
        conv_kernel=text.count("conv_kernel"),
        intermediate_size=text.optional_integer("intermediate_size") or _expanded(text, "expand"),
        conv_bias=text.boolean("use_conv_bias", default=True),
        projection_bias=text.boolean("use_bias"),
    )
    return (DecoderLayer(mixer, NoFeedForward(), norms=1, mixer_name="mixer"),) * num_layers(text)


def _jamba(text: Config) -> tuple[DecoderLayer, ...]:
    """Source: vLLM 0.32.0, models/jamba.py; transformers 5.19, JambaConfig."""
    full = attention(evenly(text))
    state = Mamba(
        intermediate_size=_expanded(text, "mamba_expand"),
        state_size=text.integer("mamba_d_state"),
        conv_kernel=text.count("mamba_d_conv"),
        time_step_rank=_rank(text, "mamba_dt_rank"),
        conv_bias=text.boolean("mamba_conv_bias", default=True),
        projection_bias=text.boolean("mamba_proj_bias"),
        inner_norms=True,
    )
    experts = MixtureOfExperts(
        num_experts=text.count("num_experts"),
        experts_per_token=text.count("num_experts_per_tok"),
        intermediate_size=text.integer("intermediate_size"),
    )
    attends = _Period(text, "attn_layer_period", "attn_layer_offset")
    sparse = _Period(text, "expert_layer_period", "expert_layer_offset")
    return tuple(
        DecoderLayer(
            full if attends(index) else state,
            experts if sparse(index) and experts.num_experts > 1 else dense(text),
            mixer_name="self_attn" if attends(index) else "mamba",
            feed_forward_name="feed_forward",
        )
        for index in range(num_layers(text))
    )


class _Period:
    """Returns whether the layer of an index is one of those with a period and an offset."""

    def __init__(self, text: Config, period: str, offset: str) -> None:
        self.period = text.count(period)
        self.offset = text.count(offset, minimum=0)

    def __call__(self, index: int) -> bool:
        return index % self.period == self.offset


def _mamba2_of_hybrid(text: Config, channels: int | None = None) -> Mamba2:
    """Return Mamba 2 by the fields of Bamba, Granite 4 and Falcon-H1."""
    width = channels or _expanded(text, "mamba_expand")
    heads = text.count("mamba_n_heads")
    specified = text.fields.get("mamba_d_head")
    return Mamba2(
        num_heads=heads,
        head_dim=text.integer("mamba_d_head") if isinstance(specified, int) else max(1, width // heads),
        num_groups=text.count("mamba_n_groups"),
        state_size=text.integer("mamba_d_state"),
        conv_kernel=text.count("mamba_d_conv"),
        intermediate_size=width,
        conv_bias=text.boolean("mamba_conv_bias", default=True),
        projection_bias=text.boolean("mamba_proj_bias"),
    )


def _bamba(text: Config) -> tuple[DecoderLayer, ...]:
    """Source: vLLM 0.19.0, models/bamba.py."""
    full = attention(text, weights=AttentionWeights(qkv_bias=text.boolean("attention_bias")))
    state, network = _mamba2_of_hybrid(text), dense(text, bias=text.boolean("mlp_bias"))
    attending = text.counts("attn_layer_indices")
    return tuple(
        DecoderLayer(full, network, feed_forward_name="feed_forward")
        if index in attending
        else DecoderLayer(state, network, mixer_name="mamba", feed_forward_name="feed_forward")
        for index in range(num_layers(text))
    )


def _granite(text: Config) -> tuple[DecoderLayer, ...]:
    """Source: vLLM 0.32.0, models/granitemoehybrid.py."""
    biased = text.boolean("attention_bias")
    full = attention(text, weights=AttentionWeights(qkv_bias=biased, output_bias=biased))
    state, network = _mamba2_of_hybrid(text), _granite_network(text)
    types = layer_types(text) or text.texts("layers_block_type")
    return tuple(
        DecoderLayer(full, network)
        if index < len(types) and types[index] in {"attention", "full_attention"}
        else DecoderLayer(state, network, mixer_name="mamba")
        for index in range(num_layers(text))
    )


def _granite_network(text: Config) -> FeedForward:
    shared = text.integer("shared_intermediate_size", default=0, minimum=0)
    count = text.count("num_local_experts", default=0, minimum=0)
    if not count:
        return DenseFeedForward(shared) if shared else NoFeedForward()
    return MixtureOfExperts(
        num_experts=count,
        experts_per_token=text.count("num_experts_per_tok"),
        intermediate_size=text.integer("intermediate_size"),
        shared_intermediate_size=shared,
    )


def _falcon_h1(text: Config) -> tuple[DecoderLayer, ...]:
    """Read layers with attention and a state space in parallel (vLLM 0.32.0, models/falcon_h1.py)."""
    state = replace(
        _mamba2_of_hybrid(text, text.optional_integer("mamba_d_ssm")),
        gated_norm=text.boolean("mamba_rms_norm"),
    )
    layer = DecoderLayer(attention(text), dense(text), beside=state, feed_forward_name="feed_forward")
    return (layer,) * num_layers(text)


NEMOTRON_SIGNS: Final[Mapping[str, str]] = {
    "linear_attention": "M",
    "mamba": "M",
    "full_attention": "*",
    "attention": "*",
    "mlp": "-",
    "moe": "E",
}
"""transformers 5.19, NemotronHConfig: types of blocks and their letters in a pattern."""


def _nemotron_pattern(text: Config) -> str:
    pattern = text.text("hybrid_override_pattern")
    if not pattern:
        pattern = "".join(NEMOTRON_SIGNS.get(kind, "?") for kind in text.texts("layers_block_type"))
    key = "hybrid_override_pattern"
    if not pattern:
        raise InvalidConfig(text.at(key), "hybrid_override_pattern or layers_block_type is missing")
    if set(pattern) - set(NEMOTRON_SIGNS.values()):
        raise InvalidConfig(text.at(key), "has blocks other than M, *, - and E")
    if len(pattern) > MAX_LAYERS:
        raise InvalidConfig(text.at(key), f"has more than {MAX_LAYERS} blocks")
    return pattern


def nemotron(text: Config) -> tuple[DecoderLayer, ...]:
    """Read blocks of a state space, attention, a network or experts each (vLLM 0.32.0, nemotron_h.py)."""
    pattern = _nemotron_pattern(text)
    widths = (
        text.counts("intermediate_size") if isinstance(text.fields.get("intermediate_size"), list) else ()
    )
    blocks = {sign: _nemotron_block(text, sign) for sign in dict.fromkeys(pattern) if sign != "-"}
    layers = []
    for index, sign in enumerate(pattern):
        if sign != "-":
            mixer, network = blocks[sign]
        else:
            nth = 0 if len(widths) == 1 else pattern[:index].count("-")
            width = widths[nth] if nth < len(widths) else text.integer("intermediate_size")
            mixer = NoAttention()
            network = DenseFeedForward(width, gated=False, bias=text.boolean("mlp_bias"))
        layers.append(DecoderLayer(mixer, network, 1, mixer_name="mixer", feed_forward_name="mixer"))
    return tuple(layers)


def _cosmos_edge(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Cosmos 3 Edge: one block of attention and one network of Nemotron-H for each layer.

    Source: vLLM 0.33.0, models/cosmos3_edge.py _to_nemotron_h_config.
    """
    return nemotron(
        Config(
            {**text.fields, "hybrid_override_pattern": "*-" * num_layers(text)}, text.pointer, text.written
        )
    )


def _nemotron_block(text: Config, sign: str) -> tuple[Mixer, FeedForward]:
    match sign:
        case "M":
            heads, size = text.count("mamba_num_heads"), text.integer("mamba_head_dim")
            return Mamba2(
                num_heads=heads,
                head_dim=size,
                num_groups=text.count("n_groups"),
                state_size=text.integer("ssm_state_size"),
                conv_kernel=text.count("conv_kernel"),
                intermediate_size=heads * size,
                conv_bias=text.boolean("use_conv_bias", default=True),
                projection_bias=text.boolean("use_bias"),
            ), NoFeedForward()
        case "*":
            return attention(text, window=text.optional_integer("sliding_window")), NoFeedForward()
        case _:
            shared = text.count("n_shared_experts", default=0, minimum=0)
            return NoAttention(), MixtureOfExperts(
                num_experts=text.count("n_routed_experts"),
                experts_per_token=text.count("num_experts_per_tok"),
                intermediate_size=text.integer("moe_intermediate_size"),
                shared_intermediate_size=shared
                * text.integer("moe_shared_expert_intermediate_size", default=1),
                weights=ExpertWeights(
                    router_bias=True,
                    router_computes_float32=True,
                    gated=False,
                    latent_size=text.optional_integer("moe_latent_size"),
                ),
            )


ZAMBA_HYBRID: Final = "hybrid"
"""transformers 5.19, Zamba2Config: layers that run a shared block before their state space."""
ZAMBA_LAYERS: Final = (
    ("mamba", *(("mamba",) * 5 + (ZAMBA_HYBRID,)) * 7)
    + (("mamba",) * 4 + (ZAMBA_HYBRID,))
    + (("mamba",) * 3 + (ZAMBA_HYBRID,))
    + ("mamba",) * 2
)
"""transformers 5.19, Zamba2Config: the layers of a config that does not list them."""
PLAMO_LEAST_RANK: Final = 64
PLAMO_RANK_SHARE: Final = 16
"""vLLM 0.19.0, models/plamo2.py Plamo2MambaMixer: least rank of the time step; divisor of the hidden size."""


def _zamba2(text: Config) -> tuple[DecoderLayer, ...]:
    """Source: vLLM 0.32.0, models/zamba2.py; transformers 5.19, Zamba2Config."""
    hidden, heads = text.integer("hidden_size"), text.count("num_attention_heads")
    size = max(1, 2 * hidden // heads)
    full = Attention(
        num_heads=heads,
        num_kv_heads=heads,
        head_size=size,
        head_size_v=size,
        weights=AttentionWeights(input_size=2 * hidden),
    )
    network = DenseFeedForward(
        text.optional_integer("intermediate_size") or 4 * hidden, bias=text.boolean("add_bias_linear")
    )
    state, blocks = _zamba2_state(text), text.count("num_mem_blocks")
    kinds = text.texts("layers_block_type") or ZAMBA_LAYERS
    if text.boolean("use_long_context"):
        # Zamba2Config then replaces max_position_embeddings and the rotary base.
        raise InvalidConfig(text.at("use_long_context"), "the extended context is not modelled")
    if ZAMBA_HYBRID not in kinds:
        raise InvalidConfig(text.at("layers_block_type"), "has no hybrid layer")
    plain = DecoderLayer(state, NoFeedForward(), norms=1, mixer_name="mamba")
    hybrids = (
        # Norms: before the attention on twice the hidden size, and before the network.
        DecoderLayer(
            full, network, 3, state, feed_forward_name="feed_forward", shared=_zamba2_block(text, owns=own)
        )
        for own in (nth < blocks for nth in range(len(kinds)))
    )
    return tuple(next(hybrids) if kind == ZAMBA_HYBRID else plain for kind in kinds)


def _zamba2_block(text: Config, *, owns: bool) -> SharedBlock:
    return SharedBlock(owns, text.count("adapter_rank"), text.boolean("use_shared_attention_adapter"))


def _zamba2_state(text: Config) -> Mamba2:
    heads, channels = text.count("n_mamba_heads"), text.integer("mamba_expand") * text.integer("hidden_size")
    return Mamba2(
        num_heads=heads,
        head_dim=max(1, channels // heads),
        num_groups=text.count("mamba_ngroups"),
        state_size=text.integer("mamba_d_state"),
        conv_kernel=text.count("mamba_d_conv"),
        intermediate_size=channels,
        conv_bias=text.boolean("use_conv_bias", default=True),
        projection_bias=text.boolean("add_bias_linear"),
    )


def _plamo2(text: Config) -> tuple[DecoderLayer, ...]:
    """Source: vLLM 0.10.2 to 0.26.0, models/plamo2.py."""
    size, step = text.integer("hidden_size_per_head"), text.count("mamba_step", minimum=2)
    full = Attention(
        num_heads=text.count("num_attention_heads"),
        num_kv_heads=num_kv_heads(text),
        head_size=size,
        head_size_v=size,
        weights=AttentionWeights(query_key_norm=QueryKeyNorm.FULL),
    )
    heads = text.count("mamba_num_heads")
    state = Mamba2(
        num_heads=heads,
        head_dim=size,
        num_groups=0,
        state_size=text.integer("mamba_d_state"),
        conv_kernel=text.count("mamba_d_conv"),
        intermediate_size=heads * size,
        conv_bias=False,
        time_step_rank=max(PLAMO_LEAST_RANK, text.integer("hidden_size") // PLAMO_RANK_SHARE),
    )
    count, network = num_layers(text), dense(text)
    attending = {count - 1} if count <= step // 2 else set(range(step // 2, count, step))
    return tuple(
        DecoderLayer(full if index in attending else state, network, norms=4, mixer_name="mixer")
        for index in range(count)
    )


FAMILIES: Final[Mapping[str, Family]] = {
    "MambaForCausalLM": Family(_mamba, frame=ALL_EVERYWHERE, tied_by_default=True),
    "FalconMambaForCausalLM": Family(_mamba, frame=ALL_EVERYWHERE, tied_by_default=True),
    "Mamba2ForCausalLM": Family(_mamba2, frame=ALL_EVERYWHERE, supports_pipeline=False),
    "JambaForCausalLM": Family(_jamba, tied=False, frame=ALL_EVERYWHERE),
    "BambaForCausalLM": Family(_bamba, tied=False, frame=ALL_EVERYWHERE),
    "GraniteMoeHybridForCausalLM": Family(_granite, frame=ALL_EVERYWHERE),
    "FalconH1ForCausalLM": Family(_falcon_h1, attention_layers_specified=False),
    "NemotronHForCausalLM": Family(nemotron, frame=ALL_EVERYWHERE),
    "Cosmos3EdgeForConditionalGeneration": Family(
        _cosmos_edge,
        multimodal=True,
        splits_media_heads=True,
        tied=False,
        frame=ALL_EVERYWHERE,
        towers=adapted_patches.cosmos_edge,
    ),
    "Zamba2ForCausalLM": Family(
        _zamba2, tied=True, frame=ALL_EVERYWHERE, supports_pipeline=False, attention_layers_specified=False
    ),
    "Plamo2ForCausalLM": Family(_plamo2, frame=ALL_EVERYWHERE, attention_layers_specified=False),
}
