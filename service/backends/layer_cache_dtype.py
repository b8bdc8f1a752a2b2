"""The cache dtype of every layer that stores keys and values."""

from typing import assert_never

from service.architecture.layers.attention import Attention
from service.architecture.layers.compressed_attention import CompressedAttention
from service.architecture.layers.decoder_layer import TokenMixer
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.model import ModelArchitecture
from service.backends.backend_rules import release_rules
from service.engine_config.engine_config import EngineConfig


def layer_cache_dtypes(architecture: ModelArchitecture, engine_config: EngineConfig) -> tuple[str, ...]:
    """Return the cache dtype of each attention layer, in their order."""
    specified = common_cache_dtype(engine_config)
    if specified is not None:
        return (specified,) * len(architecture.attention_layers)
    return tuple(
        layer_cache_dtype(architecture.layer_number(index), mixer, engine_config)
        for index, mixer in architecture.attention_layers
    )


def common_cache_dtype(engine_config: EngineConfig) -> str | None:
    """Return the cache dtype that all layers have; ``None`` where some may be skipped."""
    if not engine_config.passes_cache_dtype:
        return "auto"
    return None if engine_config.kv_cache_dtype_skip_layers else engine_config.kv_cache_dtype


def layer_cache_dtype(index: int, mixer: TokenMixer, engine_config: EngineConfig) -> str:
    """Return the cache dtype of the layer of a number: skipped layers stay at the model's type.

    Source: vLLM 0.32.0, Attention.__init__ and MLAAttention.__init__. Layers with classes of their own
    (DeepseekV4Attention, MiniMaxM3SparseAttention) are never skipped.
    """
    specified, skipped = common_cache_dtype(engine_config), engine_config.kv_cache_dtype_skip_layers
    if specified is not None:
        return specified
    if not _skippable(mixer, engine_config):
        return engine_config.kv_cache_dtype
    windowed = isinstance(mixer, Attention) and mixer.sliding_window is not None
    if str(index) in skipped or (windowed and "sliding_window" in skipped):
        return "auto"
    return engine_config.kv_cache_dtype


def _skippable(mixer: TokenMixer, engine_config: EngineConfig) -> bool:
    match mixer:
        case Attention():
            return mixer.block_indexer is None
        case MultiHeadLatentAttention():
            return release_rules(engine_config.release).mla_layers_skip
        case CompressedAttention():
            return False
    assert_never(mixer)
