"""Our specs in the words of the engine's spec classes: the JSON that driver.py reads."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from service.architecture.layers.recurrence import (
    GatedDeltaNet,
    LinearAttention,
    Mamba,
    Mamba2,
    Recurrence,
    ShortConvolution,
)
from service.engine_config.engine_config import EngineConfig
from service.kv_cache.formats import Slot
from service.kv_cache.layer_caches import STATES_RETAINED
from service.kv_cache.recurrent_states import state_checkpoint
from service.kv_cache.specs import LayerSpec, StateSpec

Words: TypeAlias = Mapping[str, Any]
"""One JSON object."""


def words_of_spec(spec: LayerSpec, mixer: object, cache_dtype: str, engine_config: EngineConfig) -> Words:
    """Return what the engine's class for a spec is built from, by the spec's kind.

    Bytes are left out wherever the engine can work them out by itself, so that it does.
    """
    if isinstance(spec, StateSpec):
        return {
            "kind": str(spec.kind),
            "block_size": spec.block_size,
            "page_size_padded": spec.page_size_padded,
            "prefill_checkpoints": _checkpoints(spec, engine_config),
            "prefill_checkpoint_alignment": _checkpoint_alignment(mixer, engine_config),
            **_words_of_state(spec, mixer, engine_config),
        }
    return {
        "kind": str(spec.kind),
        "latent": spec.head_size_v == 0,
        "block_size": spec.block_size,
        "num_kv_heads": spec.num_kv_heads,
        "head_size": spec.head_size,
        "head_size_v": spec.head_size_v,
        "cache_dtype": cache_dtype,
        "sliding_window": spec.sliding_window,
        "attention_chunk_size": spec.attention_chunk_size,
        "page_size_padded": spec.page_size_padded,
        "indexes_kv_by_block_stride": spec.indexes_by_block_stride,
        "slot_bytes": spec.format.slot_bytes if isinstance(spec.format, Slot) else None,
    }


def _words_of_state(spec: StateSpec, mixer: object, engine_config: EngineConfig) -> Words:
    """Return what the engine works out a state's shapes from, or its bytes where that is not known."""
    ranks, both = (
        engine_config.tensor_parallel_size,
        (engine_config.conv_state_dtype, engine_config.recurrent_state_dtype),
    )
    match mixer:
        case GatedDeltaNet():
            heads, dims = (
                (mixer.num_key_heads, mixer.num_value_heads),
                (mixer.key_head_dim, mixer.value_head_dim),
            )
            return _shaped("gated_delta_net", (ranks, *heads, *dims, mixer.conv_kernel), both)
        case Mamba():
            sizes = (mixer.intermediate_size, mixer.state_size, mixer.conv_kernel)
            return _shaped("mamba1", (ranks, *sizes), both)
        case Mamba2():
            channels = (mixer.intermediate_size, mixer.num_groups, mixer.num_heads)
            return _shaped(
                "mamba2", (ranks, *channels, mixer.head_dim, mixer.state_size, mixer.conv_kernel), both
            )
        case ShortConvolution():
            return _shaped("short_conv", (ranks, mixer.channels, mixer.conv_kernel), both[:1])
        case LinearAttention():
            return _shaped("linear_attention", (mixer.num_heads, ranks, mixer.head_dim), both[1:])
        case _:
            # Kimi's convolutions were three states, then one: its bytes stayed the same.
            return {"state_bytes": spec.state_bytes}


def _shaped(kind: str, arguments: tuple[int, ...], dtypes: tuple[str, ...]) -> Words:
    return {
        "shape_function": f"{kind}_state_shape",
        "shape_arguments": arguments,
        "state_dtypes": dtypes,
    }


def _checkpoints(spec: StateSpec, engine_config: EngineConfig) -> int:
    kept = STATES_RETAINED[engine_config.mamba_cache_mode]
    return 0 if kept is None or spec.pages_per_request is None else spec.pages_per_request - kept


def _checkpoint_alignment(mixer: object, engine_config: EngineConfig) -> int | None:
    checkpoint = state_checkpoint(mixer, engine_config) if isinstance(mixer, Recurrence) else None
    return None if checkpoint is None else checkpoint.alignment


def words_of_serving(engine_config: EngineConfig) -> Words:
    """Return what the engine's planning reads of its own configuration."""
    return {
        "model_dtype": engine_config.dtype,
        "max_model_len": engine_config.max_model_len,
        "fit_max_model_len": engine_config.fit_max_model_len,
        "max_num_batched_tokens": engine_config.max_num_batched_tokens,
        "max_in_flight_tokens": engine_config.in_flight_tokens,
        "tensor_parallel_size": engine_config.tensor_parallel_size,
        "pipeline_parallel_size": engine_config.pipeline_parallel_size,
        "decode_context_parallel_size": engine_config.decode_context_parallel_size,
        "num_gpu_blocks_override": engine_config.num_gpu_blocks_override,
        "enable_prefix_caching": engine_config.enable_prefix_caching,
        "disable_hybrid_kv_cache_manager": not engine_config.hybrid_manager,
        "mamba_cache_mode": engine_config.mamba_cache_mode,
    }
