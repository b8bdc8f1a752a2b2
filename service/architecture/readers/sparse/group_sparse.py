"""Attention with heads over groups of tokens that an indexer selects, and delta nets: Qwen4 Exp."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from service.architecture.config import Config, InvalidConfig
from service.architecture.encoders import merged_patches
from service.architecture.layers.attention import Attention
from service.architecture.layers.decoder_layer import DecoderLayer
from service.architecture.layers.hidden_streams import GatedResiduals
from service.architecture.layers.model_ends import ModelEnds
from service.architecture.layers.recurrence import NgramConvolution
from service.architecture.layers.sparse_indexers import GroupIndexer
from service.architecture.layers.stage_frame import StageFrame
from service.architecture.readers.attention.moe import experts
from service.architecture.readers.recipes.family import Family, layer_types, num_layers
from service.architecture.readers.recurrent.gated_delta_net import delta_net, gated_attention

GATES: Final = frozenset({"silu", "swish", "sigmoid"})
"""vLLM 0.29.0 to 0.33.0, QwenGatedDeltaNetAttention."""


def _layers(text: Config, *, images: bool) -> tuple[DecoderLayer, ...]:
    """Source: vLLM 0.29.0 to 0.33.0, models/qwen4_exp/nvidia/model.py Qwen4ExpDecoderLayer."""
    if text.text("output_gate_type", default="silu") not in GATES:
        raise InvalidConfig(text.at("output_gate_type"), f"must be one of {', '.join(sorted(GATES))}")
    types, interval = layer_types(text), text.count("full_attention_interval", default=4)
    grams, full, linear = text.counts("ple_layer_ids"), _attention(text, images=images), delta_net(text)
    network = experts(text, shared=text.integer("shared_expert_intermediate_size"), shared_gate=True)
    return tuple(
        DecoderLayer(
            linear if (types[index] == "linear_attention" if types else (index + 1) % interval) else full,
            network,
            norms=0,
            before=_ngrams(text) if index + 1 in grams else None,
        )
        for index in range(num_layers(text))
    )


def _attention(text: Config, *, images: bool) -> Attention:
    plain = gated_attention(text)
    if "indexer_n_heads" not in text:
        return plain
    rope = text.section("rope_parameters")
    indexer = GroupIndexer(
        num_heads=text.count("indexer_n_heads"),
        head_dim=text.integer("indexer_head_dim"),
        group_size=text.count("indexer_compress_ratio"),
        keeps_positions=images and rope is not None and "mrope_section" in rope,
    )
    return replace(
        plain, group_indexer=indexer, weights=replace(plain.weights, qkv_bias=False, output_gate=True)
    )


def _ngrams(text: Config) -> NgramConvolution:
    hidden = text.integer("hidden_size")
    return NgramConvolution(
        channels=hidden * text.count("hc_count"),
        conv_kernel=text.count("ple_conv_kernel_size"),
        dilation=text.count("ngram_size"),
        embedding_size=text.integer("ple_embed_dim", default=hidden),
    )


def _residuals(text: Config) -> GatedResiduals:
    return GatedResiduals(text.count("hc_count"), text.integer("hc_lowrank"))


def _family(layers: Callable[[Config], tuple[DecoderLayer, ...]]) -> Family:
    return Family(
        layers,
        tied=False,
        hyper_connections=_residuals,
        counted_state=_ngrams,
        frame=StageFrame(embedding=True, output=True),
        ends=lambda _: ModelEnds(norm_weights=0),
    )


def _lacks(config: Config, _: Config) -> tuple[str, ...]:
    """Return ``deepstack_visual_indexes``, for which the config class of the images has no default.

    Source: vLLM 0.33.0 with transformers 5.19, Qwen4ExpVisionConfig; 0.33.0 asked.
    """
    name = "deepstack_visual_indexes"
    vision = config.section("vision_config")
    return () if vision is not None and name in vision.fields else (name,)


FAMILIES: Final[Mapping[str, Family]] = {
    "Qwen4ExpForCausalLM": _family(partial(_layers, images=False)),
    "Qwen4ExpForConditionalGeneration": replace(
        _family(partial(_layers, images=True)),
        multimodal=True,
        splits_media_heads=True,
        towers=merged_patches.qwen3_vl,
        lacks=_lacks,
    ),
}
