"""DeepEncoder, which DeepSeek-OCR reads pages with: SAM's encoder before CLIP's, or before a small decoder.

The engine builds it in sizes of its own, whatever the config says.
Source: vLLM 0.20.2 to 0.33.0, deepencoder.py, deepencoder2.py, deepseek_ocr.py, deepseek_ocr2.py.
"""

from typing import Final

from service.architecture.config import Config
from service.architecture.encoders.tower import Tower, biased_block

SAM_WIDTH: Final = 768
SAM_DEPTH: Final = 12
SAM_HEAD: Final = 64
SAM_GRID: Final = 64
"""Patches of 16 pixels along a side of 1024."""
SAM_PATCH_ELEMENTS: Final = 3 * 16 * 16
SAM_WINDOW: Final = 14
SAM_GLOBAL_LAYERS: Final = 4
"""Layers whose relative positions span the whole image; those of the others span a window."""
NECK: Final = 256
NECK_KERNEL: Final = 3 * 3
WIDER_NECK: Final = 512
CLIP_WIDTH: Final = 1024
CLIP_INNER: Final = 4096
CLIP_DEPTH: Final = 24
CLIP_PATCH_ELEMENTS: Final = 3 * 14 * 14
CLIP_POSITIONS: Final = 257
DECODER_WIDTH: Final = 896
DECODER_INNER: Final = 4864
DECODER_KEYS: Final = 2 * 64
DECODER_DEPTH: Final = 24
DECODER_QUERIES: Final = 144 + 256
"""Learned vectors that become the page's features, of each of two page sizes."""
NORM: Final = 2
"""Vectors of a layer norm: weight and bias."""


def deepseek_ocr(config: Config) -> tuple[Tower, ...]:
    """Read the encoders of DeepSeek-OCR; its projector and two vectors that separate patches follow."""
    clip = Tower(
        name="vision_model",
        depth=CLIP_DEPTH,
        layers="encoder.layers",
        block=biased_block(CLIP_WIDTH, CLIP_INNER),
        block_elements=2 * NORM * CLIP_WIDTH,
        frame=(),
        frame_elements=(1 + CLIP_PATCH_ELEMENTS + CLIP_POSITIONS + NORM) * CLIP_WIDTH,
    )
    return (_whole("sam_model", _sam(CLIP_WIDTH) + _projector(config, CLIP_WIDTH + CLIP_WIDTH, 2)), clip)


def deepseek_ocr2(config: Config) -> tuple[Tower, ...]:
    """Read the encoders of DeepSeek-OCR 2, whose second one is Qwen2's decoder without an embedding."""
    projections = 2 * DECODER_WIDTH * (DECODER_WIDTH + DECODER_KEYS) + DECODER_WIDTH + 2 * DECODER_KEYS
    layer = projections + 3 * DECODER_WIDTH * DECODER_INNER + 2 * DECODER_WIDTH
    decoder = DECODER_DEPTH * layer + (1 + DECODER_QUERIES) * DECODER_WIDTH
    return (_whole("sam_model", _sam(DECODER_WIDTH) + decoder + _projector(config, DECODER_WIDTH, 1)),)


def _whole(name: str, elements: int) -> Tower:
    """Return an encoder that every rank has in full and that nothing quantizes."""
    return Tower(
        name=name,
        depth=0,
        layers="blocks",
        block=(),
        block_elements=0,
        frame=(),
        frame_elements=elements,
        quantizable=False,
    )


def _sam(outputs: int) -> int:
    """Return the elements of SAM's encoder, whose last convolution has this many outputs."""
    feed_forward = 2 * SAM_WIDTH * 4 * SAM_WIDTH + 5 * SAM_WIDTH
    block = 4 * (SAM_WIDTH + 1) * SAM_WIDTH + feed_forward + 2 * NORM * SAM_WIDTH
    relative = SAM_GLOBAL_LAYERS * SAM_GRID + (SAM_DEPTH - SAM_GLOBAL_LAYERS) * SAM_WINDOW
    positions = 2 * (2 * relative - SAM_DEPTH) * SAM_HEAD
    patches = (SAM_PATCH_ELEMENTS + 1 + SAM_GRID * SAM_GRID) * SAM_WIDTH
    neck = SAM_WIDTH * NECK + NECK_KERNEL * NECK * NECK + 2 * NORM * NECK
    after = NECK_KERNEL * (NECK * WIDER_NECK + WIDER_NECK * outputs)
    return patches + SAM_DEPTH * block + positions + neck + after


def _projector(config: Config, inputs: int, separators: int) -> int:
    projector = config.section("projector_config") or Config({}, config.at("projector_config"))
    outputs = projector.integer("n_embed", default=2048)
    return (projector.integer("input_dim", default=inputs) + 1 + separators) * outputs
