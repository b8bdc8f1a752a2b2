"""Encoders of speech before models of text: those that Whisper's is part of, and their projectors."""

from dataclasses import replace
from typing import Final

from service.architecture.config import MAX_LAYERS, Config, InvalidConfig
from service.architecture.encoders.audio import whisper, whole_whisper
from service.architecture.encoders.siglip import NORM, linear_elements, part, sides, text_width
from service.architecture.encoders.tower import (
    Projection,
    Split,
    Tower,
    biased_block,
    feed_forward_projections,
)

FUNASR_INPUTS: Final = 560
FUNASR_ENCODED: Final = 512
FUNASR_ADAPTED: Final = 1024
FUNASR_INNER: Final = 2048
FUNASR_BLOCKS: Final = 2
"""vLLM 0.20.2 and 0.33.0, funasr.py FunASREncoder: sizes that it fixes, whatever the config says."""
STACKED: Final = 8
"""vLLM 0.33.0, configs/ultravox.py UltravoxConfig.stack_factor."""
KIMI_INPUTS: Final = 5120
"""vLLM 0.33.0, kimi_audio.py KimiAudioMultiModalProjector: kimia_adaptor_input_dim."""
KIMI_WHISPER: Final = {
    "d_model": 1280,
    "encoder_ffn_dim": 5120,
    "encoder_layers": 32,
    "num_mel_bins": 128,
}
"""Whisper large v3, whose encoder Kimi-Audio's is."""


def ultravox(config: Config) -> tuple[Tower, ...]:
    """Read the encoder of Ultravox and its projector, which every rank has (vLLM 0.33.0, ultravox.py)."""
    audio, hidden = part(config, "audio_config"), text_width(config)
    stacked = audio.integer("d_model", default=384) * config.count("stack_factor", default=STACKED)
    inner = config.integer("hidden_size", default=4096)
    gated = inner // 2 if config.text("projector_act", default="swiglu") == "swiglu" else inner
    middle = config.boolean("projector_ln_mid")
    norms = stacked + (gated if middle else hidden)
    frame = (
        Projection("multi_modal_projector.linear_1", stacked, (inner,), Split.REPLICATED),
        Projection("multi_modal_projector.linear_2", gated, (hidden,), Split.REPLICATED),
    )
    return tuple(
        replace(tower, name="audio_tower", frame=frame, frame_elements=tower.frame_elements + norms)
        for tower in whisper(audio)
    )


def voxtral(config: Config) -> tuple[Tower, ...]:
    """Read the encoder of Voxtral in Mistral's format, whose positions have 32 bits.

    Source: vLLM 0.20.2 and 0.33.0, voxtral.py VoxtralEncoderModel and AudioLanguageAdapter; 0.20.2, 0.26.0
    and 0.33.0 were asked of the format of transformers, which lacks the field.

    Raises:
        InvalidConfig: the config is in the format of transformers, on which the engine fails.
    """
    audio = part(config, "audio_config")
    if "downsample_factor" not in audio:
        words = "is missing: the engine fails without it, and reads it of params.json"
        raise InvalidConfig(audio.at("downsample_factor"), words)
    width, hidden = audio.integer("d_model"), text_width(config)
    joined = width * audio.count("downsample_factor")
    positions = audio.integer("max_source_positions", default=1500) * width
    others = (joined + hidden) * hidden + positions
    name = "whisper_encoder.whisper_encoder"
    return tuple(
        replace(tower, name=name, frame_elements=tower.frame_elements + others) for tower in whisper(audio)
    )


def funaudiochat(config: Config) -> tuple[Tower, ...]:
    """Read the encoders of Fun-Audio-Chat: one of sound and one of its tokens.

    Source: vLLM 0.20.2 and 0.33.0, funaudiochat.py FunAudioChatAudioEncoder and -DiscreteEncoder.
    """
    audio = part(config, "audio_config")
    width, outputs = (
        audio.integer("d_model", default=1280),
        audio.integer("output_dim", default=3584),
    )
    inner = audio.integer("encoder_ffn_dim", default=5120)
    tokens = (audio.integer("codebook_size", default=6565) + 2 * outputs) * outputs
    marks = 2 * outputs + linear_elements(width, outputs)
    whole = whole_whisper("continuous_audio_tower", audio, marks + tokens)
    attention = (
        Projection("self_attn.qkv_proj", width, (width,) * 3, Split.COLUMN, bias=True),
        Projection("self_attn.out_proj", width, (width,), Split.ROW, bias=True),
    )
    elements = linear_elements(width, inner) + linear_elements(inner, width) + 2 * NORM * width
    return (replace(whole, block=attention, block_elements=elements),)


def moss_audio(config: Config) -> tuple[Tower, ...]:
    """Read the encoder of MOSS-Audio and its adapters (vLLM 0.33.0, moss_audio.py)."""
    audio, hidden = part(config, "audio_config"), text_width(config)
    width, inner = audio.integer("d_model", default=1280), audio.integer("encoder_ffn_dim", default=5120)
    outputs, channels = (
        audio.integer("output_dim", default=width),
        audio.count("downsample_hidden_size", default=480),
    )
    kernel = 9
    convolutions = (kernel * (1 + 2 * channels) + 3) * channels
    bands = -(-audio.count("num_mel_bins", default=128) // 8)
    wide = config.integer("adapter_hidden_size", default=8192)
    injected = len(audio.counts("deepstack_encoder_layer_indexes"))
    names = ("audio_adapter", *(f"deepstack_audio_merger_list.{index}" for index in range(injected)))
    adapters = tuple(
        projection
        for name in names
        for projection in (
            Projection(f"{name}.gate_up_proj", outputs, (wide, wide), Split.COLUMN),
            Projection(f"{name}.down_proj", wide, (hidden,), Split.ROW),
        )
    )
    return (
        Tower(
            name="audio_encoder",
            depth=audio.integer("encoder_layers", default=32, maximum=MAX_LAYERS),
            layers="layers",
            block=(
                Projection("self_attn.q_proj", width, (width,), Split.COLUMN, bias=True),
                Projection("self_attn.k_proj", width, (width,), Split.COLUMN),
                Projection("self_attn.v_proj", width, (width,), Split.COLUMN, bias=True),
                Projection("self_attn.out_proj", width, (width,), Split.ROW, bias=True),
                Projection("fc1", width, (inner,), Split.COLUMN, bias=True),
                Projection("fc2", inner, (width,), Split.ROW, bias=True),
            ),
            block_elements=2 * NORM * width,
            frame=(
                Projection(
                    "audio_encoder.stem_proj", channels * bands, (width,), Split.REPLICATED, bias=True
                ),
                Projection("audio_encoder.out_proj", width, (outputs,), Split.REPLICATED),
                *adapters,
            ),
            frame_elements=convolutions + NORM * width,
            sound=True,
        ),
    )


def kimi_audio(config: Config) -> tuple[Tower, ...]:
    """Read the encoder of Kimi-Audio and its adaptor (vLLM 0.20.2 and 0.33.0, kimi_audio.py)."""
    audio, hidden = part(config, "audio_config", KIMI_WHISPER), config.integer("hidden_size")
    inputs = config.integer("kimia_adaptor_input_dim", default=KIMI_INPUTS)
    adaptor = linear_elements(inputs, hidden) + linear_elements(hidden, hidden) + NORM * hidden
    return tuple(
        replace(tower, name="audio_tower", frame_elements=tower.frame_elements + adaptor)
        for tower in whisper(audio)
    )


def fireredasr2(config: Config) -> tuple[Tower, ...]:
    """Read the conformer of FireRedASR2 and its projector, which every rank has.

    Source: vLLM 0.20.2 and 0.33.0, fireredasr2.py ConformerEncoder and FireRedASR2Adapter.
    """
    audio, hidden = part(config, "audio_encoder_conf"), config.integer("hidden_size")
    width, mels = audio.integer("d_model", default=1280), audio.count("idim", default=80)
    channels, kernel = 32, audio.count("kernel_size", default=33)
    # Two convolutions of three bands and frames each halve the spectrum; a projection takes the rest.
    bands = max(1, ((mels - 1) // 2 - 1) // 2)
    subsampling = (9 + 1) * channels + (9 * channels + 1) * channels
    inputs = subsampling + linear_elements(channels * bands, width)
    networks = 2 * (NORM * width + linear_elements(width, 4 * width) + linear_elements(4 * width, width))
    # Queries, keys, values, outputs and positions; two vectors for each head, and three norms.
    attention = 5 * width * width + 2 * width + 3 * NORM * width
    convolution = NORM * width + 4 * width * width + 2 * width * (kernel + NORM) + 2 * width * width
    stacked = width * config.count("encoder_downsample_rate", default=2)
    projector = linear_elements(stacked, hidden) + linear_elements(hidden, hidden)
    return (
        Tower(
            name="model.encoder.audio_encoder",
            depth=audio.layers("n_layers_enc"),
            layers="layer_stack",
            block=(),
            block_elements=networks + attention + convolution + NORM * width,
            frame=(),
            frame_elements=inputs + projector,
            quantizable=False,
            sound=True,
        ),
    )


def funasr(config: Config) -> tuple[Tower, ...]:
    """Read the encoder of Fun-ASR and its adaptor of fixed sizes; nothing quantizes them.

    Source: vLLM 0.20.2 and 0.33.0, funasr.py SenseVoiceEncoderSmall and Transformer.
    """
    audio = part(config, "audio_encoder_conf")
    width, inner = (
        audio.integer("output_size", default=256),
        audio.integer("linear_units", default=2048),
    )
    kernel = audio.count("kernel_size", default=11)
    first = audio.layers("num_blocks") if "num_blocks" in audio else 6
    later = audio.integer("tp_blocks", default=0, minimum=0, maximum=MAX_LAYERS)
    # The first layer has the inputs' width: its queries, keys and values and its first norm.
    wider = (FUNASR_INPUTS - width) * (3 * width + NORM)
    attention = linear_elements(width, 3 * width) + linear_elements(width, width) + kernel * width
    block = (
        Projection("feed_forward.w_1", width, (inner,), Split.COLUMN, bias=True),
        Projection("feed_forward.w_2", inner, (width,), Split.ROW, bias=True),
    )
    return (
        Tower(
            name="model.encoder.audio_encoder",
            depth=first + later,
            layers="encoders",
            block=block,
            block_elements=attention + 2 * NORM * width,
            frame=_funasr_adaptor(),
            frame_elements=wider + 2 * NORM * width + FUNASR_BLOCKS * 2 * NORM * FUNASR_ADAPTED,
            quantizable=False,
            sound=True,
        ),
    )


def _funasr_adaptor() -> tuple[Projection, ...]:
    name, width = "model.encoder.audio_adaptor", FUNASR_ADAPTED
    ends = feed_forward_projections(
        (f"{name}.linear1", f"{name}.linear2"), FUNASR_ENCODED, FUNASR_INNER, gated=False, bias=True
    )
    blocks = tuple(
        replace(projection, name=f"{name}.blocks.{index}.{projection.name}")
        for index in range(FUNASR_BLOCKS)
        for projection in biased_block(
            width,
            width // 4,
            ("self_attn.qkv", "self_attn.out_proj"),
            ("feed_forward.w_1", "feed_forward.w_2"),
        )
    )
    return (ends[0], replace(ends[1], outputs=(width,)), *blocks)


def midashenglm(config: Config) -> tuple[Tower, ...]:
    """Read the encoder of MiDashengLM and its projector.

    Source: vLLM 0.33.0, midashenglm.py DashengAudioTransformer and AudioProjectorSubsample, and
    transformers_utils/configs/midashenglm.py DashengConfig.
    """
    audio, hidden = part(config, "audio_encoder_config"), text_width(config)
    width = audio.integer("embed_dim", default=768)
    inner = max(1, int(width * audio.number("mlp_ratio", 4.0)))
    bands, frames = audio.count("n_mels", default=64), audio.integer("target_length", default=1012)
    patch, step = sides(audio, "patch_size", default=16), sides(audio, "patch_stride", default=16)
    positions = frames // step[1] + bands // step[0]
    stacked = width * config.count("subsample_factor", default=5)
    scales = 2 * width if audio.number("init_values", 0.0) else 0
    block = biased_block(width, inner, ("attn.qkv", "attn.proj"))
    return (
        Tower(
            name="audio_encoder",
            depth=audio.integer("depth", default=12, maximum=MAX_LAYERS),
            layers="blocks",
            block=(replace(block[0], bias=audio.boolean("qkv_bias", default=True)), *block[1:]),
            block_elements=2 * NORM * width + scales,
            frame=(
                Projection("audio_projector.net.0", stacked, (hidden,), Split.COLUMN, bias=True),
                Projection("audio_projector.net.2", hidden, (hidden,), Split.ROW, bias=True),
            ),
            frame_elements=NORM * bands
            + (audio.count("input_channels", default=1) * patch[0] * patch[1] + 1 + positions + NORM) * width,
            sound=True,
        ),
    )
