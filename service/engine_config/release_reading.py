"""What some releases read of a config otherwise than the others."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from service.architecture.layers.attention import Attention
from service.architecture.layers.decoder_layer import DecoderLayer
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.model import ModelArchitecture
from service.engines.engine_rules import EngineRules
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.checkpoints import CheckpointRules
from service.engines.rules.config_fields import ConfigFieldRules
from service.engines.rules.tied_outputs import TiedOutputRules
from service.engines.rules.windows import WindowRules

DEFAULT_SIZES: Final = (
    "The release reads the model's sizes from thinker_config alone, which the config lacks: it builds its "
    "class's default sizes, which the weights do not fit. Take a checkpoint in the form of the model's "
    "authors, or a release from 0.26.0 on."
)


def as_read_by(architecture: ModelArchitecture, release: EngineRules) -> ModelArchitecture:
    """Return the model with the layers and the output that the release builds of it.

    Raises:
        EngineRefusal: the release reads nothing of the config (stage ``model``).
    """
    if architecture.class_name in release.checkpoints.thinker_alone and not architecture.declared.thinker:
        raise EngineRefusal(Stage.MODEL, "", type="AssertionError", detail=DEFAULT_SIZES)
    architecture, rules = _with_output(architecture, release.tied_outputs), release.checkpoints
    if architecture.class_name in rules.left_to_transformers:
        return replace(
            architecture,
            layers=architecture.attending_layers,
            ends=replace(architecture.ends, output_float32=False),
            class_limits=replace(architecture.class_limits, pipeline_parallel=True),
        )
    architecture = _with_even_heads(_with_rotary_size(architecture, rules), release.config_fields)
    return _with_windows(architecture, release.windows)


def _with_windows(architecture: ModelArchitecture, rules: WindowRules) -> ModelArchitecture:
    """Return the model with the windows that the release finds: the whole model's, or none of the text part.

    Source: vLLM 0.10.2 to 0.26.0, EngineArgs.create_engine_config: CacheConfig.sliding_window.
    """
    name, window = architecture.class_name, architecture.declared.uniform_window
    if name in rules.text_unread:
        architecture = _with_attention(architecture, partial(replace, sliding_window=None))
    if not window or not rules.of_one_type or name in rules.own:
        return architecture
    return _with_attention(architecture, partial(_windowed, window=window))


def _windowed(mixer: Attention, window: int) -> Attention:
    other = mixer.sliding_window or mixer.attention_chunk_size
    return mixer if other else replace(mixer, sliding_window=window)


def _with_even_heads(architecture: ModelArchitecture, rules: ConfigFieldRules) -> ModelArchitecture:
    """Return the model with heads that share the hidden size, where the release's class reads no head_dim."""
    if architecture.declared.head_size is None or architecture.class_name not in rules.even_heads:
        return architecture

    def evenly(mixer: Attention) -> Attention:
        size = max(1, architecture.hidden_size // mixer.num_heads)
        return replace(mixer, head_size=size, head_size_v=size)

    return _with_attention(architecture, evenly)


def _with_attention(
    architecture: ModelArchitecture, change: Callable[[Attention], Attention]
) -> ModelArchitecture:
    """Return the model with other attention in each layer that has any."""
    layers = (
        replace(layer, mixer=change(layer.mixer)) if isinstance(layer.mixer, Attention) else layer
        for layer in architecture.layers
    )
    return replace(architecture, layers=tuple(layers))


def _with_output(architecture: ModelArchitecture, rules: TiedOutputRules) -> ModelArchitecture:
    """Return the model with its output tied as the release has it, by the text part or the whole config.

    Source: vLLM 0.20.0 to 0.33.0, VllmConfig.with_hf_config passes the word of the whole config on, to
    0.21.0 with transformers 5 alone.
    """
    name, tied = architecture.class_name, architecture.declared.text_tied
    if name in rules.tied_by_either:
        return replace(architecture, tie_word_embeddings=tied or architecture.tie_word_embeddings)
    alone = rules.text_part_alone and name not in rules.tied_as_whole
    decides = alone or name in rules.tied_as_text
    return replace(architecture, tie_word_embeddings=tied) if decides else architecture


def _with_rotary_size(architecture: ModelArchitecture, rules: CheckpointRules) -> ModelArchitecture:
    """Return the model with the rotary size that the release's config class takes from ``head_dim``.

    Source: transformers 5.5, GlmMoeDsaConfig.attribute_map, which 5.10 no longer has.
    """
    size = architecture.declared.head_size
    if size is None or architecture.model_type not in rules.head_dim_is_rotary:
        return architecture
    drafts = architecture.drafts
    if drafts.own is not None:
        drafts = replace(drafts, own=replace(drafts.own, layers=_turned(drafts.own.layers, size)))
    return replace(architecture, layers=_turned(architecture.layers, size), drafts=drafts)


def _turned(layers: tuple[DecoderLayer, ...], size: int) -> tuple[DecoderLayer, ...]:
    return tuple(
        replace(layer, mixer=replace(layer.mixer, qk_rope_head_dim=size))
        if isinstance(layer.mixer, MultiHeadLatentAttention)
        else layer
        for layer in layers
    )
