"""A field that config classes of some releases read as another one."""

from dataclasses import replace

from service.architecture.layers import DecoderLayer, LatentAttention
from service.architecture.model import ModelArchitecture
from service.engines.rules import EngineRules


def as_read_by(architecture: ModelArchitecture, rules: EngineRules) -> ModelArchitecture:
    """Return the model with the rotary size that the release's config class takes from ``head_dim``.

    Source: transformers 5.5, GlmMoeDsaConfig.attribute_map, which 5.10 no longer has.
    """
    size = architecture.told_head_size
    if size is None or architecture.model_type not in rules.head_dim_is_rotary:
        return architecture
    drafts = architecture.drafts
    if drafts.own is not None:
        drafts = replace(drafts, own=replace(drafts.own, layers=_turned(drafts.own.layers, size)))
    return replace(architecture, layers=_turned(architecture.layers, size), drafts=drafts)


def _turned(layers: tuple[DecoderLayer, ...], size: int) -> tuple[DecoderLayer, ...]:
    return tuple(
        replace(layer, mixer=replace(layer.mixer, qk_rope_head_dim=size))
        if isinstance(layer.mixer, LatentAttention)
        else layer
        for layer in layers
    )
