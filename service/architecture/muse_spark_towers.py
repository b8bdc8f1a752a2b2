"""Muse Spark's encoders of images and sound."""

from service.architecture.config import Config, InvalidConfig
from service.architecture.media import IMAGE_CHANNELS
from service.architecture.towers import (
    Projection,
    Split,
    Tower,
    attention_projections,
    feed_forward_projections,
)


def muse_spark(config: Config) -> tuple[Tower, ...]:
    """Read both towers (vLLM 0.33.0, models/muse_spark/common: NaViT and AutoEncoder)."""
    vision, audio, text = (
        _section(config, name) for name in ("vision_config", "audio_config", "text_config")
    )
    return _images(config, vision, text), _sounds(audio)


def _section(config: Config, name: str) -> Config:
    section = config.section(name)
    if section is None:
        raise InvalidConfig(config.at(name), "is missing")
    return section


def _images(config: Config, vision: Config, text: Config) -> Tower:
    width, inner = vision.integer("hidden_size"), vision.integer("intermediate_size")
    patch = IMAGE_CHANNELS * vision.count("patch_temporal") * vision.integer("patch_size") ** 2
    merged, adapted = width * vision.count("merge_size") ** 2, config.integer("projector_hidden_size")
    positions = vision.count("pos_emb_height") * vision.count("pos_emb_width")
    return Tower(
        name="vision_model",
        depth=vision.layers("num_hidden_layers"),
        layers="encoder.layers",
        block=(
            *attention_projections(("attn.qkv_proj", "attn.out_proj"), width, bias=True, output_bias=True),
            *feed_forward_projections(("mlp.c_fc", "mlp.c_proj"), width, inner, gated=False, bias=True),
        ),
        block_elements=4 * width,
        frame=(
            Projection("vision_model.conv1_linear", patch, (width,), Split.COLUMN),
            Projection("vision_model.adapter.c_fc", merged, (adapted,), Split.COLUMN),
            Projection("vision_model.adapter.c_proj", adapted, (adapted,), Split.ROW),
            Projection("vision_projection", adapted, (text.integer("hidden_size"),), Split.ROW),
        ),
        frame_elements=(positions + 4) * width,
        quantizable=False,
    )


def _sounds(audio: Config) -> Tower:
    """Return the encoder of sound: stages of their own width, whole on every rank."""
    sizes, depths, patches = (audio.counts(name) for name in ("hidden_sizes", "depths", "patch_sizes"))
    if not sizes or not len(sizes) == len(depths) == len(patches):
        raise InvalidConfig(audio.at("hidden_sizes"), "must be as many as depths and patch_sizes")
    kernel, ratio = audio.count("conv_kernel_size"), audio.number("mlp_ratio", 4.0)
    elements, inputs = 0, 1
    for width, depth, patch in zip(sizes, depths, patches, strict=True):
        inner = int(width * ratio)
        block = width * (kernel + 1) + width + 2 * width * inner + inner + width
        elements += (inputs * patch + 2) * width + depth * block
        inputs = width
    outputs = audio.integer("out_hidden_size")
    return Tower(
        name="audio_encoder",
        depth=0,
        layers="stages",
        block=(),
        block_elements=0,
        frame=(),
        frame_elements=elements + inputs + (inputs + 2) * outputs,
        quantizable=False,
    )
