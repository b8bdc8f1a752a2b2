"""Encoders of the timm library, whose sizes their names fix."""

from typing import Final

from service.architecture.config import MAX_LAYERS, Config
from service.architecture.encoders.siglip import NORM, linear_elements, part, text_width
from service.architecture.encoders.tower import Projection, Split, Tower, vocabulary_table

SO400M: Final = 1152
SO400M_INNER: Final = 4304
SO400M_DEPTH: Final = 27
SO400M_POSITIONS: Final = 729
SO400M_PATCH: Final = 3 * 14 * 14
"""timm 1.0, vit_so400m_patch14_siglip_384: width, inner width, layers, patches and values of a patch."""

MOBILENET: Final = "mobilenetv5_300m_enc"
MOBILENET_ELEMENTS: Final = 294_126_912
"""Elements of that encoder as timm 1.0.31 builds it, which vLLM 0.33.0 was asked with."""
GEMMA3N_HIDDEN: Final = 2048
"""transformers 5.19, Gemma3nTextConfig."""


DINOV2: Final = 1024
DINOV2_INNER: Final = 4096
DINOV2_DEPTH: Final = 24
DINOV2_REGISTERS: Final = 4
"""timm 1.0, vit_large_patch14_reg4_dinov2: width, inner width, layers and registers."""
OPENVLA_POSITIONS: Final = (224 // 14) ** 2
"""vLLM 0.33.0, openvla.py _OPENVLA_IMAGE_SIZES, the only ones that it takes."""


def openvla(config: Config) -> tuple[Tower, ...]:
    """Read both encoders of OpenVLA, which every rank has, and the projector of what they find.

    Source: vLLM 0.33.0, openvla.py PrismaticVisionBackbone (it takes no other) and PrismaticProjector.
    """
    joined, hidden = DINOV2 + SO400M, text_width(config)
    return (
        Tower(
            name="vision_backbone",
            depth=0,
            layers="",
            block=(),
            block_elements=0,
            frame=(
                Projection("projector.fc1", joined, (4 * joined,), Split.COLUMN, bias=True),
                Projection("projector.fc2", 4 * joined, (hidden,), Split.ROW, bias=True),
                Projection("projector.fc3", hidden, (hidden,), Split.REPLICATED, bias=True),
            ),
            frame_elements=_dinov2() + _siglip(),
        ),
    )


def _dinov2() -> int:
    """Return the elements of DINOv2; each layer has two vectors that scale its outputs."""
    layers = DINOV2_DEPTH * (_layer(DINOV2, DINOV2_INNER) + 2 * DINOV2)
    return layers + (SO400M_PATCH + 1 + OPENVLA_POSITIONS + 1 + DINOV2_REGISTERS + NORM) * DINOV2


def _siglip() -> int:
    """Return the elements of SigLIP with the pooling after its last layer."""
    layers = SO400M_DEPTH * _layer(SO400M, SO400M_INNER)
    pooling = _layer(SO400M, SO400M_INNER) + SO400M - NORM * SO400M
    return layers + pooling + (SO400M_PATCH + 1 + OPENVLA_POSITIONS + NORM) * SO400M


def _layer(width: int, inner: int) -> int:
    """Return the elements of a layer: attention, a network of two projections and two norms."""
    attention = 4 * linear_elements(width, width)
    return attention + linear_elements(width, inner) + linear_elements(inner, width) + 2 * NORM * width


def deepseek_vl2(config: Config) -> tuple[Tower, ...]:
    """Read the tower of DeepSeek-VL2, whatever its vision part says, and its projector.

    It is of the model's type in the end, also where it was built quantized.

    Source: vLLM 0.20.2 and 0.33.0, deepseek_vl2.py _init_vision_module, patch_vit_for_tp, MlpProjector.
    """
    width = SO400M
    fixed = (SO400M_PATCH + 1 + SO400M_POSITIONS + NORM) * width
    # The pooling after the last layer: a vector, queries, keys with values, outputs and a norm.
    pooling = width + 4 * linear_elements(width, width) + NORM * width
    projector = part(config, "projector_config")
    outputs = projector.integer("n_embed", default=2048)
    return (
        Tower(
            name="vision",
            depth=SO400M_DEPTH,
            layers="blocks",
            block=_network(""),
            block_elements=4 * linear_elements(width, width) + 2 * NORM * width,
            frame=_network("vision.attn_pool."),
            frame_elements=fixed + pooling + _projector(projector, outputs) + 2 * outputs,
            quantizable=False,
        ),
    )


def _network(prefix: str) -> tuple[Projection, ...]:
    return (
        Projection(f"{prefix}mlp.fc1", SO400M, (SO400M_INNER,), Split.COLUMN, bias=True),
        Projection(f"{prefix}mlp.fc2", SO400M_INNER, (SO400M,), Split.ROW, bias=True),
    )


def _projector(projector: Config, outputs: int) -> int:
    inputs = projector.integer("input_dim", default=SO400M)
    kind = projector.text("projector_type", default="downsample_mlp_gelu")
    if kind in ("identity", "linear"):
        return linear_elements(inputs, outputs) if kind == "linear" else 0
    depth = projector.integer("depth", default=2, maximum=MAX_LAYERS)
    if kind == "mlp_gelu":
        return linear_elements(inputs, outputs) + (depth - 1) * linear_elements(outputs, outputs)
    merged = inputs * projector.count("downsample_ratio", default=2) ** 2
    wide = outputs * projector.count("mlp_ratio", default=1)
    between = max(0, depth - 2) * linear_elements(wide, wide)
    return linear_elements(merged, wide) + between + linear_elements(wide, outputs)


def gemma3n(config: Config) -> tuple[Tower, ...] | None:
    """Read both encoders of Gemma 3n, which nothing quantizes; ``None`` for another encoder of images.

    Source: vLLM 0.33.0, gemma3n_mm.py Gemma3nMultimodalEmbedder; transformers 5.19, Gemma3nAudioEncoder.
    """
    vision, audio = part(config, "vision_config"), part(config, "audio_config")
    if vision.text("architecture", default=MOBILENET) != MOBILENET:
        return None
    outputs = text_width(config, default=GEMMA3N_HIDDEN)
    width = vision.integer("hidden_size", default=2048)
    images = Tower(
        name="vision_tower",
        depth=0,
        layers="",
        block=(),
        block_elements=0,
        frame=_gemma3n_embedder("embed_vision", vision, width, outputs),
        frame_elements=MOBILENET_ELEMENTS + 2 * width,
        quantizable=False,
    )
    return images, _gemma3n_audio(audio, outputs)


def _gemma3n_embedder(name: str, media: Config, width: int, outputs: int) -> tuple[Projection, ...]:
    """Return the table of marks of a medium, and the projection to the decoder's width."""
    return (
        vocabulary_table(f"{name}.embedding", media.integer("vocab_size", default=128), width),
        Projection(f"{name}.embedding_projection", width, (outputs,), Split.ROW),
    )


def _gemma3n_audio(audio: Config, outputs: int) -> Tower:
    width = audio.integer("hidden_size", default=1536)
    kernel = audio.count("conf_conv_kernel_size", default=5)
    size = width // audio.count("conf_num_attention_heads", default=8)
    first, last = (*audio.counts("sscp_conv_channel_size"), 128, 32)[:2]
    bands = -(-audio.count("input_feat_size", default=128) // 4)
    # Two convolutions of three bands and frames, each with a norm.
    subsampling = (9 + 1) * first + (9 * first + 1) * last + last * bands * width
    # Networks of four widths before and after; five matrices of attention and three of a convolution.
    block = (16 + 5 + 3) * width * width + (9 + kernel) * width + size
    return Tower(
        name="audio_tower",
        depth=audio.integer("conf_num_hidden_layers", default=12, maximum=MAX_LAYERS),
        layers="conformer",
        block=(),
        block_elements=block,
        frame=_gemma3n_embedder("embed_audio", audio, width, outputs),
        frame_elements=subsampling + 2 * width,
        quantizable=False,
        sound=True,
    )
