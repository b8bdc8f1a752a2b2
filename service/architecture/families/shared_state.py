"""State spaces whose configs have a style of their own: Zamba 2, PLaMo 2."""

from collections.abc import Mapping
from typing import Final

from service.architecture.config import Config, InvalidConfig
from service.architecture.families.family import (
    Family,
    dense,
    num_kv_heads,
    num_layers,
)
from service.architecture.layers import (
    Attention,
    DecoderLayer,
    DenseFeedForward,
    NoFeedForward,
    QueryKeyNorm,
    SharedBlock,
)
from service.architecture.recurrence import Mamba2
from service.architecture.stages import ALL_EVERYWHERE

ZAMBA_HYBRID: Final = "hybrid"
"""transformers 5.19, Zamba2Config: the layers that run a shared block before their state space."""
ZAMBA_LAYERS: Final = (
    ("mamba", *(("mamba",) * 5 + (ZAMBA_HYBRID,)) * 7)
    + (("mamba",) * 4 + (ZAMBA_HYBRID,))
    + (("mamba",) * 3 + (ZAMBA_HYBRID,))
    + ("mamba",) * 2
)
"""transformers 5.19, Zamba2Config: the layers of a config that does not list them."""
PLAMO_LEAST_RANK: Final = 64
PLAMO_RANK_SHARE: Final = 16
"""vLLM 0.19.0, models/plamo2.py Plamo2MambaMixer: rank of the time step, at least, and of the hidden size."""


def _zamba2(text: Config) -> tuple[DecoderLayer, ...]:
    """Source: vLLM 0.32.0, models/zamba2.py; transformers 5.19, Zamba2Config."""
    hidden, heads = text.integer("hidden_size"), text.count("num_attention_heads")
    size = max(1, 2 * hidden // heads)
    full = Attention(
        num_heads=heads, num_kv_heads=heads, head_size=size, head_size_v=size, input_size=2 * hidden
    )
    network = DenseFeedForward(
        text.optional_integer("intermediate_size") or 4 * hidden, bias=text.boolean("add_bias_linear")
    )
    state, blocks = _zamba2_state(text), text.count("num_mem_blocks")
    kinds = text.texts("layers_block_type") or ZAMBA_LAYERS
    if text.boolean("use_long_context"):
        # Zamba2Config replaces max_position_embeddings and the rotation's base then.
        raise InvalidConfig(text.at("use_long_context"), "the extended context is not modelled")
    if ZAMBA_HYBRID not in kinds:
        raise InvalidConfig(text.at("layers_block_type"), "has no hybrid layer")
    plain = DecoderLayer(state, NoFeedForward(), norms=1, mixer_name="mamba")
    hybrids = (
        # Norms: before the attention on twice the hidden size, and before the network.
        DecoderLayer(full, network, 3, state, feed_forward_name="feed_forward", shared=_block(text, owns=own))
        for own in (nth < blocks for nth in range(len(kinds)))
    )
    return tuple(next(hybrids) if kind == ZAMBA_HYBRID else plain for kind in kinds)


def _block(text: Config, *, owns: bool) -> SharedBlock:
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
        query_key_norm=QueryKeyNorm.FULL,
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
    "Zamba2ForCausalLM": Family(
        _zamba2, frame=ALL_EVERYWHERE, supports_pipeline=False, attention_layers_specified=False
    ),
    "Plamo2ForCausalLM": Family(_plamo2, frame=ALL_EVERYWHERE, attention_layers_specified=False),
}
