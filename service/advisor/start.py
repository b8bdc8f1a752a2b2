"""One start of the engine, as far as it goes before memory is known."""

from dataclasses import dataclass, replace

from service.architecture.model import ModelArchitecture
from service.backends.assignment import Backends, assign_backends
from service.backends.forced import model_cache_dtype
from service.backends.memory_layout import check_memory_layouts
from service.engines.flags import ServeFlags
from service.engines.model_classes import check_built_class
from service.engines.rules import EngineRules
from service.gpus.gpu_type import GpuType
from service.kv_cache.block_size import settle_block_size
from service.kv_cache.capacity import CacheLayout, lay_out, uncuttable_blocks
from service.launch.cache_dtype import check_chunks, check_e5m2
from service.launch.checkpoint import check_clamped_experts, check_expert_blocks, check_tied_embedding
from service.launch.config_format import as_written_for
from service.launch.layout import check_layers, check_missing_layers, check_shared_caches
from service.launch.model_dtype import check_supported
from service.launch.release_reading import as_read_by
from service.launch.resolution import resolve
from service.launch.serving import Serving


@dataclass(frozen=True, slots=True)
class Start:
    """What is settled once the model is built."""

    architecture: ModelArchitecture
    """The model with the draft that it is built with."""
    serving: Serving
    backends: Backends
    layout: CacheLayout

    @property
    def stored_dtype(self) -> str:
        """Type of the cache, once ``auto`` is resolved and what the release does not heed is left out."""
        dtype = self.serving.kv_cache_dtype
        return self.serving.dtype if dtype == "auto" or not self.serving.heeds_cache_dtype else dtype

    def miscounts(self, architecture: ModelArchitecture) -> tuple[str, ...]:
        """Say why the release may build other layers than the config describes; empty when it does not."""
        words = self.serving.rules.miscounted_layers.get(architecture.class_name)
        return () if words is None else (words,)

    @property
    def fails_when_run(self) -> tuple[str, ...]:
        """What goes wrong once the engine has found its memory; empty when nothing does."""
        failures = {
            f"{failure.type}: {failure.message}"
            for backend in self.backends.values()
            if (failure := backend.failure_when_run) is not None
        }
        return tuple(
            f"The engine accepts this, then fails when attention first runs: {failure}"
            for failure in sorted(failures)
        ) + tuple(
            "The engine accepts this, then fails when it sets up its caches: "
            f"ValueError: No common block size for {size}"
            for size in sorted(uncuttable_blocks(self.layout, self.backends))
        )


def build_model(architecture: ModelArchitecture, serving: Serving) -> Backends:
    """Check what the model's own code checks, and choose every layer's backend.

    Raises:
        EngineRefusal: stages ``model``, ``backend`` and ``dtype``.
    """
    check_built_class(architecture.class_name, serving.release)
    check_layers(architecture, serving.tensor_parallel_size, serving.rules)
    backends = assign_backends(architecture, serving)
    check_chunks(serving.kv_cache_dtype, serving.kv_cache_dtype_skip_layers, architecture)
    check_e5m2(serving.kv_cache_dtype, architecture, serving.rules, serving.cache_method)
    check_clamped_experts(architecture, serving.compute_capability, serving.rules)
    check_expert_blocks(
        architecture,
        serving.tensor_parallel_size,
        serving.rules,
        expert_parallel=serving.enable_expert_parallel,
    )
    check_tied_embedding(architecture, serving.rules)
    check_missing_layers(architecture, serving.pipeline_parallel_size, serving.rules)
    check_shared_caches(architecture, serving.pipeline_parallel_size)
    check_memory_layouts(architecture, backends, serving.pipeline_parallel_size)
    return backends


def settled(
    architecture: ModelArchitecture, flags: ServeFlags, rules: EngineRules, gpu: GpuType
) -> tuple[ModelArchitecture, Serving]:
    """Return the model as the release reads and drafts it, and the start by which backends are asked.

    Raises:
        EngineRefusal: the engine would not get past its configuration.
        UnmodelledSpeculation: what it would keep for guessing tokens is not known.
    """
    architecture = as_read_by(as_written_for(architecture, rules), rules)
    serving = resolve(architecture, flags, rules, gpu)
    dtype = model_cache_dtype(
        architecture.class_name, serving.kv_cache_dtype, serving.release, serving.compute_capability
    )
    if serving.speculation is not None:
        architecture = replace(architecture, draft=serving.speculation.draft)
    return architecture, settle_block_size(architecture, replace(serving, kv_cache_dtype=dtype))


def dry_start(architecture: ModelArchitecture, flags: ServeFlags, rules: EngineRules, gpu: GpuType) -> Start:
    """Go through a start in the engine's own order up to the point where it asks for memory.

    Raises:
        EngineRefusal: the engine gives up on the way.
        UnmodelledSpeculation: what it would keep for guessing tokens is not known.
    """
    architecture, serving = settled(architecture, flags, rules, gpu)
    check_supported(serving.dtype, gpu)
    backends = build_model(architecture, serving)
    return Start(architecture, serving, backends, lay_out(architecture, serving, backends))
