"""The encoders of Phi with images: CLIP and SigLIP, whose projectors every rank has."""

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
from service.architecture.encoders.tower import Projection, Split, Tower

CLIP_LARGE: Final[dict[str, Any]] = {
    "model_type": "clip_vision_model",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "patch_size": 14,
    "image_size": 336,
}
"""vLLM 0.33.0, phi3v.py CLIP_VIT_LARGE_PATCH14_336_CONFIG: whatever the config says."""
VOCABULARY_UNIT: Final = 64
"""vLLM 0.33.0, vocab_parallel_embedding.py DEFAULT_VOCAB_PADDING_SIZE."""
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
    rows = -(-config.integer("vocab_size") // VOCABULARY_UNIT) * VOCABULARY_UNIT
    table = Projection("embed_tokens", hidden, (rows,), Split.COLUMN, quantizable=False)
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
