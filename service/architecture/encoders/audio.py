"""Encoders of sound."""

from typing import Final

from service.architecture.config import MAX_LAYERS, Config, InvalidConfig
from service.architecture.encoders.tower import Projection, Split, Tower, biased_block

CONVOLUTION: Final = 3
"""Frames in the kernel of each of Whisper's convolutions."""


def whisper(config: Config) -> tuple[Tower, ...]:
    """Read the encoder of Whisper (vLLM 0.32.0, WhisperEncoder)."""
    width = config.integer("d_model", default=384)
    mels, positions = (
        config.count("num_mel_bins", default=80),
        config.integer("max_source_positions", default=1500),
    )
    convolutions = CONVOLUTION * (mels + width) * width + 2 * width
    return (
        Tower(
            name="model.encoder",
            depth=config.integer("encoder_layers", default=4, maximum=MAX_LAYERS),
            layers="layers",
            block=biased_block(width, config.integer("encoder_ffn_dim", default=1536)),
            block_elements=4 * width,
            frame=(),
            frame_elements=convolutions + positions * width + 2 * width,
            sound=True,
        ),
    )


def gemma4_audio(audio: Config, hidden: int) -> Tower:
    """Read the audio tower of Gemma 4 (vLLM 0.24.0, Gemma4ForConditionalGeneration)."""
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
        sound=True,
    )


def muse_spark_audio(audio: Config) -> Tower:
    """Read the sound encoder of Muse Spark: stages of different widths, in full on every rank."""
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
        sound=True,
    )
