"""Encoders of images and sound beside the decoder, as far as their weights are concerned."""

from dataclasses import dataclass
from enum import StrEnum
from math import prod
from typing import Final

from service.architecture.config import Config
from service.architecture.media import (
    IMAGE_CHANNELS,
    QWEN3_VIDEO_TOKENS,
    PatchedMedia,
    patch_elements,
    patched_media,
)


class Split(StrEnum):
    """How tensor parallelism divides a projection."""

    COLUMN = "column"
    ROW = "row"
    REPLICATED = "replicated"


@dataclass(frozen=True, slots=True)
class Projection:
    """One linear layer of a tower."""

    name: str
    inputs: int
    outputs: tuple[int, ...]
    """One width per projection that the engine fuses."""
    split: Split
    bias: bool = False


@dataclass(frozen=True, slots=True)
class Tower:
    """An encoder: the same block again and again, with a frame around it."""

    name: str
    """Module name below the model."""
    depth: int
    block: tuple[Projection, ...]
    """Projections of one layer, named below ``<layers>.<index>``."""
    layers: str
    """Module that holds the layers, e.g. ``blocks``."""
    block_elements: int
    """Norms and other small weights of one layer, on every rank in full."""
    frame: tuple[Projection, ...]
    """Projections outside the layers: mergers, projectors, named below the model."""
    frame_elements: int
    """Patch and position embeddings and norms outside the layers, on every rank in full."""
    position_elements: int = 0
    """Learned positions that some releases shard."""
    quantizable: bool = True
    """Whether the engine hands its quantization to the tower at all."""
    deep_features: int = 0
    """Inner layers whose features the decoder takes up as well, each through a buffer as long as a step."""
    media: PatchedMedia | None = None
    """What it encodes, where that is known."""


QWEN2_RATIO: Final = 4.0
"""transformers, Qwen2VLVisionConfig.mlp_ratio."""


def attention_projections(
    names: tuple[str, str], width: int, *, bias: bool, output_bias: bool
) -> tuple[Projection, ...]:
    """Return the fused and the last projection of an encoder's attention."""
    return (
        Projection(names[0], width, (width, width, width), Split.COLUMN, bias),
        Projection(names[1], width, (width,), Split.ROW, output_bias),
    )


def feed_forward_projections(
    names: tuple[str, str], width: int, inner: int, *, gated: bool, bias: bool
) -> tuple[Projection, ...]:
    """Return the projections of an encoder's feed-forward network."""
    return (
        Projection(names[0], width, (inner, inner) if gated else (inner,), Split.COLUMN, bias),
        Projection(names[1], inner, (width,), Split.ROW, bias),
    )


def _merger(name: str, first: str, second: str, merged: int, outputs: int) -> tuple[Projection, ...]:
    return (
        Projection(f"{name}.{first}", merged, (merged,), Split.COLUMN, bias=True),
        Projection(f"{name}.{second}", merged, (outputs,), Split.ROW, bias=True),
    )


def qwen2_vl(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Qwen2-VL (vLLM 0.24.0, Qwen2VisionTransformer)."""
    vision = config.section("vision_config")
    if vision is None:
        return ()
    width = vision.integer("embed_dim")
    merged = width * vision.count("spatial_merge_size", default=2) ** 2
    inner = max(1, int(width * vision.number("mlp_ratio", QWEN2_RATIO)))
    return (
        Tower(
            name="visual",
            depth=vision.layers("depth"),
            layers="blocks",
            block=(
                *attention_projections(("attn.qkv", "attn.proj"), width, bias=True, output_bias=True),
                *feed_forward_projections(("mlp.fc1", "mlp.fc2"), width, inner, gated=False, bias=True),
            ),
            block_elements=4 * width,
            frame=_merger("visual.merger", "mlp.0", "mlp.2", merged, vision.integer("hidden_size")),
            frame_elements=patch_elements(vision) * width + 2 * width,
            media=patched_media(vision, width, vision.integer("hidden_size")),
        ),
    )


def qwen2_5_vl(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Qwen2.5-VL (vLLM 0.24.0, Qwen2_5_VisionTransformer)."""
    vision = config.section("vision_config")
    if vision is None:
        return ()
    width = vision.integer("hidden_size")
    inner = vision.integer("intermediate_size")
    merged = width * vision.count("spatial_merge_size", default=2) ** 2
    return (
        Tower(
            name="visual",
            depth=vision.layers("depth"),
            layers="blocks",
            block=(
                *attention_projections(("attn.qkv", "attn.proj"), width, bias=True, output_bias=True),
                *feed_forward_projections(
                    ("mlp.gate_up_proj", "mlp.down_proj"), width, inner, gated=True, bias=True
                ),
            ),
            block_elements=2 * width,
            frame=_merger("visual.merger", "mlp.0", "mlp.2", merged, vision.integer("out_hidden_size")),
            frame_elements=patch_elements(vision) * width + width,
            media=patched_media(vision, width, vision.integer("out_hidden_size")),
        ),
    )


def qwen3_vl(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Qwen3-VL and Qwen3.5 (vLLM 0.24.0, Qwen3_VisionTransformer)."""
    vision = config.section("vision_config")
    if vision is None:
        return ()
    width = vision.integer("hidden_size")
    inner = vision.integer("intermediate_size")
    merged = width * vision.count("spatial_merge_size", default=2) ** 2
    outputs = vision.integer("out_hidden_size")
    deep = len(vision.counts("deepstack_visual_indexes"))
    mergers = ("visual.merger", *(f"visual.deepstack_merger_list.{index}" for index in range(deep)))
    fixed = patch_elements(vision) + 1 + vision.integer("num_position_embeddings", default=2304) + 2
    return (
        Tower(
            name="visual",
            depth=vision.layers("depth"),
            layers="blocks",
            block=(
                *attention_projections(("attn.qkv", "attn.proj"), width, bias=True, output_bias=True),
                *feed_forward_projections(
                    ("mlp.linear_fc1", "mlp.linear_fc2"), width, inner, gated=False, bias=True
                ),
            ),
            block_elements=4 * width,
            frame=tuple(
                projection
                for name in mergers
                for projection in _merger(name, "linear_fc1", "linear_fc2", merged, outputs)
            ),
            frame_elements=fixed * width + deep * 2 * merged,
            deep_features=deep,
            media=patched_media(vision, width, outputs * (1 + deep), QWEN3_VIDEO_TOKENS),
        ),
    )


def pixtral(config: Config) -> tuple[Tower, ...]:
    """Read the tower and projector of Mistral 3 (vLLM 0.24.0, PixtralHFVisionModel)."""
    vision = config.section("vision_config")
    if vision is None:
        return ()
    text = config.section("text_config") or config
    width, inner = vision.integer("hidden_size"), vision.integer("intermediate_size")
    hidden = text.integer("hidden_size")
    merge = config.count("spatial_merge_size", default=2) ** 2
    bias = config.boolean("multimodal_projector_bias")
    patch = (
        vision.count("num_channels", default=IMAGE_CHANNELS) * vision.integer("patch_size", default=14) ** 2
    )
    names = "multi_modal_projector"
    return (
        Tower(
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
            frame=(
                Projection(f"{names}.linear_1", width, (hidden,), Split.COLUMN, bias),
                Projection(f"{names}.linear_2", hidden, (hidden,), Split.ROW, bias),
            ),
            frame_elements=(patch + 1) * width + width + width * width * merge,
        ),
    )


def siglip(config: Config) -> tuple[Tower, ...]:
    """Read the tower and projector of Gemma 3 (vLLM 0.24.0, SiglipVisionModel)."""
    vision = config.section("vision_config")
    if vision is None:
        return ()
    text = config.section("text_config") or config
    width, inner = vision.integer("hidden_size"), vision.integer("intermediate_size")
    patch = vision.integer("patch_size", default=14)
    positions = (vision.integer("image_size", default=896) // patch) ** 2
    channels = vision.count("num_channels", default=IMAGE_CHANNELS)
    return (
        Tower(
            name="vision_tower.vision_model",
            depth=vision.layers("num_hidden_layers"),
            layers="encoder.layers",
            block=(
                *attention_projections(
                    ("self_attn.qkv_proj", "self_attn.out_proj"), width, bias=True, output_bias=True
                ),
                *feed_forward_projections(("mlp.fc1", "mlp.fc2"), width, inner, gated=False, bias=True),
            ),
            block_elements=4 * width,
            frame=(),
            frame_elements=(channels * patch * patch + 1 + 2 + 1) * width
            + width * text.integer("hidden_size"),
            position_elements=positions * width,
        ),
    )


def moonvit(config: Config) -> tuple[Tower, ...]:
    """Read the tower and projector of Kimi K2.5 (vLLM 0.24.0, MoonViT3dPretrainedModel)."""
    vision = config.section("vision_config")
    if vision is None:
        return ()
    text = config.section("text_config") or config
    width, inner = vision.integer("vt_hidden_size"), vision.integer("vt_intermediate_size")
    kernel = vision.counts("merge_kernel_size")[:2] or (2, 2)
    merged = width * max(1, prod(kernel))
    positions = vision.integer("init_pos_emb_height", default=64) * vision.integer(
        "init_pos_emb_width", default=64
    )
    patch = IMAGE_CHANNELS * vision.integer("patch_size", default=14) ** 2
    hidden = vision.integer("text_hidden_size", default=text.integer("hidden_size"))
    return (
        Tower(
            name="vision_tower",
            depth=vision.layers("vt_num_hidden_layers"),
            layers="encoder.blocks",
            block=(
                *attention_projections(("wqkv", "wo"), width, bias=True, output_bias=True),
                *feed_forward_projections(("mlp.fc0", "mlp.fc1"), width, inner, gated=False, bias=True),
            ),
            block_elements=4 * width,
            frame=(
                Projection("mm_projector.linear_1", merged, (merged,), Split.REPLICATED, bias=True),
                Projection("mm_projector.linear_2", merged, (hidden,), Split.REPLICATED, bias=True),
            ),
            frame_elements=(patch + 1 + positions + 2 + 2) * width,
            quantizable=False,
        ),
    )


def _gemma4_vision(vision: Config, hidden: int) -> Tower:
    width, inner = vision.integer("hidden_size"), vision.integer("intermediate_size")
    size = vision.integer("head_dim", default=width // vision.count("num_attention_heads"))
    heads = vision.count("num_attention_heads") * size
    kv_heads = vision.count("num_key_value_heads", default=vision.count("num_attention_heads")) * size
    patch = IMAGE_CHANNELS * vision.integer("patch_size", default=16) ** 2
    linear = {
        "self_attn.q_proj": (width, heads),
        "self_attn.k_proj": (width, kv_heads),
        "self_attn.v_proj": (width, kv_heads),
        "self_attn.o_proj": (heads, width),
        "mlp.gate_proj": (width, inner),
        "mlp.up_proj": (width, inner),
        "mlp.down_proj": (inner, width),
    }
    return Tower(
        name="vision_tower",
        depth=vision.layers("num_hidden_layers"),
        layers="encoder.layers",
        block=tuple(
            Projection(f"{name}.linear", inputs, (outputs,), Split.REPLICATED)
            for name, (inputs, outputs) in linear.items()
        ),
        block_elements=4 * width + 2 * size,
        frame=(Projection("embed_vision.embedding_projection", width, (hidden,), Split.REPLICATED),),
        frame_elements=(patch + 2 * vision.integer("position_embedding_size", default=10240)) * width,
        quantizable=width % 64 == 0 and inner % 64 == 0,
    )


def _gemma4_audio(audio: Config, hidden: int) -> Tower:
    width = audio.integer("hidden_size")
    outputs = audio.integer("output_proj_dims", default=width)
    channels = audio.counts("subsampling_conv_channels") or (128, 32)
    size = width // audio.count("num_attention_heads")
    wide = 4 * width
    linear = (
        *(
            (f"self_attn.{name}", width, width)
            for name in ("q_proj", "k_proj", "v_proj", "post", "relative_k_proj")
        ),
        *((f"feed_forward{n}.ffw_layer_1", width, wide) for n in (1, 2)),
        *((f"feed_forward{n}.ffw_layer_2", wide, width) for n in (1, 2)),
        ("lconv1d.linear_start", width, 2 * width),
        ("lconv1d.linear_end", width, width),
    )
    first, last = channels[0], channels[-1]
    convolutions = 9 * first + 9 * first * last + first + last
    return Tower(
        name="audio_tower",
        depth=audio.layers("num_hidden_layers"),
        layers="layers",
        block=tuple(Projection(name, i, (o,), Split.REPLICATED) for name, i, o in linear),
        block_elements=(audio.count("conv_kernel_size", default=5) + 9) * width + size,
        frame=(
            Projection(
                "audio_tower.subsample.input_proj_linear", first // 4 * last, (width,), Split.REPLICATED
            ),
            Projection("audio_tower.output_proj", width, (outputs,), Split.REPLICATED, bias=True),
            Projection("embed_audio.embedding_projection", outputs, (hidden,), Split.REPLICATED),
        ),
        frame_elements=convolutions,
    )


def gemma4(config: Config) -> tuple[Tower, ...]:
    """Read the towers of Gemma 4 (vLLM 0.24.0, Gemma4ForConditionalGeneration)."""
    hidden = (config.section("text_config") or config).integer("hidden_size")
    vision, audio = config.section("vision_config"), config.section("audio_config")
    towers = () if vision is None else (_gemma4_vision(vision, hidden),)
    return towers if audio is None else (*towers, _gemma4_audio(audio, hidden))


def llama4(config: Config) -> tuple[Tower, ...]:
    """Read the tower of Llama 4 (vLLM 0.32.0, Llama4VisionModel)."""
    vision = config.section("vision_config")
    if vision is None:
        return ()
    hidden = (config.section("text_config") or config).integer("hidden_size")
    width, inner = vision.integer("hidden_size"), vision.integer("intermediate_size")
    size = vision.integer("patch_size", default=14)
    positions = (vision.integer("image_size", default=448) // size) ** 2 + 1
    first = vision.integer("projector_input_dim", default=4096)
    last = vision.integer("projector_output_dim", default=first)
    patch = vision.count("num_channels", default=IMAGE_CHANNELS) * size * size
    adapter = "vision_model.vision_adapter.mlp"
    return (
        Tower(
            name="vision_model",
            depth=vision.layers("num_hidden_layers"),
            layers="model.layers",
            block=(
                *attention_projections(
                    ("self_attn.qkv_proj", "self_attn.o_proj"), width, bias=True, output_bias=True
                ),
                *feed_forward_projections(("mlp.fc1", "mlp.fc2"), width, inner, gated=False, bias=True),
            ),
            block_elements=4 * width,
            frame=(
                Projection("vision_model.patch_embedding.linear", patch, (width,), Split.COLUMN),
                Projection(f"{adapter}.fc1", inner, (first,), Split.COLUMN),
                Projection(f"{adapter}.fc2", first, (last,), Split.ROW),
                Projection("multi_modal_projector.linear_1", last, (hidden,), Split.COLUMN),
            ),
            frame_elements=(positions + 1 + 4) * width,
        ),
    )
