"""Muse Spark: gated attention with windows, and experts that see narrower vectors."""

from collections.abc import Mapping
from typing import Final

from service.architecture.config import Config, InvalidConfig
from service.architecture.families.family import Family, dense, num_layers
from service.architecture.families.recipe import Decoder
from service.architecture.families.windows import by_type
from service.architecture.layers import DecoderLayer, MixtureOfExperts
from service.architecture.muse_spark_towers import muse_spark

NORMS: Final = 5
"""Before the mixer, before and after the network, and the weights by which each joins the residual."""
_DECODER: Final = Decoder(output_gate=True, windows=by_type, norms=NORMS)


def _layers(text: Config) -> tuple[DecoderLayer, ...]:
    """Source: vLLM 0.33.0, models/muse_spark/nvidia/model.py MuseSpark1xDecoderLayer."""
    kinds, count = text.texts("mlp_layer_types"), num_layers(text)
    if len(kinds) != count:
        raise InvalidConfig(text.at("mlp_layer_types"), f"has {len(kinds)} entries for {count} layers")
    experts = MixtureOfExperts(
        num_experts=text.count("num_local_experts"),
        experts_per_token=text.count("num_experts_per_tok"),
        intermediate_size=text.integer("moe_intermediate_size"),
        router_float32=True,
        latent_size=text.integer("moe_hidden_size"),
        latent_norms=2,
    )
    plain = dense(text) if "dense" in kinds else experts
    return tuple(
        DecoderLayer(
            layer.mixer,
            experts if kind == "sparse" else plain,
            norms=NORMS,
            feed_forward_name="feed_forward",
        )
        for layer, kind in zip(_DECODER(text), kinds, strict=True)
    )


FAMILIES: Final[Mapping[str, Family]] = {
    "MuseSparkForConditionalGeneration": Family(
        _layers, multimodal=True, splits_media_heads=True, towers=muse_spark
    )
}
