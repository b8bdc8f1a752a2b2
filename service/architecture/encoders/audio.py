"""Encoders of sound."""

from dataclasses import replace
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


def moss_transcribe(config: Config) -> tuple[Tower, ...]:
    """Read the encoder of MOSS Transcribe Diarize, whose adaptor takes several frames at once.

    Source: vLLM 0.33.0, moss_transcribe_diarize.py MossTranscribeDiarizeVQAdaptor.
    """
    audio = config.section("audio_config") or Config({}, config.at("audio_config"))
    width, hidden = audio.integer("d_model", default=1024), _text_width(config)
    inputs = config.integer("adaptor_input_dim", default=4 * width)
    adaptor = (inputs + 1) * hidden + (hidden + 1) * hidden + 2 * hidden
    return tuple(
        replace(tower, name="whisper_encoder", frame_elements=tower.frame_elements + adaptor)
        for tower in whisper(audio)
    )


def qwen2_audio(config: Config) -> tuple[Tower, ...]:
    """Read the encoder of Qwen2-Audio, which every rank has in full (vLLM 0.33.0, Qwen2AudioEncoder)."""
    audio = config.section("audio_config") or Config({}, config.at("audio_config"))
    width, inner = audio.integer("d_model", default=1280), audio.integer("encoder_ffn_dim", default=5120)
    depth = audio.integer("encoder_layers", default=32, maximum=MAX_LAYERS)
    hidden = _text_width(config)
    return (_whole_encoder(audio, width, inner, depth, _positions(audio) * width + (width + 1) * hidden),)


def qwen2_5_omni(audio: Config) -> Tower:
    """Read the encoder of Qwen2.5-Omni's thinker (vLLM 0.19.0 and 0.33.0, Qwen2_5OmniAudioEncoder)."""
    width, inner = audio.integer("d_model", default=1280), audio.integer("encoder_ffn_dim", default=5120)
    outputs = audio.integer("output_dim", default=3584)
    depth = audio.integer("encoder_layers", default=32, maximum=MAX_LAYERS)
    # Two vectors that mark the ends of a sound, and a projection; positions are computed.
    return _whole_encoder(audio, width, inner, depth, 2 * outputs + (width + 1) * outputs)


def qwen3_omni(audio: Config) -> Tower:
    """Read the encoder of Qwen3-Omni and Qwen3-ASR (vLLM 0.20.2 and 0.33.0, Qwen3OmniMoeAudioEncoder)."""
    width, inner = audio.integer("d_model", default=1280), audio.integer("encoder_ffn_dim", default=5120)
    convolved = audio.integer("downsample_hidden_size", default=480)
    # Three convolutions, each of which halves the spectrum; positions are computed.
    bands = -(-audio.count("num_mel_bins", default=128) // 8)
    kernel = CONVOLUTION * CONVOLUTION
    return Tower(
        name="audio_tower",
        depth=audio.integer("encoder_layers", default=32, maximum=MAX_LAYERS),
        layers="layers",
        block=biased_block(width, inner),
        block_elements=4 * width,
        frame=(
            Projection("audio_tower.conv_out", convolved * bands, (width,), Split.REPLICATED),
            Projection("audio_tower.proj1", width, (width,), Split.REPLICATED, bias=True),
            Projection(
                "audio_tower.proj2",
                width,
                (audio.integer("output_dim", default=3584),),
                Split.REPLICATED,
                bias=True,
            ),
        ),
        frame_elements=(kernel * (1 + 2 * convolved) + 3) * convolved + 2 * width,
        quantizable=False,
        sound=True,
        heads=audio.count("encoder_attention_heads", default=20),
    )


def _positions(audio: Config) -> int:
    return audio.integer("max_source_positions", default=1500)


def audio_flamingo(config: Config) -> tuple[Tower, ...]:
    """Read the encoder of Audio Flamingo 3 (vLLM 0.33.0, AudioFlamingo3Encoder and -MultiModalProjector)."""
    audio = config.section("audio_config") or Config({}, config.at("audio_config"))
    width, inner = (
        audio.integer("hidden_size", default=1280),
        audio.integer("intermediate_size", default=5120),
    )
    depth = audio.integer("num_hidden_layers", default=32, maximum=MAX_LAYERS)
    hidden, bias = _text_width(config), config.boolean("projector_bias", default=True)
    projector = (width + bias) * hidden + (hidden + bias) * hidden
    return (_whole_encoder(audio, width, inner, depth, _positions(audio) * width + projector),)


def whole_whisper(name: str, audio: Config, others: int) -> Tower:
    """Return an encoder of Whisper that every rank has; ``others``: elements around its layers."""
    width, inner = audio.integer("d_model", default=1280), audio.integer("encoder_ffn_dim", default=5120)
    depth = audio.integer("encoder_layers", default=32, maximum=MAX_LAYERS)
    return replace(_whole_encoder(audio, width, inner, depth, others), name=name)


def _whole_encoder(audio: Config, width: int, inner: int, depth: int, others: int) -> Tower:
    """Return an encoder as the transformers library builds Whisper's: keys have no bias.

    ``others``: elements of learned positions and of what follows the encoder.
    """
    attention, norms = 4 * width * width + 3 * width, 4 * width
    return Tower(
        name="audio_tower",
        depth=depth,
        layers="layers",
        block=(),
        block_elements=attention + norms + 2 * width * inner + inner + width,
        frame=(),
        frame_elements=_convolutions(audio, width) + 2 * width + others,
        quantizable=False,
        sound=True,
    )


def _convolutions(audio: Config, width: int) -> int:
    mels = audio.count("num_mel_bins", default=128)
    return CONVOLUTION * (mels + width) * width + 2 * width


def _text_width(config: Config) -> int:
    return (config.section("text_config") or config).integer("hidden_size", default=4096)


def glm_asr(config: Config) -> tuple[Tower, ...]:
    """Read the encoder of GLM-ASR (vLLM 0.33.0, GlmAsrEncoder and GlmAsrMultiModalProjector)."""
    audio = config.section("audio_config") or Config({}, config.at("audio_config"))
    width, inner = (
        audio.integer("hidden_size", default=1280),
        audio.integer("intermediate_size", default=5120),
    )
    hidden = _text_width(config)
    names = "multi_modal_projector"
    return (
        Tower(
            name="audio_tower",
            depth=audio.integer("num_hidden_layers", default=32, maximum=MAX_LAYERS),
            layers="layers",
            block=biased_block(width, inner),
            block_elements=4 * width,
            frame=(
                Projection(f"{names}.linear_1", inner, (2 * hidden,), Split.COLUMN, bias=True),
                Projection(f"{names}.linear_2", 2 * hidden, (hidden,), Split.ROW, bias=True),
            ),
            frame_elements=_convolutions(audio, width) + 2 * width,
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
