"""Our specs in the words of the engine's spec classes: the JSON that driver.py reads."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from service.architecture.layers import GatedDeltaNet
from service.kv_cache.layers import STATES_KEPT
from service.kv_cache.specs import LayerSpec, StateSpec
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
    }


def _words_of_state(spec: StateSpec, mixer: object, serving: Serving) -> Words:
    """Return what the engine works out a state's shapes from, or its bytes where that is not known."""
    if isinstance(mixer, GatedDeltaNet):
        return {
            "shape_function": "gated_delta_net_state_shape",
            "shape_arguments": (
                serving.tensor_parallel_size,
                mixer.num_key_heads,
                mixer.num_value_heads,
                mixer.key_head_dim,
                mixer.value_head_dim,
                mixer.conv_kernel,
            ),
            "state_dtypes": (serving.conv_state_dtype, serving.recurrent_state_dtype),
        }
    return {"state_bytes": spec.state_bytes}


def _checkpoints(spec: StateSpec, serving: Serving) -> int:
    kept = STATES_KEPT[serving.mamba_cache_mode]
    return 0 if kept is None or spec.pages_per_request is None else spec.pages_per_request - kept


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
