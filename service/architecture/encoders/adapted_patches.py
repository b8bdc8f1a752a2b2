"""Vision encoders followed by an adapter between their width and the decoder's."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from service.architecture.config import MAX_LAYERS, Config, InvalidConfig
from service.architecture.encoders.audio import muse_spark_audio
from service.architecture.encoders.media import IMAGE_CHANNELS
from service.architecture.encoders.tower import (
    Projection,
    Split,
    Tower,
    attention_projections,
    biased_block,
    feed_forward_projections,
)

COSMOS_VISION: Final[Mapping[str, Any]] = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "num_channels": 3,
    "patch_size": 16,
    "num_patches": 256,
    "spatial_merge_size": 2,
}
"""transformers 5.19, Cosmos3EdgeVisionConfig."""


PATCH_MERGE: Final = "patch_merge"
"""vLLM 0.33.0, pixtral.py PATCH_MERGE."""
LLAMA4_VISION: Final[Mapping[str, Any]] = {
    "hidden_size": 768,
    "intermediate_size": 5632,
    "num_hidden_layers": 34,
}
"""transformers 5.16, Llama4VisionConfig."""
LLAMA4_OUTPUT: Final = 7680
"""The same, vision_output_dim: inputs of vLLM's Llama4MultiModalProjector."""
LLAMA4_HIDDEN: Final = 5120
"""transformers 5.16, Llama4TextConfig."""


def muse_glimmer(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Muse Glimmer (vLLM 0.32.0, MuseGlimmerVisionEncoder and MuseGlimmerVisionAdapter)."""
    vision = config.section("vision_config")
    if vision is None or config.fields.get("has_vision") is False:
        return ()
    text = config.section("text_config") or config
    width, inner = (
        vision.integer("hidden_size", default=1536),
        vision.integer("intermediate_size", default=8960),
    )
    patch = (
        IMAGE_CHANNELS
        * vision.count("patch_temporal", default=2)
        * vision.integer("patch_size", default=14) ** 2
    )
    positions = vision.count("pos_emb_height", default=32) * vision.count("pos_emb_width", default=32)
    outputs, adapter = (
        vision.integer("output_dim", default=6144),
        vision.integer("adapter_dim", default=4096),
    )
    whole = Split.REPLICATED
    return (
        Tower(
            name="vision_encoder",
            depth=vision.integer("num_hidden_layers", default=50, maximum=MAX_LAYERS),
            layers="transformer",
            block=(
                *attention_projections(("attn.qkv_proj", "attn.o_proj"), width, bias=True, output_bias=True),
                Projection("mlp.c_fc", width, (inner,), whole, bias=True),
                Projection("mlp.c_proj", inner, (width,), whole, bias=True),
            ),
            block_elements=4 * width,
            frame=(
                Projection("vision_adapter.c_fc", outputs, (adapter,), whole),
                Projection("vision_adapter.c_proj", adapter, (adapter,), whole),
                Projection("vision_projection", adapter, (text.integer("hidden_size", default=6656),), whole),
            ),
            frame_elements=(patch + positions + 4) * width,
            quantizable=False,
            heads=vision.count("num_attention_heads", default=16),
        ),
    )


def minimax_m3(config: Config) -> tuple[Tower, ...]:
    """Read the tower of MiniMax M3 (vLLM 0.24.0 to 0.33.0, MiniMaxVLVisionModel)."""
    vision = config.section("vision_config")
    if vision is None:
        return ()
    text = config.section("text_config") or config
    compression = vision.section("img_token_compression_config") or vision
    width, inner = vision.integer("hidden_size"), vision.integer("intermediate_size")
    hidden = text.integer("hidden_size", default=6144)
    between = config.integer("projector_hidden_size", default=hidden)
    merged = hidden * compression.count("spatial_merge_size", default=2) ** 2
    frames = compression.count("temporal_patch_size", default=2)
    patch = vision.count("num_channels", default=IMAGE_CHANNELS) * frames * vision.integer("patch_size") ** 2
    return (
        Tower(
            name="vision_tower",
            depth=vision.layers("num_hidden_layers"),
            layers="vision_model.encoder.layers",
            block=biased_block(width, inner, ("self_attn.qkv_proj", "self_attn.out_proj"), ("fc1", "fc2")),
            block_elements=4 * width,
            frame=(
                *_pair(
                    "multi_modal_projector",
                    width,
                    between,
                    hidden,
                    bias=_biased(vision, "multimodal_projector_bias"),
                ),
                *_pair("patch_merge_mlp", merged, between, hidden, bias=_biased(vision, "patch_merge_bias")),
            ),
            frame_elements=(patch + 2) * width,
        ),
    )


def _biased(vision: Config, name: str) -> bool:
    return vision.boolean(name, default=True)


def _pair(name: str, inputs: int, between: int, outputs: int, *, bias: bool) -> tuple[Projection, ...]:
    return (
        Projection(f"vision_tower.{name}.linear_1", inputs, (between,), Split.COLUMN, bias),
        Projection(f"vision_tower.{name}.linear_2", between, (outputs,), Split.ROW, bias),
    )


def deepseek_v4(config: Config) -> tuple[Tower, ...]:
    """Read the tower of DeepSeek V4, whose fields are among those of the text model.

    Source: vLLM 0.30.0 to 0.33.0, deepseek_v4/common/vision.py and vl_model.py.
    """
    depth = config.integer("vision_n_layers", default=0, minimum=0, maximum=MAX_LAYERS)
    if not depth:
        return ()
    named = _Ends(
        hidden=config.integer("hidden_size"),
        patch=config.integer("vision_patch_size"),
        merged=config.count("vision_downsample_ratio"),
        marks=4,
    )
    return (_of_deepseek(depth, config.integer("vision_dim"), config.integer("vision_inter_dim"), named),)


def deepseek_v41(config: Config) -> tuple[Tower, ...]:
    """Read the tower of DeepSeek V4.1, which has a section of its own.

    Source: vLLM 0.30.0 to 0.33.0, transformers_utils/configs/deepseek_v41.py and
    models/deepseek_v41/nvidia/vl_model.py.
    """
    vision = config.section("vision_config") or Config({}, config.at("vision_config"))
    depth = vision.integer("num_hidden_layers", default=0, minimum=0, maximum=MAX_LAYERS)
    named = _Ends(
        hidden=(config.section("text_config") or config).integer("hidden_size"),
        patch=vision.integer("patch_size", default=14),
        merged=vision.count("downsample_ratio", default=3),
        marks=3,
    )
    width, inner = (
        vision.integer("hidden_size", default=1024),
        vision.integer("intermediate_size", default=2816),
    )
    return (_of_deepseek(depth, width, inner, named),)


@dataclass(frozen=True, slots=True)
class _Ends:
    """What lies around the layers of DeepSeek's tower."""

    hidden: int
    patch: int
    """Pixels of a side of a patch."""
    merged: int
    """Patches of a side that become one token."""
    marks: int
    """Vectors that mark the borders of images and rows, in 32 bits."""


def _of_deepseek(depth: int, width: int, inner: int, ends: _Ends) -> Tower:
    # The 32-bit elements of the marks count as two.
    frame = (IMAGE_CHANNELS * ends.patch**2 + 2) * width + ends.marks * 2 * ends.hidden
    return Tower(
        name="vision",
        depth=depth,
        layers="blocks",
        block=(
            *attention_projections(("attn.wqkv", "attn.wo"), width, bias=True, output_bias=True),
            *feed_forward_projections(("mlp.w1", "mlp.w2"), width, inner, gated=True, bias=False),
        ),
        block_elements=2 * width,
        frame=(
            Projection("aligner.w1", width * ends.merged**2, (ends.hidden,), Split.COLUMN, bias=True),
            Projection("aligner.w2", ends.hidden, (ends.hidden,), Split.ROW, bias=True),
        ),
        frame_elements=frame,
        quantizable=False,
    )


def cosmos_edge(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Cosmos 3 Edge and its merger of patches (vLLM 0.33.0, Cosmos3EdgeVisionModel).

    Configs up to 0.32.0 have a section for the merger.
    """
    specified = config.section("vision_config") or Config({}, config.at("vision_config"))
    vision = Config({**COSMOS_VISION, **specified.fields}, specified.pointer)
    merger = config.section("projector_config") or Config({}, config.at("projector_config"))
    width = vision.integer("hidden_size")
    inner = merger.integer(
        "merger_intermediate_size", default=config.integer("projector_hidden_size", default=11_520)
    )
    patch = vision.count("num_channels") * vision.integer("patch_size") ** 2
    merged = width * merger.count("spatial_merge_size", default=vision.count("spatial_merge_size")) ** 2
    text = config.section("text_config") or config
    outputs = text.integer("hidden_size", default=2048)
    return (
        Tower(
            name="visual.encoder",
            depth=vision.layers("num_hidden_layers"),
            layers="encoder.layers",
            block=biased_block(width, vision.integer("intermediate_size")),
            block_elements=4 * width,
            frame=(
                Projection("visual.projector.linear_fc1", merged, (inner,), Split.COLUMN, bias=True),
                Projection("visual.projector.linear_fc2", inner, (outputs,), Split.ROW, bias=True),
            ),
            frame_elements=(patch + 1 + vision.integer("num_patches") + 2 + 2) * width,
        ),
    )


def pixtral(config: Config) -> tuple[Tower, ...]:
    """Read the tower and projector of Mistral 3 (vLLM 0.24.0, PixtralHFVisionModel)."""
    vision = config.section("vision_config")
    if vision is None:
        return ()
    text = config.section("text_config") or config
    width, hidden = vision.integer("hidden_size"), text.integer("hidden_size")
    merge = config.count("spatial_merge_size", default=2) ** 2
    bias = config.boolean("multimodal_projector_bias")
    names = "multi_modal_projector"
    frame = (
        Projection(f"{names}.linear_1", width, (hidden,), Split.COLUMN, bias),
        Projection(f"{names}.linear_2", hidden, (hidden,), Split.ROW, bias),
    )
    return (pixtral_tower(vision, frame, extra=width + width * width * merge),)


def pixtral_tower(vision: Config, frame: tuple[Projection, ...], *, extra: int = 0) -> Tower:
    """Return Pixtral's tower; ``extra``: elements beside its layers and patches."""
    width, inner = vision.integer("hidden_size"), vision.integer("intermediate_size")
    patch = (
        vision.count("num_channels", default=IMAGE_CHANNELS) * vision.integer("patch_size", default=14) ** 2
    )
    return Tower(
        name="vision_tower",
        depth=vision.layers("num_hidden_layers"),
        layers="transformer.layers",
        block=(
            *attention_projections(
                ("attention.qkv_proj", "attention.o_proj"), width, bias=False, output_bias=False
            ),
            *feed_forward_projections(
                ("feed_forward.gate_up_proj", "feed_forward.down_proj"),
                width,
                inner,
                gated=True,
                bias=False,
            ),
        ),
        block_elements=2 * width,
        frame=frame,
        frame_elements=(patch + 1) * width + extra,
    )


def pixtral_params(config: Config) -> tuple[Tower, ...] | None:
    """Read the tower of Pixtral in Mistral's format, whose adapter nothing quantizes.

    Source: vLLM 0.20.2 and 0.33.0, pixtral.py VisionEncoderArgs, VisionLanguageAdapter and PatchMerger.
    """
    vision = config.section("vision_config")
    if vision is None or "intermediate_size" not in vision:
        return None
    width, hidden = (
        vision.integer("hidden_size"),
        (config.section("text_config") or config).integer("hidden_size"),
    )
    bias = vision.boolean("adapter_bias", default=True)
    adapter = (width + bias) * hidden + (hidden + bias) * hidden
    before = width * vision.boolean("add_pre_mm_projector_layer_norm")
    merges = vision.text("mm_projector_id") == PATCH_MERGE
    merger = merges * width * width * vision.count("spatial_merge_size", default=1) ** 2
    tower = pixtral_tower(vision, (), extra=adapter + before + merger)
    return (replace(tower, name="vision_encoder"),)


def llama4(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Llama 4 (vLLM 0.20.2 to 0.33.0, Llama4VisionModel), which is not quantized."""
    specified = config.section("vision_config") or Config({}, config.at("vision_config"))
    vision = Config({**LLAMA4_VISION, **specified.fields}, specified.pointer)
    hidden = (config.section("text_config") or config).integer("hidden_size", default=LLAMA4_HIDDEN)
    width, inner = vision.integer("hidden_size"), vision.integer("intermediate_size")
    size = vision.integer("patch_size", default=14)
    positions = (vision.integer("image_size", default=448) // size) ** 2 + 1
    first = vision.integer("projector_input_dim", default=4096)
    last = vision.integer("projector_output_dim", default=first)
    joined = vision.integer("vision_output_dim", default=LLAMA4_OUTPUT)
    patch = vision.count("num_channels", default=IMAGE_CHANNELS) * size * size
    adapter = "vision_model.vision_adapter.mlp"
    return (
        Tower(
            name="vision_model",
            depth=vision.layers("num_hidden_layers"),
            layers="model.layers",
            block=biased_block(width, inner, ("self_attn.qkv_proj", "self_attn.o_proj")),
            block_elements=4 * width,
            frame=(
                Projection("vision_model.patch_embedding.linear", patch, (width,), Split.COLUMN),
                Projection(f"{adapter}.fc1", inner, (first,), Split.COLUMN),
                Projection(f"{adapter}.fc2", first, (last,), Split.ROW),
                Projection("multi_modal_projector.linear_1", joined, (hidden,), Split.COLUMN),
            ),
            frame_elements=(positions + 1 + 4) * width,
            quantizable=False,
        ),
    )


def muse_spark(config: Config) -> tuple[Tower, ...]:
    """Read both towers (vLLM 0.33.0, models/muse_spark/common: NaViT and AutoEncoder)."""
    vision, audio, text = (
        _section(config, name) for name in ("vision_config", "audio_config", "text_config")
    )
    return _muse_spark_images(config, vision, text), muse_spark_audio(audio)


def _section(config: Config, name: str) -> Config:
    section = config.section(name)
    if section is None:
        raise InvalidConfig(config.at(name), "is missing")
    return section


def _muse_spark_images(config: Config, vision: Config, text: Config) -> Tower:
    width, inner = vision.integer("hidden_size"), vision.integer("intermediate_size")
    patch = IMAGE_CHANNELS * vision.count("patch_temporal") * vision.integer("patch_size") ** 2
    merged, adapted = width * vision.count("merge_size") ** 2, config.integer("projector_hidden_size")
    positions = vision.count("pos_emb_height") * vision.count("pos_emb_width")
    return Tower(
        name="vision_model",
        depth=vision.layers("num_hidden_layers"),
        layers="encoder.layers",
        block=biased_block(width, inner, ("attn.qkv_proj", "attn.out_proj"), ("mlp.c_fc", "mlp.c_proj")),
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
