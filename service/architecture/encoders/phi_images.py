"""The encoders of Phi: CLIP and SigLIP, whose projectors every rank has, and a conformer of sound."""

from dataclasses import replace
from typing import Any, Final

from service.architecture.config import Config
from service.architecture.encoders.siglip import (
    NORM,
    SIGLIP2,
    linear_elements,
    part,
    siglip_tower,
    vision_part,
)
from service.architecture.encoders.tower import Projection, Split, Tower, vocabulary_table

CLIP_LARGE: Final[dict[str, Any]] = {
    "model_type": "clip_vision_model",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "patch_size": 14,
    "image_size": 336,
}
"""vLLM 0.33.0, phi3v.py CLIP_VIT_LARGE_PATCH14_336_CONFIG: whatever the config says."""
NAVIT: Final[dict[str, Any]] = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "patch_size": 14,
    "image_size": 448,
}
"""vLLM 0.20.2 and 0.33.0, phi4mm.py get_navit_vision_model, whatever the config says."""
DISTANCES: Final = 1000
"""vLLM 0.33.0, phi4mm_audio.py: t5_bias_max_distance, where the config does not state it."""
SEPARATED: Final = 4
"""Patches that are merged into one (Phi-3 Vision's HD transform)."""


def phi3_v(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Phi-3 and Phi-3.5 Vision (vLLM 0.20.2 and 0.33.0, Phi3HDImageEmbedding)."""
    vision = Config(CLIP_LARGE, config.at("img_processor"))
    processor = part(config, "img_processor")
    width, hidden = vision.integer("hidden_size"), config.integer("hidden_size")
    merged = SEPARATED * processor.integer("image_dim_out", default=width)
    layers, chosen = vision.layers("num_hidden_layers"), processor.fields.get("layer_idx", -2)
    index = chosen if isinstance(chosen, int) and not isinstance(chosen, bool) else -2
    depth = max(0, min(layers, layers + index + 1 if index < 0 else index + 1))
    # Two separators, a projection of two layers, and CLIP's class embedding and first norm without a
    # bias of patches.
    projector = linear_elements(merged, hidden) + linear_elements(hidden, hidden)
    extra = 2 * merged + projector + (1 + 1 + NORM - 1) * width
    # The class has a table of tokens beside that of its decoder.
    table = vocabulary_table("embed_tokens", config.integer("vocab_size"), hidden)
    name = "vision_embed_tokens.img_processor.vision_model"
    return (siglip_tower(name, vision, (table,), depth=depth, extra=extra),)


def phi4_siglip(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Phi-4 with SigLIP 2, built without its last layer (vLLM 0.20.2, phi4siglip.py)."""
    vision = vision_part(config, SIGLIP2)
    inputs = config.integer("mm_hidden_size", default=vision.integer("hidden_size"))
    hidden, names = config.integer("hidden_size"), "multi_modal_projector"
    frame = (
        Projection(f"{names}.linear_1", inputs, (hidden,), Split.COLUMN, bias=True),
        Projection(f"{names}.linear_2", hidden, (hidden,), Split.ROW, bias=True),
    )
    depth = max(0, vision.layers("num_hidden_layers") - 1)
    return (siglip_tower("vision_tower.vision_model", vision, frame, depth=depth),)


def phi4_multimodal(config: Config) -> tuple[Tower, ...]:
    """Read both encoders of Phi-4 Multimodal, which nothing quantizes.

    Source: vLLM 0.20.2 and 0.33.0, phi4mm.py Phi4MMImageEncoder, phi4mm_audio.py AudioEmbedding.
    """
    hidden = config.integer("hidden_size")
    vision = Config(NAVIT, config.at("img_processor"))
    width, layers = vision.integer("hidden_size"), vision.layers("num_hidden_layers")
    # Two separators, and a projection of two layers; the last layer of the encoder is not read.
    extra = 2 * width + linear_elements(width, hidden) + linear_elements(hidden, hidden)
    images = siglip_tower("vision_encoder.img_processor", vision, depth=layers - 1, extra=extra)
    specified = part(part(config, "audio_processor"), "config")
    return (replace(images, quantizable=False), _cascades(specified, hidden))


def _cascades(audio: Config, hidden: int) -> Tower:
    """Return the conformer of sound, which every rank has, with a projector for each use."""
    width, inner = audio.integer("attention_dim"), audio.integer("linear_units")
    settings = part(audio, "nemo_conv_settings")
    channels = settings.integer("conv_channels", default=width)
    network = NORM * width + linear_elements(width, 2 * inner) + linear_elements(inner, width)
    # A gated convolution of one frame with two biases, one in depth, and two of one frame.
    convolution = (
        (NORM + 2) * width
        + linear_elements(width, 2 * width)
        + (audio.count("kernel_size") + 1) * width
        + 2 * linear_elements(width, width)
    )
    reduction = audio.count("time_reduction")
    steps = max(1, reduction.bit_length() - 1)
    inputs = audio.count("input_size")
    kernel = 3 * 3 + 1
    subsampling = kernel * channels + (steps - 1) * (kernel * channels + linear_elements(channels, channels))
    bands = max(1, inputs // reduction)
    relative = part(audio, "relative_attention_bias_args")
    distances = relative.count("t5_bias_max_distance", default=DISTANCES)
    sides = 1 if relative.boolean("t5_bias_symmetric") else 2
    biases = sides * distances * audio.count("attention_heads")
    projector = linear_elements(width, hidden) + linear_elements(hidden, hidden)
    return Tower(
        name="embed_tokens_extend.encoder",
        depth=audio.layers("num_blocks"),
        layers="encoders",
        block=(),
        block_elements=2 * network + 4 * linear_elements(width, width) + convolution + 2 * NORM * width,
        frame=(),
        frame_elements=subsampling
        + linear_elements(channels * bands, width)
        + biases
        + 2 * inputs
        + 2 * projector,
        quantizable=False,
        sound=True,
    )
