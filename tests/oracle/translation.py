"""Our specs in the words of the engine's spec classes: the JSON that driver.py reads."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from service.architecture.recurrence import (
    GatedDeltaNet,
    LinearAttention,
    Mamba,
    Mamba2,
    Recurrence,
    ShortConvolution,
)
from service.kv_cache.formats import Slot
from service.kv_cache.layers import STATES_KEPT
from service.kv_cache.specs import LayerSpec, StateSpec
from service.kv_cache.states import state_checkpoint
from service.launch.serving import Serving

Words: TypeAlias = Mapping[str, Any]
"""One JSON object."""


def words_of_spec(spec: LayerSpec, mixer: object, cache_dtype: str, serving: Serving) -> Words:
    """Return what the engine's class for a spec is built from, by the spec's kind.

    Bytes are left out wherever the engine can work them out by itself, so that it does.
    """
    if isinstance(spec, StateSpec):
        return {
            "kind": str(spec.kind),
            "block_size": spec.block_size,
            "page_size_padded": spec.page_size_padded,
            "prefill_checkpoints": _checkpoints(spec, serving),
            "prefill_checkpoint_alignment": _checkpoint_alignment(mixer, serving),
            **_words_of_state(spec, mixer, serving),
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
        "indexes_kv_by_block_stride": spec.strided,
        "slot_bytes": spec.format.slot_bytes if isinstance(spec.format, Slot) else None,
    }


def _words_of_state(spec: StateSpec, mixer: object, serving: Serving) -> Words:
    """Return what the engine works out a state's shapes from, or its bytes where that is not known."""
    ranks, both = serving.tensor_parallel_size, (serving.conv_state_dtype, serving.recurrent_state_dtype)
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


def _checkpoints(spec: StateSpec, serving: Serving) -> int:
    kept = STATES_KEPT[serving.mamba_cache_mode]
    return 0 if kept is None or spec.pages_per_request is None else spec.pages_per_request - kept


def _checkpoint_alignment(mixer: object, serving: Serving) -> int | None:
    checkpoint = state_checkpoint(mixer, serving) if isinstance(mixer, Recurrence) else None
    return None if checkpoint is None else checkpoint.alignment


def words_of_serving(serving: Serving) -> Words:
    """Return what the engine's planning reads of its own configuration."""
    return {
        "model_dtype": serving.dtype,
        "max_model_len": serving.max_model_len,
        "fit_max_model_len": serving.fit_max_model_len,
        "max_num_batched_tokens": serving.max_num_batched_tokens,
        "max_in_flight_tokens": serving.in_flight_tokens,
        "tensor_parallel_size": serving.tensor_parallel_size,
        "pipeline_parallel_size": serving.pipeline_parallel_size,
        "decode_context_parallel_size": serving.decode_context_parallel_size,
        "num_gpu_blocks_override": serving.num_gpu_blocks_override,
        "enable_prefix_caching": serving.enable_prefix_caching,
        "disable_hybrid_kv_cache_manager": not serving.hybrid_manager,
        "mamba_cache_mode": serving.mamba_cache_mode,
    }
