"""Conformer encoders of sound, and the query transformer between one and a decoder."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from service.architecture.config import MAX_LAYERS, Config
from service.architecture.encoders.tower import Projection, Split, Tower, feed_forward_projections

ENCODER: Final[Mapping[str, Any]] = {
    "hidden_dim": 1024,
    "input_dim": 160,
    "output_dim": 42,
    "feedforward_mult": 4,
    "num_layers": 10,
    "num_heads": 8,
    "dim_head": 128,
    "max_pos_emb": 512,
    "conv_kernel_size": 15,
    "conv_expansion_factor": 2,
}
"""transformers 5.16, GraniteSpeechEncoderConfig."""
QUERY_TRANSFORMER: Final[Mapping[str, Any]] = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "encoder_hidden_size": 1408,
    "cross_attention_frequency": 2,
}
"""transformers 5.16, Blip2QFormerConfig."""
NORM: Final = 2
"""Vectors of a norm: weight and bias."""


def granite_speech(config: Config) -> tuple[Tower, ...]:
    """Read the encoder and the projector of Granite Speech.

    Source: vLLM 0.28.0 and 0.33.0, granite_speech.py GraniteSpeechCTCEncoder and
    GraniteSpeechEncoderProjector; blip2.py Blip2QFormerModel.
    """
    encoder = _section(config, "encoder_config", ENCODER)
    width, outputs = encoder.integer("hidden_dim"), encoder.integer("output_dim")
    inner = width * encoder.count("feedforward_mult")
    hidden = (config.section("text_config") or config).integer("hidden_size", default=4096)
    return (
        Tower(
            name="encoder",
            depth=encoder.integer("num_layers", maximum=MAX_LAYERS),
            layers="layers",
            block=(*_network("ff1", width, inner), *_network("ff2", width, inner)),
            block_elements=4 * NORM * width + _attention(encoder, width) + _convolutions(encoder, width),
            frame=(
                Projection("encoder.out", width, (outputs,), Split.COLUMN, bias=True),
                Projection("encoder.out_mid", outputs, (width,), Split.ROW, bias=True),
            ),
            frame_elements=_linear(encoder.integer("input_dim"), width) + _projector(config, hidden),
            sound=True,
        ),
    )


def _network(name: str, width: int, inner: int) -> tuple[Projection, ...]:
    """Return one of a layer's two feed-forward networks, to which the engine passes no quantization."""
    names = f"{name}.up_proj", f"{name}.down_proj"
    both = feed_forward_projections(names, width, inner, gated=False, bias=True)
    return tuple(replace(each, quantizable=False) for each in both)


def _section(config: Config, name: str, defaults: Mapping[str, Any]) -> Config:
    specified = config.section(name) or Config({}, config.at(name))
    return Config({**defaults, **specified.fields}, specified.pointer)


def _linear(inputs: int, outputs: int) -> int:
    return (inputs + 1) * outputs


def _attention(encoder: Config, width: int) -> int:
    size = encoder.integer("dim_head")
    heads = encoder.integer("num_heads") * size
    return 3 * width * heads + _linear(heads, width) + (2 * encoder.integer("max_pos_emb") + 1) * size


def _convolutions(encoder: Config, width: int) -> int:
    """Return the elements of a layer's convolutions, with the norms before and between them."""
    inner = width * encoder.count("conv_expansion_factor")
    between = inner * (encoder.integer("conv_kernel_size") + NORM)
    return NORM * width + _linear(width, 2 * inner) + between + _linear(inner, width)


def _projector(config: Config, outputs: int) -> int:
    """Return the elements of the query transformer and of what follows it, which every rank has in full."""
    part = _section(config, "projector_config", QUERY_TRANSFORMER)
    width, inner = part.integer("hidden_size"), part.integer("intermediate_size")
    depth = part.integer("num_hidden_layers", maximum=MAX_LAYERS)
    crossing = -(-depth // part.count("cross_attention_frequency"))
    own = 4 * _linear(width, width) + NORM * width
    keys = _linear(part.integer("encoder_hidden_size"), width)
    across = 2 * _linear(width, width) + 2 * keys + NORM * width
    network = _linear(width, inner) + _linear(inner, width) + NORM * width
    queries = config.count("window_size", default=15) // config.count("downsample_rate", default=5)
    transformer = depth * (own + network) + crossing * across + (NORM + queries) * width
    return transformer + _linear(width, outputs)


def cohere_asr(config: Config) -> tuple[Tower, ...]:
    """Read the conformer of Cohere's transcriber, which every rank has.

    Source: vLLM 0.33.0, cohere_asr.py ConformerLayer, ConvSubsampling and CohereASRProjector, which have no
    default for the fields of the encoder.
    """
    encoder = _section(config, "encoder", {})
    width = encoder.integer("d_model")
    inner = width * encoder.count("ff_expansion_factor")
    channels, bands = encoder.count("subsampling_conv_channels"), encoder.count("feat_in")
    halvings = encoder.count("subsampling_factor").bit_length() - 1
    for _ in range(halvings):
        bands = (bands - 1) // 2 + 1
    # A convolution of three bands and frames, then pairs of one in depth and one of a point.
    pairs = (halvings - 1) * ((9 + 1) * channels + _linear(channels, channels))
    subsampling = (9 + 1) * channels + pairs + _linear(channels * bands, width)
    networks = 2 * (_linear(width, inner) + _linear(inner, width))
    # Queries, keys, values and outputs; positions without a bias and two vectors for all heads.
    attention = 4 * _linear(width, width) + width * width + 2 * width
    # The first point doubles the channels for a gate; the convolution in depth has a batch norm.
    kernel = encoder.count("conv_kernel_size")
    convolution = _linear(width, 2 * width) + (kernel + 1 + NORM) * width + _linear(width, width)
    decoder = _section(_section(config, "transf_decoder", {}), "config_dict", {"hidden_size": width})
    hidden = decoder.integer("hidden_size")
    return (
        Tower(
            name="model.encoder",
            depth=encoder.integer("n_layers", maximum=MAX_LAYERS),
            layers="layers",
            block=(),
            block_elements=networks + attention + convolution + 5 * NORM * width,
            frame=(),
            frame_elements=subsampling + (_linear(width, hidden) if width != hidden else 0),
            quantizable=False,
            sound=True,
        ),
    )
