"""Images and videos for encoders that cut them into patches and merge several patches into one token."""

from dataclasses import dataclass
from typing import Final

from service.architecture.config import Config


@dataclass(frozen=True, slots=True)
class PatchedMedia:
    """Sizes of an encoder's inputs and outputs."""

    patch_elements: int
    """Values of one patch: pixels times channels times frames of the patch."""
    width: int
    """Elements of a patch in the tower's residual stream."""
    merged_patches: int
    """Patches that are merged into one token."""
    output_width: int
    """Elements of a token, with those for deeper layers of the decoder."""
    image_tokens: int
    """Tokens of the largest image."""
    video_tokens: int | None = None
    """Tokens of the largest video; ``None`` where each pair of frames takes the tokens of an image."""
    token_side: int = 28
    """Pixels of a side of the square that becomes one token."""


IMAGE_TOKENS: Final = 16_384
"""``max_pixels`` of 12,845,056 in squares of 28 pixels, or 16,777,216 in squares of 32.

Source: preprocessor_config.json of Qwen2-VL, Qwen2.5-VL, Qwen3-VL and Qwen3.5.
"""
QWEN3_VIDEO_TOKENS: Final = 12_288
"""``longest_edge`` of 25,165,824 in squares of 32 pixels over two frames.

Source: video_preprocessor_config.json of Qwen3-VL and Qwen3.5.
"""
IMAGE_CHANNELS: Final = 3


def patch_elements(vision: Config) -> int:
    """Return the number of values of one patch."""
    size = vision.integer("patch_size", default=14)
    frames = vision.count("temporal_patch_size", default=2)
    return vision.count("in_channels", "in_chans", default=IMAGE_CHANNELS) * frames * size * size


def patched_media(
    vision: Config, width: int, output_width: int, video_tokens: int | None = None
) -> PatchedMedia:
    """Read the sizes of an encoder's inputs and outputs from the vision part of the config."""
    return PatchedMedia(
        patch_elements=patch_elements(vision),
        width=width,
        merged_patches=vision.count("spatial_merge_size", default=2) ** 2,
        output_width=output_width,
        image_tokens=IMAGE_TOKENS,
        video_tokens=video_tokens,
        token_side=vision.integer("patch_size", default=14) * vision.count("spatial_merge_size", default=2),
    )
