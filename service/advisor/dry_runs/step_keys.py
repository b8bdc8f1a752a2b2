"""What stored results of the engine's steps depend on: their keys."""

from collections.abc import Hashable
from dataclasses import fields
from operator import attrgetter
from typing import Final

from service.advisor.dry_runs.engine_steps import Configuration
from service.backends.backend import Backends
from service.engine_config.engine_config import EngineConfig
from service.kv_cache.alignment import gpu_alignment_inputs

SIZES: Final = frozenset(
    {
        "max_num_batched_tokens",
        "max_num_seqs",
        "encoder_request_tokens",
        "encoder_tokens",
        "gpu_memory_utilization",
        "num_gpu_blocks_override",
        "concurrent_batches",
        "enable_prefix_caching",
        "prefix_match_unit",
        "fit_max_model_len",
        "enforce_eager",
        "graph_mode",
        "graph_sizes",
        "v2_model_runner",
    }
)
"""Fields of an ``EngineConfig`` that are read once the cache is laid out: neither backends nor a layout read
them. ``max_model_len`` is read for recurrent states alone. A test records what is read."""

_read_to_build: Final = attrgetter(
    *(
        each.name
        for each in fields(EngineConfig)
        if each.name not in SIZES | {"device_name", "compute_capability", "max_model_len"}
    )
)


def model_key(configuration: Configuration) -> Hashable:
    """Return what the built model and its layout depend on beside the GPU."""
    engine_config = configuration.engine_config
    length = engine_config.max_model_len if configuration.architecture.is_recurrent else None
    return _read_to_build(engine_config), length


def defaults_of_device(engine_config: EngineConfig) -> tuple[Hashable, ...]:
    """Return what a sizing depends on of the GPU's defaults; all other terms follow from the flags."""
    return (
        engine_config.dtype,
        engine_config.kv_cache_dtype,
        engine_config.block_size,
        engine_config.max_num_batched_tokens,
        engine_config.encoder_tokens,
    )


def paging_of(backends: Backends, engine_config: EngineConfig) -> Hashable:
    """Return what a layout depends on of its backends and of the GPU."""
    return (
        gpu_alignment_inputs(engine_config),
        tuple(backend.paging for backend in backends.distinct),
        tuple(backends.places.values()),
    )
