"""Whether one layout of the cache in memory suits the kernels of all layers."""

from typing import Final

from service.architecture.model import ModelArchitecture
from service.architecture.pipeline import built_stages
from service.backends.backend import Backends
from service.engines.refusal import EngineRefusal, Stage

ANY_LAYOUT: Final = ("LBNHC", "LBHNC", "BLNHC", "BLHNC", "BHLNC", "LHBNC")
"""vLLM 0.29.0 to 0.33.0, v1/attention/backends/utils.py: where no backend declares what it supports."""


def check_memory_layouts(architecture: ModelArchitecture, backends: Backends, stages: int) -> None:
    """Refuse backends that no layout suits, or pipeline stages that differ in what suits them.

    Source: vLLM 0.29.0 to 0.33.0, get_supported_kv_cache_layouts and resolve_kv_cache_layout.

    Raises:
        EngineRefusal: stages ``model`` and ``grouping``.
    """
    if not any(backend.layouts for backend in backends.distinct):
        return
    suiting = [_suiting(backends, layers) for layers in built_stages(architecture, stages)]
    if any(layouts != suiting[0] for layouts in suiting):
        names = [list(layouts) for layouts in suiting]
        words = f"Workers disagree on supported KV cache layouts: {names}."
        raise EngineRefusal(Stage.GROUPING, words, type="AssertionError")


def _suiting(backends: Backends, layers: range) -> tuple[str, ...]:
    declared = tuple(dict.fromkeys(backend.layouts for backend in backends.within(layers).distinct))
    sets = tuple(layouts for layouts in declared if layouts) or (ANY_LAYOUT,)
    suiting = tuple(name for name in sets[0] if all(name in layouts for layouts in sets))
    if not suiting:
        names = [list(layouts) for layouts in sets]
        raise EngineRefusal(Stage.MODEL, f"No KV cache layout satisfies every supported set: {names}.")
    return suiting
