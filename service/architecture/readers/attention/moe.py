"""Decoders with routed experts that a recipe describes."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from service.architecture.config import Config
from service.architecture.encoders import merged_patches
from service.architecture.layers.attention import Attention, QueryKeyNorm
from service.architecture.layers.decoder_layer import DecoderLayer, FeedForward
from service.architecture.layers.experts import ExpertWeights, MixtureOfExperts
from service.architecture.layers.model_ends import ModelEnds
from service.architecture.layers.stage_frame import ALL_EVERYWHERE
from service.architecture.readers.attention.dense import LLAMA, qwen2_attention, qwen3_attention
from service.architecture.readers.recipes.family import (
    Family,
    dense,
    lacking,
    lacking_as_written,
    layer_types,
    num_layers,
)
from service.architecture.readers.recipes.recipe import LAYER_NORM, Decoder, Sparse, after_dense
from service.architecture.readers.recipes.windows import by_pattern, by_type, every_layer, no_layer

MIXTRAL_EXPERTS: Final = Sparse(count=("num_local_experts",), width=("intermediate_size",))
PER_HEAD: Final = QueryKeyNorm.PER_HEAD

_DEEPSEEK: Final = Sparse(
    count=("n_routed_experts",), shared_count=("n_shared_experts",), is_sparse=after_dense
)
"""Field names of DeepSeek, which many others use."""


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
    """Return whether a layer has experts, by ``mlp_layer_types`` or the number of leading dense layers."""
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


_OLMOE_EXPERTS: Final = Sparse(width=("intermediate_size",))
_OLMOE: Final = Decoder(norm=QueryKeyNorm.WHOLE, windows=no_layer, even_heads=True, sparse=_OLMOE_EXPERTS)
_GRANITE: Final = Decoder(windows=every_layer, even_heads=True, sparse=MIXTRAL_EXPERTS)
_GRANITE_SHARED: Final = replace(MIXTRAL_EXPERTS, shared_width=("shared_intermediate_size",))
_EXAONE: Final = Decoder(
    qkv_bias=("attention_bias", "bias"),
    output_bias=("attention_bias", "bias"),
    norm=PER_HEAD,
    windows=by_pattern("sliding_window_pattern", 4),
    sparse=Sparse(shared_count=("num_shared_experts",), router_bias=True, is_sparse=_declared_sparse),
)
_EXAONE_MOE: Final = Family(_EXAONE, reads_text_part=True)
_ARIA: Final = Sparse(
    count=("moe_num_experts",),
    per_token=("moe_topk",),
    width=("intermediate_size",),
    shared_count=("moe_num_shared_experts",),
)


def _flint_windows(text: Config) -> tuple[int | None, ...]:
    """Source: vLLM 0.33.0, models/flint/configs.py: without types no layer has a window."""
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


def experts(text: Config, *, shared: int, shared_gate: bool) -> MixtureOfExperts:
    """Return the routed experts of a Qwen layer."""
    return MixtureOfExperts(
        num_experts=text.count("num_experts"),
        experts_per_token=text.count("num_experts_per_tok"),
        intermediate_size=text.integer("moe_intermediate_size"),
        shared_intermediate_size=shared,
        weights=ExpertWeights(
            shared_gate=shared_gate, plain_softmax=not text.boolean("norm_topk_prob", default=True)
        ),
    )


def is_sparse(text: Config, index: int) -> bool:
    """Return whether a layer has routed experts (vLLM 0.32.0, Qwen3MoeDecoderLayer)."""
    return (
        index not in text.counts("mlp_only_layers")
        and text.integer("num_experts", default=0, minimum=0) > 0
        and (index + 1) % text.count("decoder_sparse_step", default=1) == 0
    )


def decoder(
    text: Config,
    mixer: Callable[[int], Attention],
    feed_forward: Callable[[int], FeedForward],
) -> tuple[DecoderLayer, ...]:
    """Return one layer per index."""
    return tuple(DecoderLayer(mixer(index), feed_forward(index)) for index in range(num_layers(text)))


def _qwen2_moe(text: Config) -> tuple[DecoderLayer, ...]:
    mixer = qwen2_attention(text)

    def feed_forward(index: int) -> FeedForward:
        if not is_sparse(text, index):
            return dense(text)
        shared = text.integer("shared_expert_intermediate_size", default=0, minimum=0)
        return experts(text, shared=shared, shared_gate=shared > 0)

    return decoder(text, lambda _: mixer, feed_forward)


def _qwen3_moe(text: Config) -> tuple[DecoderLayer, ...]:
    mixer = qwen3_attention(text)

    def feed_forward(index: int) -> FeedForward:
        if not is_sparse(text, index):
            return dense(text)
        return experts(text, shared=0, shared_gate=False)

    return decoder(text, lambda _: mixer, feed_forward)


def _unless_dense(text: Config, index: int) -> bool:
    """Return whether ``mlp_layer_types`` leaves a layer its experts (vLLM 0.33.0, BeamDecoderLayer)."""
    types = text.texts("mlp_layer_types")
    return index >= len(types) or types[index] == "sparse"


def _unread_frequency(config: Config, text: Config) -> tuple[str, ...]:
    """Return the field that tells sparse layers, where it is missing and layers have experts.

    vLLM 0.10.2 to 0.23.0, dots1.py Dots1DecoderLayer reads it behind n_routed_experts; 0.20.2 asked.
    """
    routed = text.fields.get("n_routed_experts") is not None
    return lacking("moe_layer_freq")(config, text) if routed else ()


def _unread_routing(config: Config, text: Config) -> tuple[str, ...]:
    """Return what a sparse layer reads of a config, and of which only the engine's class had defaults.

    vLLM 0.32.0, afmoe.py AfmoeMoE, with transformers 5.19, whose AfmoeConfig lacks these; 0.33.0 asked.
    """
    if not _after_dense_layers(text, num_layers(text) - 1):
        return ()
    return lacking_as_written("score_func", "route_norm", "n_group", "topk_group")(config, text)


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
        ),
        lacks=_unread_routing,
    ),
    "AriaTextForCausalLM": Family(replace(LLAMA, sparse=_ARIA), tied=False),
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
    "DeepseekForCausalLM": Family(Decoder(windows=no_layer, sparse=_DEEPSEEK)),
    "Dots1ForCausalLM": Family(
        Decoder(
            qkv_bias=("attention_bias",),
            norm=PER_HEAD,
            sparse=replace(_DEEPSEEK, router_bias=True),
        ),
        lacks=_unread_frequency,
    ),
    "Ernie4_5_MoeForCausalLM": Family(
        Decoder(qkv_bias=("use_bias",), mlp_bias=("use_bias",), sparse=_ERNIE), tied_by_default=True
    ),
    "ExaoneMoeForCausalLM": _EXAONE_MOE,
    "ExaoneMoEForCausalLM": _EXAONE_MOE,
    "FlexOlmoForCausalLM": Family(replace(_OLMOE, even_heads=False), tied=False, frame=ALL_EVERYWHERE),
    "Glm4MoeForCausalLM": Family(
        Decoder(
            qkv_bias=("attention_bias",),
            norm=PER_HEAD,
            norm_if=("use_qk_norm",),
            sparse=replace(_DEEPSEEK, router_bias=True, router_float32=True),
        ),
        # Source: vLLM 0.20.2 to 0.33.0, glm4_moe.py Glm4MoeForCausalLM: lm_head is never tied.
        tied=False,
        # Source: vLLM 0.10.2 to 0.33.0, glm4_moe.py Glm4MoeDecoderLayer; asked of five releases.
        lacks=lacking("head_dim", "use_qk_norm"),
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
        # vLLM 0.32.0, hy_v3.py HYV3DecoderLayer and HYV3MoEFused; asked of 0.33.0
        lacks=lacking_as_written("first_k_dense_replace", "expert_hidden_dim", "route_norm"),
    ),
    # transformers 5.20, modeling_kolibri1.py: earlier versions, which the release allows too, lack the class.
    "Kolibri1ForCausalLM": Family(
        Decoder(
            norms=4,
            norm=PER_HEAD,
            windows=by_pattern("sliding_window_pattern", 5),
            sparse=Sparse(
                count=("num_experts", "num_local_experts"), shared_width=("shared_expert_intermediate_size",)
            ),
        ),
    ),
    "MellumForCausalLM": Family(
        Decoder(norm=PER_HEAD, windows=by_type, sparse=Sparse(is_sparse=_declared_sparse)),
        frame=ALL_EVERYWHERE,
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
    "MixtralForCausalLM": Family(Decoder(windows=every_layer, sparse=MIXTRAL_EXPERTS), frame=ALL_EVERYWHERE),
    "Qwen2MoeForCausalLM": Family(_qwen2_moe, frame=ALL_EVERYWHERE),
    "Qwen3MoeForCausalLM": Family(_qwen3_moe, reads_text_part=True, frame=ALL_EVERYWHERE),
    "Qwen3VLMoeForConditionalGeneration": Family(
        _qwen3_moe,
        multimodal=True,
        splits_media_heads=True,
        towers=merged_patches.qwen3_vl,
        frame=ALL_EVERYWHERE,
    ),
    "BeamForCausalLM": Family(
        Decoder(
            norms=4,
            norm=QueryKeyNorm.PER_HEAD,
            output_gate=True,
            windows=by_type,
            sparse=Sparse(router_bias=True, router_float32=True, is_sparse=_unless_dense),
        ),
        tied=False,
    ),
}
