"""Whether the cache has enough states for CUDA graphs of whole decode steps."""

from service.engine_config.engine_config import EngineConfig
from service.kv_cache.cache_layout import CacheLayout
from service.kv_cache.specs import StateSpec


def capture_failure(layout: CacheLayout, engine_config: EngineConfig, num_blocks: int) -> str | None:
    """Return the engine's error if there are fewer recurrent states than sequences, or ``None``.

    Graphs of whole decode steps are captured for as many sequences as may run at once, unless the mode of
    graphs has none of whole steps.

    Source: vLLM 0.20.0 to 0.33.0, CompilationConfig.resolve_cudagraph_mode_and_sizes.
    """
    captures = engine_config.rules.states.graphs_need_states and engine_config.graph_mode.whole
    if not captures or engine_config.max_num_seqs <= num_blocks:
        return None
    if not any(isinstance(group.spec, StateSpec) for group in layout.groups):
        return None
    return (
        f"max_num_seqs ({engine_config.max_num_seqs}) exceeds available Mamba cache blocks ({num_blocks}). "
        "Each decode sequence requires one Mamba cache block, so CUDA graph capture cannot proceed. "
        f"Please lower max_num_seqs to at most {num_blocks} or increase gpu_memory_utilization."
    )
