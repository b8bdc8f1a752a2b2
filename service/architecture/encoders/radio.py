"""The encoders of Nemotron with images and sound: RADIO and Parakeet."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from service.architecture.config import Config
from service.architecture.encoders.media import IMAGE_CHANNELS
from service.architecture.encoders.siglip import NORM, part, text_width
from service.architecture.encoders.tower import (
    Projection,
    Split,
    Tower,
    biased_block,
)

WIDTHS: Final[Mapping[str, tuple[int, int, int]]] = {
    "vit_small_patch16_224": (384, 12, 1536),
    "vit_base_patch16_224": (768, 12, 3072),
    "vit_large_patch16_224": (1024, 24, 4096),
    "vit_huge_patch16_224": (1280, 32, 5120),
    "vit_so400m_patch16_224": (1152, 27, 4304),
}
"""Width, layers and inner width: vLLM 0.33.0, configs/radio.py VIT_TIMM_DIM_BY_NAME."""
LARGEST: Final = 2048
"""Side of the largest image, in pixels: vLLM 0.33.0, RadioConfig.cpe_max_size."""
LAYER_SCALES: Final = 2


def nano_nemotron(config: Config) -> tuple[Tower, ...] | None:
    """Read the towers of Nemotron Nano VL and Omni; ``None`` for an encoder that the engine does not know.

    Source: vLLM 0.20.2 and 0.33.0, nano_nemotron_vl.py, radio.py RadioModel, InternParallelAttention.
    """
    vision = part(config, "vision_config")
    arguments = part(vision, "args")
    sizes = WIDTHS.get(arguments.text("model"))
    if sizes is None:
        return None
    images = _radio(config, vision, arguments, sizes)
    sound = config.section("sound_config")
    return (images,) if sound is None else (images, _parakeet(sound, text_width(config)))


def llama_nemotron(config: Config) -> tuple[Tower, ...] | None:
    """Read the tower of Llama Nemotron Nano VL, which the transformers library runs in full on every rank.

    Source: vLLM 0.33.0, nemotron_vl.py LlamaNemotronVLChatModel; transformers 5.19, RadioModel.
    """
    vision = part(config, "vision_config")
    arguments = part(vision, "args")
    sizes = WIDTHS.get(arguments.text("model"))
    if sizes is None:
        return None
    tower = _radio(config, vision, arguments, sizes)
    joined, hidden = sizes[0] * _merged(config), text_width(config)
    # The norm has a bias, and so have both projections.
    biases = joined + config.integer("projector_hidden_size", default=4 * sizes[0]) + hidden
    whole = tuple(replace(each, split=Split.REPLICATED) for each in tower.block)
    return (replace(tower, block=whole, frame_elements=tower.frame_elements + biases),)


def _radio(config: Config, vision: Config, arguments: Config, sizes: tuple[int, int, int]) -> Tower:
    width, depth, inner = sizes
    patch = vision.integer("patch_size", default=16)
    side = round(arguments.integer("cpe_max_size", default=LARGEST) / patch)
    pixels = IMAGE_CHANNELS * patch * patch
    frames = vision.count("video_temporal_patch_size", default=1)
    embedders = pixels * (1 + (frames if frames > 1 else 0))
    hidden, projector = text_width(config), config.integer("projector_hidden_size", default=4 * width)
    joined = config.integer("vit_hidden_size", default=width) * _merged(config)
    text = config.section("text_config") or config.section("llm_config") or config
    last = NORM * width if text.integer("num_nextn_predict_layers", default=0, minimum=0) else 0
    return Tower(
        name="vision_model.model",
        depth=depth,
        layers="encoder.layers",
        block=biased_block(width, inner, ("attn.qkv", "attn.proj")),
        block_elements=(LAYER_SCALES + 2 * NORM) * width,
        frame=(),
        frame_elements=(side * side + embedders + _leading_tokens(arguments)) * width
        + last
        + joined
        + (joined + hidden) * projector,
        quantizable=False,
    )


def _merged(config: Config) -> int:
    """Return how many patches are merged into one."""
    return round(1 / max(config.number("downsample_ratio", 0.5), 0.01)) ** 2


def _leading_tokens(arguments: Config) -> int:
    """Return the learned tokens before the patches: one of each teacher, and registers up to a multiple."""
    stated = arguments.fields.get("teachers")
    teachers = [each for each in stated if isinstance(each, dict)] if isinstance(stated, list) else []
    names = {each["name"] for each in teachers if isinstance(each.get("name"), str)}
    tokens = max(1, len(names)) if arguments.boolean("cls_token_per_teacher") else 1
    multiple = arguments.optional_integer("register_multiple")
    return tokens if multiple is None else tokens + multiple - tokens % multiple


def _parakeet(sound: Config, hidden: int) -> Tower:
    """Read the encoder of sound and its projection, which every rank has (vLLM 0.33.0, parakeet.py).

    Source: transformers 5.19, ParakeetEncoder and its defaults.
    """
    width, inner = (
        sound.integer("hidden_size", default=1024),
        sound.integer("intermediate_size", default=4096),
    )
    kernel = sound.count("conv_kernel_size", default=9)
    biased = sound.boolean("convolution_bias", default=True)
    # Queries, keys, values, outputs and positions, with two vectors for each head; no biases.
    attention = 5 * width * width + 2 * width
    networks = 2 * (2 * width * inner)
    # Two pointwise convolutions around one in depth, with its batch norm; the first is gated.
    convolution = (3 * width + kernel) * width + NORM * width + (4 * width if biased else 0)
    projector = sound.integer("projection_hidden_size", default=hidden)
    bias = sound.boolean("projection_bias", default=True)
    return Tower(
        name="sound_encoder.encoder",
        depth=sound.layers("num_hidden_layers"),
        layers="layers",
        block=(),
        block_elements=attention + networks + convolution + 5 * NORM * width,
        frame=(
            Projection("sound_encoder.projection.linear1", width, (projector,), Split.REPLICATED, bias),
            Projection("sound_encoder.projection.linear2", projector, (hidden,), Split.REPLICATED, bias),
        ),
        frame_elements=_subsampling(sound, width) + width,
        quantizable=False,
        sound=True,
    )


def _subsampling(sound: Config, width: int) -> int:
    """Return the elements of the convolutions that shorten a sound, and of the projection after them."""
    channels = sound.count("subsampling_conv_channels", default=256)
    kernel = sound.count("subsampling_conv_kernel_size", default=3) ** 2
    stride = sound.count("subsampling_conv_stride", default=2, minimum=2)
    factor = sound.count("subsampling_factor", default=8)
    bands = max(1, sound.count("num_mel_bins", default=80) // factor)
    steps = 0
    while factor >= stride:
        steps, factor = steps + 1, factor // stride
    first = (kernel + 1) * channels
    others = max(0, steps - 1) * ((kernel + 1) + (channels + 1)) * channels
    return first + others + (channels * bands + 1) * width
