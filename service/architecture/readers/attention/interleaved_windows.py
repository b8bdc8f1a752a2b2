"""Sliding windows and full attention in turn: Gemma 2 to 4, gpt-oss, Muse Glimmer."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from service.architecture.config import Config, InvalidConfig
from service.architecture.encoders import pooled_patches, timm_patches
from service.architecture.layers.attention import Attention, AttentionWeights, QueryKeyNorm
from service.architecture.layers.decoder_layer import DecoderLayer, FeedForward
from service.architecture.layers.experts import ExpertWeights, MixtureOfExperts
from service.architecture.layers.feed_forward import DenseFeedForward
from service.architecture.layers.model_ends import ModelEnds
from service.architecture.layers.stage_frame import ALL_EVERYWHERE, EMBEDDING_EVERYWHERE
from service.architecture.readers.recipes.family import (
    Family,
    dense,
    head_size,
    lacking_original_length,
    layer_types,
    num_kv_heads,
    num_layers,
    own_fields,
)

GEMMA4_VIDEO_TOKENS: Final = 32 * (70 + 2 + 6)
"""32 frames of 70 soft tokens, 2 markers and a time stamp of 6.

Source: vLLM 0.24.0, gemma4_mm.py; 0.23.0 to 0.33.0, gemma4_unified.py get_mm_max_tokens_per_item.
"""
GEMMA4_GLOBAL_HEAD: Final = 512
"""transformers, Gemma4TextConfig.global_head_dim."""
SLIDING: Final = "sliding_attention"
FULL: Final = "full_attention"
SANDWICH_NORMS: Final = 4
"""Gemma 2 and later have norms before and after both halves of a layer."""


def _types(text: Config, every: int) -> tuple[str, ...]:
    """Return the type of each layer: ``layer_types``, or else every n-th layer full."""
    specified = layer_types(text)
    return specified[: num_layers(text)] or tuple(
        SLIDING if (index + 1) % every else FULL for index in range(num_layers(text))
    )


def _window(text: Config, kind: str) -> int | None:
    """Return the window of a layer: none where the config says ``null`` (Gemma 2, asked of 0.26.0)."""
    unset = "sliding_window" in text.fields and text.fields["sliding_window"] is None
    return None if unset or kind != SLIDING else text.integer("sliding_window", default=4096)


def _attention(text: Config, kind: str, norm: QueryKeyNorm = QueryKeyNorm.NONE) -> Attention:
    size = head_size(text)
    return Attention(
        num_heads=text.count("num_attention_heads"),
        num_kv_heads=num_kv_heads(text),
        head_size=size,
        head_size_v=size,
        sliding_window=_window(text, kind),
        weights=AttentionWeights(
            qkv_bias=text.boolean("attention_bias"),
            output_bias=text.boolean("attention_bias"),
            query_key_norm=norm,
        ),
    )


def _gemma2(text: Config) -> tuple[DecoderLayer, ...]:
    feed_forward = dense(text)
    capped = "attn_logit_softcapping" in text
    return tuple(
        DecoderLayer(replace(_attention(text, kind), logits_soft_cap=capped), feed_forward, SANDWICH_NORMS)
        for kind in _types(text, every=2)
    )


def _gemma3_lacks(config: Config, _: Config) -> tuple[str, ...]:
    """Return what the class for text alone misses in a config of text and images, which it reads as a whole.

    Source: vLLM 0.20.2 to 0.33.0, gemma3.py Gemma3Model and Gemma3Attention; asked of 0.20.2, 0.26.0 and
    0.33.0.
    """
    if config.text("model_type") != "gemma3":
        return ()
    return tuple(name for name in ("vocab_size", "attention_bias", "layer_types") if name not in config)


def _gemma3(text: Config) -> tuple[DecoderLayer, ...]:
    every = text.count("sliding_window_pattern", "_sliding_window_pattern", default=6)
    feed_forward = dense(text)
    return tuple(
        DecoderLayer(_attention(text, kind, QueryKeyNorm.PER_HEAD), feed_forward, SANDWICH_NORMS)
        for kind in _types(text, every)
    )


def _vault_gemma(text: Config) -> tuple[DecoderLayer, ...]:
    """Read VaultGemma: Gemma 2 without the norms after each half."""
    return tuple(replace(layer, norms=2) for layer in _gemma2(text))


def _rnj1(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Rnj-1: Gemma 3 without windows, unless ``layer_types`` is set (vLLM 0.32.0, Rnj1Attention)."""
    specified = layer_types(text)
    kinds = specified[: num_layers(text)] or (FULL,) * num_layers(text)
    feed_forward = dense(text)
    return tuple(
        DecoderLayer(_attention(text, kind, QueryKeyNorm.PER_HEAD), feed_forward, SANDWICH_NORMS)
        for kind in kinds
    )


def _shared_caches(types: tuple[str, ...], num_shared: int) -> Callable[[int], int | None]:
    """Return a function from a layer's index to that of the layer whose cache it reads, or ``None``.

    It reads the cache of the last layer of its own type that has one.

    Source: vLLM 0.32.0, Gemma4Attention.__init__ (kv_sharing_target_layer_name).
    """
    first_shared = max(0, len(types) - num_shared)  # layers that all share have nothing to share
    last_of_kind = {kind: index for index, kind in enumerate(types[:first_shared])}
    return lambda index: last_of_kind.get(types[index]) if num_shared and index >= first_shared else None


def _gemma3n(text: Config) -> tuple[DecoderLayer, ...]:
    types = _types(text, every=5)
    shares = _shared_caches(types, text.count("num_kv_shared_layers", default=15, minimum=0))
    widths = (
        text.counts("intermediate_size") if isinstance(text.fields.get("intermediate_size"), list) else ()
    )

    def feed_forward(index: int) -> FeedForward:
        if not widths:
            return dense(text)
        if index >= len(widths):
            raise InvalidConfig(text.at("intermediate_size"), f"has no width of layer {index}")
        return DenseFeedForward(max(1, widths[index]))

    return tuple(
        DecoderLayer(
            replace(_attention(text, kind, QueryKeyNorm.PER_HEAD), shares_cache_of=shares(index)),
            feed_forward(index),
            SANDWICH_NORMS,
        )
        for index, kind in enumerate(types)
    )


def _gemma4_attention(text: Config, kind: str, shared: int | None) -> Attention:
    local = replace(_attention(text, kind, QueryKeyNorm.PER_HEAD), shares_cache_of=shared)
    if kind == SLIDING:
        return local
    size = text.integer("global_head_dim", default=GEMMA4_GLOBAL_HEAD)
    keys_are_values = text.boolean("attention_k_eq_v")
    heads = text.count("num_global_key_value_heads", default=local.num_kv_heads)
    return replace(
        local,
        head_size=size,
        head_size_v=size,
        num_kv_heads=heads if keys_are_values else local.num_kv_heads,
        weights=replace(local.weights, keys_are_values=keys_are_values),
    )


def _gemma4_feed_forward(text: Config, *, shared: bool) -> FeedForward:
    wide = 2 if shared and text.boolean("use_double_wide_mlp") else 1
    network = DenseFeedForward(text.integer("intermediate_size") * wide)
    if "num_experts" not in text:
        return network
    return MixtureOfExperts(
        num_experts=text.count("num_experts"),
        experts_per_token=text.count("top_k_experts", default=8),
        intermediate_size=text.integer("moe_intermediate_size", "expert_intermediate_size"),
        parallel_dense=network,
        weights=ExpertWeights(other_gate=True),
    )


def _gemma4_types(text: Config) -> tuple[str, ...]:
    """Return the type of each layer: the last in the list attends to everything, whatever it says.

    Source: transformers 5.10 and 5.19, Gemma4TextConfig.__post_init__.
    """
    types = _types(text, every=6)
    return types if len(layer_types(text)) > len(types) else (*types[:-1], FULL)


def _gemma4(text: Config) -> tuple[DecoderLayer, ...]:
    types = _gemma4_types(text)
    num_shared = text.count("num_kv_shared_layers", default=0, minimum=0)
    shares = _shared_caches(types, num_shared)
    return tuple(
        DecoderLayer(
            _gemma4_attention(text, kind, shares(index)),
            _gemma4_feed_forward(text, shared=num_shared > 0 and index >= len(types) - num_shared),
            SANDWICH_NORMS,
        )
        for index, kind in enumerate(types)
    )


def _diffusion_gemma(text: Config) -> tuple[DecoderLayer, ...]:
    """Read DiffusionGemma: Gemma 4 whose layers that see everything may have heads of their own.

    Source: vLLM 0.24.0 to 0.33.0, diffusion_gemma.py builds Gemma4Model; transformers 5.19,
    DiffusionGemmaTextConfig.__post_init__: ``num_global_key_value_heads`` needs no ``attention_k_eq_v``, and
    ``per_layer_config`` says the same by the layer's number.
    """
    layers = _gemma4(Config({**text.fields, "attention_k_eq_v": True}, text.pointer, plain=text.plain))
    if "per_layer_config" in text:
        size, heads = head_size(text), num_kv_heads(text)
        layers = tuple(
            _with_heads(layer, size, heads, own_fields(text, at)) for at, layer in enumerate(layers)
        )
    return tuple(
        replace(layer, mixer=replace(layer.mixer, canvas=True))
        if isinstance(layer.mixer, Attention)
        else layer
        for layer in layers
    )


def _with_heads(layer: DecoderLayer, size: int, heads: int, own: Config) -> DecoderLayer:
    mixer, size = layer.mixer, own.integer("head_dim", default=size)
    if not isinstance(mixer, Attention):
        return layer
    heads = own.count("num_key_value_heads", default=heads)
    return replace(layer, mixer=replace(mixer, head_size=size, head_size_v=size, num_kv_heads=heads))


def _diffusion_ends(text: Config) -> ModelEnds:
    """Source: vLLM 0.33.0, DiffusionGemmaSelfConditioning."""
    return ModelEnds(self_conditioning=text.integer("intermediate_size"))


def _sees_media_both_ways(text: Config) -> bool:
    return text.fields.get("use_bidirectional_attention") == "vision"


def _gpt_oss(text: Config) -> tuple[DecoderLayer, ...]:
    window = text.integer("sliding_window", default=128)
    size = head_size(text)
    experts = MixtureOfExperts(
        num_experts=text.count("num_local_experts"),
        experts_per_token=text.count("num_experts_per_tok", "experts_per_token", default=4),
        intermediate_size=text.integer("intermediate_size"),
        weights=ExpertWeights(
            router_bias=True,
            expert_bias=True,
            other_gate=True,
        ),
    )

    def layer(index: int) -> DecoderLayer:
        mixer = Attention(
            num_heads=text.count("num_attention_heads"),
            num_kv_heads=num_kv_heads(text),
            head_size=size,
            head_size_v=size,
            # Even layers have the window; `layer_types` is not read: vLLM 0.32.0, gpt_oss.OAIAttention.
            sliding_window=window if index % 2 == 0 else None,
            sinks=True,
            weights=AttentionWeights(
                qkv_bias=True,
                output_bias=True,
            ),
        )
        return DecoderLayer(mixer, experts, mixer_name="attn")

    return tuple(map(layer, range(num_layers(text))))


FULL_EVERY: Final = 4
"""In Muse Glimmer every fourth layer, counted from the last, has no positions and no window."""


def _muse_glimmer(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Muse Glimmer: layers with positions have the window (vLLM 0.32.0, MuseGlimmerAttention)."""
    count, size = num_layers(text), head_size(text)
    specified = text.counts("no_rope_layers")
    turns = (
        specified
        if len(specified) >= count
        else tuple(int((count - 1 - i) % FULL_EVERY != 0) for i in range(count))
    )
    window = text.integer("sliding_window", default=0, minimum=0) or None
    mixer = Attention(
        text.count("num_attention_heads"),
        num_kv_heads(text),
        size,
        size,
        weights=AttentionWeights(output_gate=text.boolean("use_attn_output_gate", default=True)),
    )
    return tuple(
        DecoderLayer(
            replace(mixer, sliding_window=window if turns[index] == 1 else None), dense(text), norms=4
        )
        for index in range(count)
    )


FAMILIES: Final[Mapping[str, Family]] = {
    "Gemma2ForCausalLM": Family(_gemma2, tied=True, tied_by_default=True, frame=ALL_EVERYWHERE),
    "Rnj1ForCausalLM": Family(_rnj1, tied_by_default=True, frame=ALL_EVERYWHERE, weights_checked=False),
    "VaultGemmaForCausalLM": Family(_vault_gemma, tied_by_default=True, frame=EMBEDDING_EVERYWHERE),
    "Gemma3ForCausalLM": Family(_gemma3, tied_by_default=True, frame=ALL_EVERYWHERE, lacks=_gemma3_lacks),
    "Gemma3ForConditionalGeneration": Family(
        _gemma3,
        multimodal=True,
        tied_by_default=True,
        bidirectional_media=lambda _: True,
        splits_media_heads=True,
        towers=pooled_patches.siglip,
        frame=ALL_EVERYWHERE,
    ),
    "Gemma3nForCausalLM": Family(_gemma3n, tied=True, supports_pipeline=False, tied_by_default=True),
    "Gemma3nForConditionalGeneration": Family(
        _gemma3n,
        tied=True,
        supports_pipeline=False,
        multimodal=True,
        tied_by_default=True,
        towers=timm_patches.gemma3n,
    ),
    "Gemma4ForCausalLM": Family(_gemma4, reads_text_part=True, tied_by_default=True, frame=ALL_EVERYWHERE),
    "Gemma4ForConditionalGeneration": Family(
        _gemma4,
        multimodal=True,
        tied_by_default=True,
        largest_media_item=GEMMA4_VIDEO_TOKENS,
        bidirectional_media=_sees_media_both_ways,
        towers=pooled_patches.gemma4,
        frame=ALL_EVERYWHERE,
    ),
    "DiffusionGemmaForBlockDiffusion": Family(
        _diffusion_gemma,
        multimodal=True,
        tied_by_default=True,
        supports_pipeline=False,
        largest_media_item=GEMMA4_VIDEO_TOKENS,
        bidirectional_media=_sees_media_both_ways,
        towers=pooled_patches.gemma4,
        ends=_diffusion_ends,
        frame=ALL_EVERYWHERE,
    ),
    "GptOssForCausalLM": Family(_gpt_oss, tied=False, frame=ALL_EVERYWHERE, lacks=lacking_original_length),
    "MuseGlimmerForCausalLM": Family(_muse_glimmer, tied=False, frame=ALL_EVERYWHERE),
}
