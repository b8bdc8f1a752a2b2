"""Decoders with routed experts that differ in a few choices alone."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from service.architecture.config import Config
from service.architecture.families.dense import LLAMA
from service.architecture.families.family import Family, layer_types, num_layers
from service.architecture.families.llama import MIXTRAL_EXPERTS
from service.architecture.families.recipe import (
    LAYER_NORM,
    Decoder,
    Sparse,
    after_dense,
    is_set,
)
from service.architecture.families.windows import (
    by_pattern,
    by_type,
    every_layer,
    no_layer,
)
from service.architecture.layers import (
    DecoderLayer,
    DenseFeedForward,
    FeedForward,
    MixtureOfExperts,
    QueryKeyNorm,
)
from service.architecture.stages import ALL_EVERYWHERE, ModelEnds

PER_HEAD: Final = QueryKeyNorm.PER_HEAD

_DEEPSEEK: Final = Sparse(
    count=("n_routed_experts",), shared_count=("n_shared_experts",), is_sparse=after_dense
)
"""Key names of DeepSeek, which many others took over."""


def _ernie_is_sparse(text: Config, index: int) -> bool:
    """Source: vLLM 0.32.0, Ernie4_5_MoeDecoderLayer.__init__."""
    first = text.integer("moe_layer_start_index", default=0, minimum=0)
    last = text.integer("moe_layer_end_index", default=num_layers(text) - 1, minimum=-1)
    last = num_layers(text) - 1 if last < 0 else last
    return (
        text.boolean("use_moe", default=True)
        and first <= index <= last
        and (index + 1) % text.count("moe_layer_interval", default=1) == 0
    )


_ERNIE: Final = Sparse(
    count=("moe_num_experts",),
    per_token=("moe_k",),
    shared_count=("moe_num_shared_experts",),
    router_bias=True,
    router_float32=True,
    is_sparse=_ernie_is_sparse,
)


def _declared_sparse(text: Config, index: int) -> bool:
    """Whether ``mlp_layer_types`` or the number of leading dense layers make a layer sparse."""
    types = text.texts("mlp_layer_types")
    return types[index] == "sparse" if len(types) > index else after_dense(text, index)


def _after_dense_layers(text: Config, index: int) -> bool:
    return index >= text.count("num_dense_layers", default=0, minimum=0)


def _bailing(text: Config) -> tuple[DecoderLayer, ...]:
    sparse = Sparse(
        shared_count=("num_shared_experts",),
        router_bias=("moe_router_enable_expert_bias",),
        router_float32=text.text("router_dtype") == "fp32",
        is_sparse=after_dense,
    )
    norm = PER_HEAD if text.boolean("use_rmsnorm", default=True) else QueryKeyNorm.PER_HEAD_AND_BIAS
    recipe = Decoder(
        qkv_bias=("use_bias", "use_qkv_bias"),
        output_bias=("use_bias",),
        mlp_bias=("use_bias",),
        norm=norm,
        norm_if=("use_qk_norm",),
        sparse=sparse,
    )
    width = text.optional_integer("moe_shared_expert_intermediate_size")
    return recipe(text) if width is None else _shared_as_declared(recipe(text), text, width)


def _shared_as_declared(
    layers: tuple[DecoderLayer, ...], text: Config, width: int
) -> tuple[DecoderLayer, ...]:
    shared = width * text.count("num_shared_experts", default=0, minimum=0)
    return tuple(
        replace(layer, feed_forward=replace(layer.feed_forward, shared_intermediate_size=shared))
        if isinstance(layer.feed_forward, MixtureOfExperts)
        else layer
        for layer in layers
    )


def _arctic(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Arctic: sparse layers may carry a dense network of the hidden size.

    Source: vLLM 0.24.0, ArcticDecoderLayer.
    """
    recipe = Decoder(windows=no_layer)
    every = text.count("moe_layer_frequency", default=2)
    beside = text.boolean("use_residual")

    def layer(index: int, plain: DecoderLayer) -> DecoderLayer:
        if (index + 1) % every:
            return plain
        experts = replace(
            MIXTRAL_EXPERTS.read(text),
            shared_intermediate_size=text.integer("hidden_size") if beside else 0,
        )
        return replace(plain, feed_forward=experts, norms=3 if beside else 2)

    return tuple(layer(index, plain) for index, plain in enumerate(recipe(text)))


def _dbrx(text: Config) -> tuple[DecoderLayer, ...]:
    attention, network = text.section("attn_config"), text.section("ffn_config")
    heads = text.count("num_attention_heads")
    mixer = replace(
        Decoder(windows=no_layer).attention(text),
        num_kv_heads=heads if attention is None else attention.count("kv_n_heads", default=heads),
    )
    part = network or text
    experts = MixtureOfExperts(
        num_experts=part.count("moe_num_experts", default=4),
        experts_per_token=part.count("moe_top_k", default=1),
        intermediate_size=part.integer("ffn_hidden_size", default=3584),
    )
    return (DecoderLayer(mixer, experts),) * num_layers(text)


def _minicpm(text: Config) -> tuple[DecoderLayer, ...]:
    sparse = Sparse(width=("intermediate_size",)) if text.count("num_experts", default=0, minimum=0) else None
    return Decoder(windows=every_layer, sparse=sparse)(text)


def _grok(text: Config) -> tuple[DecoderLayer, ...]:
    sparse = Sparse(
        count=("num_experts", "num_local_experts"),
        width=("moe_intermediate_size", "intermediate_size"),
        shared_width=("intermediate_size",) if text.boolean("residual_moe") else (),
    )
    return Decoder(norms=4, windows=every_layer, sparse=sparse)(text)


def _hunyuan(text: Config) -> tuple[DecoderLayer, ...]:
    """Read Hunyuan, whose counts and widths may be lists with one entry per layer.

    Source: vLLM 0.24.0, HunYuanSparseMoeBlock.
    """
    recipe = Decoder(
        qkv_bias=("attention_bias", "bias"),
        output_bias=("attention_bias", "bias"),
        mlp_bias=("mlp_bias",),
        norm=PER_HEAD,
        norm_if=("use_qk_norm",),
    )

    def network(index: int) -> FeedForward:
        width = _entry(text, "intermediate_size", index)
        if text.count("num_experts", default=1) == 1:
            return DenseFeedForward(width, bias=is_set(text, ("mlp_bias",)))
        return MixtureOfExperts(
            num_experts=text.count("num_experts"),
            experts_per_token=_entry(text, "moe_topk", index, default=1),
            intermediate_size=_entry(text, "moe_intermediate_size", index, default=width),
            shared_intermediate_size=width * _entry(text, "num_shared_expert", index, default=1)
            if text.fields.get("use_mixed_mlp_moe")
            else 0,
        )

    mixer = recipe.attention(text)
    return tuple(DecoderLayer(mixer, network(index)) for index in range(num_layers(text)))


def _entry(text: Config, name: str, index: int, default: int | None = None) -> int:
    """Return a number of one layer, told for each or for all."""
    if isinstance(text.fields.get(name), list):
        values = text.counts(name)
        return max(1, values[index]) if index < len(values) else max(1, default or 1)
    return text.integer(name, default=default)


_OLMOE: Final = Decoder(
    norm=QueryKeyNorm.WHOLE, windows=no_layer, sparse=Sparse(width=("intermediate_size",))
)
_GRANITE: Final = Decoder(windows=every_layer, sparse=MIXTRAL_EXPERTS)
_GRANITE_SHARED: Final = replace(MIXTRAL_EXPERTS, shared_width=("shared_intermediate_size",))
_EXAONE: Final = Decoder(
    qkv_bias=("attention_bias", "bias"),
    output_bias=("attention_bias", "bias"),
    norm=PER_HEAD,
    windows=by_pattern("sliding_window_pattern", 4),
    sparse=Sparse(shared_count=("num_shared_experts",), router_bias=True, is_sparse=_declared_sparse),
)
_EXAONE_MOE: Final = Family(_EXAONE)
_ARIA: Final = Sparse(
    count=("moe_num_experts",),
    per_token=("moe_topk",),
    width=("intermediate_size",),
    shared_count=("moe_num_shared_experts",),
)


def _first(text: Config, name: str) -> int:
    """Return the number for text where a config tells one for text and one for images."""
    return _entry(text, name, 0)


def _ernie_vl(text: Config) -> tuple[DecoderLayer, ...]:
    """Read ERNIE 4.5 VL: experts for text and others for images (vLLM 0.32.0, Ernie4_5_VLMoeMoE).

    Both kinds of experts count where their layers coincide, as they do in the published models.
    """
    width, images = _first(text, "moe_intermediate_size"), _entry(text, "moe_intermediate_size", 1)
    experts = MixtureOfExperts(
        num_experts=_first(text, "moe_num_experts"),
        experts_per_token=text.count("moe_k"),
        intermediate_size=width + images,
        shared_intermediate_size=width * text.count("moe_num_shared_experts", default=0, minimum=0),
        router_bias=True,
        router_float32=True,
    )
    first = _first(text, "moe_layer_start_index")
    plain = Decoder(qkv_bias=("use_bias",), mlp_bias=("use_bias",))(text)
    return tuple(
        replace(layer, feed_forward=experts) if index >= first else layer for index, layer in enumerate(plain)
    )


def _flint_windows(text: Config) -> tuple[int | None, ...]:
    """Source: vLLM 0.33.0, models/flint/configs.py: without types all layers see everything."""
    slides = text.boolean("use_sliding_window", default=True) and bool(layer_types(text))
    return by_type(text) if slides else no_layer(text)


_FLINT: Final = Decoder(
    qkv_bias=("attention_bias",),
    norm=PER_HEAD,
    windows=_flint_windows,
    sinks=True,
    sparse=Sparse(
        shared_width=("shared_expert_intermediate_size",),
        is_sparse=lambda text, index: index not in text.counts("mlp_only_layers"),
    ),
)
"""vLLM 0.33.0, models/flint/model.py FlintDecoderLayer."""

FAMILIES: Final[Mapping[str, Family]] = {
    "AfmoeForCausalLM": Family(
        Decoder(
            norms=4,
            norm=PER_HEAD,
            output_gate=True,
            windows=by_pattern("global_attn_every_n_layers", 4),
            sparse=Sparse(
                shared_count=("num_shared_experts",),
                router_bias=True,
                router_float32=True,
                is_sparse=_after_dense_layers,
            ),
        )
    ),
    "ArcticForCausalLM": Family(_arctic, frame=ALL_EVERYWHERE),
    "AriaTextForCausalLM": Family(replace(LLAMA, sparse=_ARIA)),
    "BailingMoeForCausalLM": Family(_bailing),
    "BailingMoeV2ForCausalLM": Family(_bailing),
    "Cohere2MoeForCausalLM": Family(
        Decoder(
            norms=1,
            windows=by_pattern("sliding_window_pattern", 4),
            window_excludes_itself=True,
            sparse=Sparse(
                width=("intermediate_size",), shared_count=("num_shared_experts",), is_sparse=_declared_sparse
            ),
        ),
        tied=True,
        frame=ALL_EVERYWHERE,
    ),
    "DbrxForCausalLM": Family(_dbrx, frame=ALL_EVERYWHERE),
    "DeepseekForCausalLM": Family(Decoder(windows=no_layer, sparse=_DEEPSEEK)),
    "Dots1ForCausalLM": Family(
        Decoder(
            qkv_bias=("attention_bias",),
            norm=PER_HEAD,
            sparse=replace(_DEEPSEEK, router_bias=True),
        )
    ),
    "Ernie4_5_MoeForCausalLM": Family(
        Decoder(qkv_bias=("use_bias",), mlp_bias=("use_bias",), sparse=_ERNIE), tied_by_default=True
    ),
    "Ernie4_5_VLTextForCausalLM": Family(_ernie_vl, tied_by_default=True, weights_checked=False),
    "ExaoneMoeForCausalLM": _EXAONE_MOE,
    "ExaoneMoEForCausalLM": _EXAONE_MOE,
    "FlexOlmoForCausalLM": Family(_OLMOE, tied=False, frame=ALL_EVERYWHERE),
    "Glm4MoeForCausalLM": Family(
        Decoder(
            qkv_bias=("attention_bias",),
            norm=PER_HEAD,
            norm_if=("use_qk_norm",),
            sparse=replace(_DEEPSEEK, router_bias=True, router_float32=True),
        )
    ),
    "FlintForCausalLM": Family(_FLINT, tied=False, frame=ALL_EVERYWHERE, only_backend="FLASHINFER"),
    "GraniteMoeForCausalLM": Family(_GRANITE, frame=ALL_EVERYWHERE),
    "GraniteMoeSWAForCausalLM": Family(
        replace(_GRANITE, windows=by_pattern("", 4, full_first=True), sinks=True, sparse=_GRANITE_SHARED),
        frame=ALL_EVERYWHERE,
    ),
    "GraniteMoeSharedForCausalLM": Family(
        replace(_GRANITE, sparse=_GRANITE_SHARED),
        frame=ALL_EVERYWHERE,
    ),
    "Grok1ForCausalLM": Family(_grok, frame=ALL_EVERYWHERE),
    "Grok1ModelForCausalLM": Family(_grok, frame=ALL_EVERYWHERE),
    "HunYuanMoEV1ForCausalLM": Family(_hunyuan),
    "HYV3ForCausalLM": Family(
        Decoder(
            norm=PER_HEAD,
            norm_if=("qk_norm",),
            windows=every_layer,
            sparse=Sparse(
                width=("expert_hidden_dim", "moe_intermediate_size"),
                shared_count=("num_shared_experts",),
                router_bias=True,
                router_float32=True,
                is_sparse=after_dense,
            ),
        ),
        frame=ALL_EVERYWHERE,
    ),
    "MellumForCausalLM": Family(
        Decoder(norm=PER_HEAD, windows=by_type, sparse=Sparse(is_sparse=_declared_sparse)),
    ),
    "MiniCPMForCausalLM": Family(_minicpm, frame=ALL_EVERYWHERE),
    "MiniMaxM2ForCausalLM": Family(
        Decoder(
            qkv_bias=("attention_bias",),
            norm=QueryKeyNorm.FULL,
            windows=every_layer,
            sparse=replace(MIXTRAL_EXPERTS, router_bias=("use_routing_bias",), router_float32=True),
        )
    ),
    "OlmoeForCausalLM": Family(_OLMOE, tied=False, frame=ALL_EVERYWHERE),
    "Param2MoEForCausalLM": Family(
        Decoder(
            qkv_bias=("use_qkv_bias",),
            output_bias=("use_bias",),
            norm=PER_HEAD,
            norm_if=("use_qk_norm",),
            sparse=Sparse(
                shared_count=("num_shared_experts",),
                router_bias=True,
                router_float32=True,
                is_sparse=after_dense,
            ),
        )
    ),
    "PhiMoEForCausalLM": Family(
        Decoder(
            qkv_bias=("attention_bias",),
            output_bias=("attention_bias",),
            norms=2 * LAYER_NORM,
            windows=every_layer,
            sparse=MIXTRAL_EXPERTS,
        ),
        ends=lambda _: ModelEnds(norm_weights=LAYER_NORM, output_bias=True),
        frame=ALL_EVERYWHERE,
    ),
    "SarvamMoEForCausalLM": Family(
        Decoder(
            qkv_bias=("use_qkv_bias",),
            norm=PER_HEAD,
            norm_if=("use_qk_norm",),
            sparse=Sparse(shared_count=("num_shared_experts",), router_bias=True, is_sparse=after_dense),
        )
    ),
}
