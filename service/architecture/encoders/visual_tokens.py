"""The encoders of Ovis, which score each merged patch against a vocabulary of images."""

from typing import Any, Final

from service.architecture.config import Config
from service.architecture.encoders.media import IMAGE_CHANNELS
from service.architecture.encoders.siglip import NORM, SIGLIP, part, siglip_tower, text_width
from service.architecture.encoders.tower import (
    Projection,
    Split,
    Tower,
    attention_projections,
    biased_block,
    feed_forward_projections,
)

OVIS2_INDICATORS: Final = 5
"""vLLM 0.20.2 and 0.33.0, ovis.py IMAGE_INDICATOR_IDS."""
OVIS25_INDICATORS: Final = 4
"""vLLM 0.20.2 and 0.33.0, ovis2_5.py INDICATOR_IDS."""
VOCABULARY: Final = 65_536
"""vLLM 0.33.0, transformers_utils/configs/ovis.py: vocab_size of a visual tokenizer."""
AIMV2: Final[dict[str, Any]] = {
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 24,
    "patch_size": 14,
    "image_size": 224,
}
"""vLLM 0.33.0, transformers_utils/configs/ovis.py AIMv2Config."""


def ovis(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Ovis 1.6 and 2 (vLLM 0.20.2 and 0.33.0, ovis.py VisualTokenizer, aimv2.py)."""
    tokenizer = part(config, "visual_tokenizer_config")
    vocabulary = tokenizer.integer("vocab_size", default=VOCABULARY)
    name = "visual_tokenizer.backbone"
    if tokenizer.text("model_type").startswith("siglip"):
        vision = part(tokenizer, "backbone_config", SIGLIP)
        width = vision.integer("hidden_size")
        head, extra = _head(config, tokenizer, width, (vocabulary, OVIS2_INDICATORS))
        return (siglip_tower(f"{name}.vision_model", vision, head, extra=extra + NORM * width),)
    vision = part(tokenizer, "backbone_config", AIMV2)
    head, extra = _head(config, tokenizer, vision.integer("hidden_size"), (vocabulary, OVIS2_INDICATORS))
    return (_aimv2(name, vision, head, extra),)


def _aimv2(name: str, vision: Config, head: tuple[Projection, ...], extra: int) -> Tower:
    width, patch = vision.integer("hidden_size"), vision.integer("patch_size")
    bias, qkv_bias = vision.boolean("use_bias"), vision.boolean("qkv_bias")
    positions = (vision.integer("image_size") // patch) ** 2
    channels = vision.count("num_channels", default=IMAGE_CHANNELS)
    return Tower(
        name=f"{name}.trunk",
        depth=vision.layers("num_hidden_layers"),
        layers="blocks",
        block=(
            *attention_projections(("attn.qkv", "attn.proj"), width, bias=qkv_bias, output_bias=bias),
            *feed_forward_projections(
                ("mlp.fc13", "mlp.fc2"), width, vision.integer("intermediate_size"), gated=True, bias=bias
            ),
        ),
        block_elements=2 * width,
        frame=head,
        # Patches with a bias, their norm, and learned positions.
        frame_elements=(channels * patch * patch + 2 + positions) * width + extra,
    )


def ovis2_5(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Ovis 2.5 and 2.6 (vLLM 0.20.2 and 0.33.0, ovis2_5.py, siglip2navit.py)."""
    vision = part(config, "vit_config", SIGLIP)
    width, patch = vision.integer("hidden_size"), vision.integer("patch_size")
    vocabulary = config.integer("visual_vocab_size", default=VOCABULARY)
    head, extra = _head(config, vision, width, (vocabulary, OVIS25_INDICATORS))
    frames = vision.count("temporal_patch_size", default=1)
    channels = vision.count("num_channels", default=IMAGE_CHANNELS) * frames
    kept = vision.boolean("preserve_original_pe")
    fixed = _fixed_positions(vision)
    positions = (fixed or (vision.integer("image_size") // patch) ** 2) if kept else 0
    return (
        Tower(
            name="visual_tokenizer.vit.vision_model",
            depth=vision.layers("num_hidden_layers"),
            layers="encoder.layers",
            block=biased_block(width, vision.integer("intermediate_size")),
            block_elements=2 * NORM * width,
            frame=head,
            frame_elements=(channels * patch * patch + 1 + NORM + positions) * width + extra,
        ),
    )


def _fixed_positions(vision: Config) -> int:
    """Return ``num_patches``; 0 where it is missing or -1, which lets the image size decide."""
    stated = vision.fields.get("num_patches")
    fixed = isinstance(stated, int) and stated > 0
    return vision.integer("num_patches") if fixed else 0


def _head(
    config: Config, tokenizer: Config, width: int, vocabulary: tuple[int, int]
) -> tuple[tuple[Projection, ...], int]:
    """Return the head of a visual tokenizer, and the elements of its norm and of the table of its words.

    ``vocabulary``: words, and those of them that mark places and have no score.
    """
    words, indicators = vocabulary
    scored = max(1, words - indicators)
    merged = width * tokenizer.count("hidden_stride", default=1) ** 2
    head = Projection("visual_tokenizer.head.0", merged, (scored,), Split.REPLICATED, quantizable=False)
    return (head,), NORM * scored + words * text_width(config)
