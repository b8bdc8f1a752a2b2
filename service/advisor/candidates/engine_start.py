"""A start of the engine up to its cache layout, before memory is known."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, TypeAlias

from service.architecture.model import ModelArchitecture
from service.backends.assignment import assign_backends
from service.backends.backend import Backends, EngineFailure
from service.backends.forced import model_cache_dtype
from service.backends.memory_layout import check_memory_layouts
from service.changed import changed, of_fields
from service.engine_config.activations import check_activation
from service.engine_config.cache_dtype import (
    HALF_FLOATS,
    canonical,
    check_chunks,
    check_e5m2,
    resolve_cache_dtype,
)
from service.engine_config.canvas import canvas_doubts
from service.engine_config.checkpoint_checks import (
    check_clamped_experts,
    check_vision,
)
from service.engine_config.config_format import as_written_for
from service.engine_config.engine_config import EngineConfig
from service.engine_config.environment import forces_fp8_marlin, forces_mxfp4_marlin
from service.engine_config.expert_kernels import check_expert_kernel, kernel_doubts
from service.engine_config.model_runner import runner_doubts
from service.engine_config.parallel_checks import (
    check_encoders,
    check_layers,
    check_missing_layers,
    check_shared_caches,
)
from service.engine_config.release_reading import as_read_by
from service.engine_config.required_fields import check_required_fields
from service.engine_config.resolution import resolve_engine_config
from service.engine_config.runner import as_run
from service.engine_config.tied_output import check_tied_output
from service.engine_config.unbuilt_kernels import unbuilt
from service.engine_config.unfit_heads import check_built_heads, check_matched_heads
from service.engines.cache_quality import CacheQuality, quality_of
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.model_classes import check_built_class, first_releases
from service.engines.refusal import EngineRefusal, Stage
from service.gpus.gpu_type import GpuType
from service.kv_cache.block_size import resolve_block_size
from service.kv_cache.cache_layout import CacheLayout
from service.kv_cache.specs import StateSpec
from service.memory.media_choices import MediaChoices
from service.memory.parallelism import Parallelism
from service.memory.weights.checks.fp8_kernels import check_fp8_kernel
from service.memory.weights.checks.layout_checks import check_layouts, check_towers, unread_weights
from service.memory.weights.checks.online_checks import check_online_sizes
from service.memory.weights.checks.quark_checks import check_quark_experts

Assign: TypeAlias = Callable[[ModelArchitecture, EngineConfig], Backends]
"""Chooses the backends of a model."""

FAILS_IN_ATTENTION: Final = "The engine accepts this, then fails when attention first runs"
FAILS_IN_CACHES: Final = "The engine accepts this, then fails when it sets up its caches"


@dataclass(frozen=True)
class Start:
    """A start after the model is built and its cache is laid out."""

    architecture: ModelArchitecture
    """The model with its draft, if it has one."""
    engine_config: EngineConfig
    backends: Backends
    layout: CacheLayout

    def with_length(self, max_model_len: int) -> "Start":
        """Return the start with another maximum length, where nothing but the requests depends on it.

        What was found out about this start holds for the other, too.
        """
        stored = vars(self).copy()
        stored["engine_config"] = changed(self.engine_config, max_model_len=max_model_len)
        return of_fields(Start, stored)

    @cached_property
    def stored_dtype(self) -> str:
        """Dtype of the cache, with ``auto`` resolved; the model's own if the release ignores the flag."""
        dtype = self.engine_config.kv_cache_dtype
        return (
            self.engine_config.dtype
            if dtype == "auto" or not self.engine_config.passes_cache_dtype
            else dtype
        )

    @cached_property
    def stored_format(self) -> str:
        """Dtype that most attention layers store; a backend may replace it (``fp8`` by ``fp8_ds_mla``)."""
        if not self.engine_config.passes_cache_dtype:
            return self.stored_dtype
        return self.backends.stored_dtype or self.stored_dtype

    @cached_property
    def is_misread(self) -> bool:
        """Whether the cache stores 16-bit floats of another type than the model writes into it.

        Source: vLLM 0.20.0, csrc/attention/dtype_fp8.cuh, get_fp8_kv_cache_data_type: the kernels that write
        treat both types as ``auto`` and convert nothing.
        """
        return self.engine_config.passes_cache_dtype and self.names_other_floats

    @cached_property
    def names_other_floats(self) -> bool:
        """Whether the cache dtype is a type of 16-bit floats in which the model does not compute."""
        return self.engine_config.kv_cache_dtype in HALF_FLOATS - {self.engine_config.dtype}

    @property
    def misreadings(self) -> tuple[str, ...]:
        """What happens with a cache that is read as another type; empty if it is not."""
        if not self.is_misread:
            return ()
        stored, dtype = self.stored_dtype, self.engine_config.dtype
        words = (
            f"--kv-cache-dtype {stored} breaks a model that computes in {dtype}: kernels write the bits of "
            f"{dtype} and read them as {stored}. The model then gives wrong answers without an error or a "
            "warning (vLLM pull request 54338; vLLM 0.33.0 refuses such a cache), or attention fails when it "
            f"first runs. --kv-cache-dtype auto or {dtype} stores what the model computes."
        )
        return (words,)

    @cached_property
    def is_published(self) -> bool:
        """Whether the cache has the checkpoint's own cache dtype, and with it the checkpoint's scales."""
        own = resolve_cache_dtype("auto", self.architecture.quantization, self.engine_config.rules.dtypes)
        return own != "auto" and canonical(own) == canonical(self.engine_config.kv_cache_dtype)

    @cached_property
    def quality(self) -> CacheQuality:
        """What is published about the dtype in which the cache is stored."""
        return quality_of(self.stored_format, is_misread=self.is_misread, is_published=self.is_published)

    @property
    def miscounts(self) -> tuple[str, ...]:
        """Why the release may build other layers than the config describes; empty if it does not."""
        words = self.engine_config.rules.checkpoints.miscounted_layers.get(self.architecture.class_name)
        return () if words is None else (words,)

    @property
    def unbuilt(self) -> tuple[str, ...]:
        """Why the published builds of the release may fail, or are not modelled; empty if they run."""
        return (
            *unbuilt(self.architecture, self.engine_config),
            *runner_doubts(self.engine_config),
            *canvas_doubts(self.architecture),
            *self.unread_weights,
        )

    @property
    def unread_weights(self) -> tuple[str, ...]:
        """Why the release as published builds the model and fails to read the checkpoint; empty if not."""
        deployment = _weights_deployment(self.engine_config)
        return unread_weights(self.architecture, deployment, self.engine_config.release)

    @property
    def unknown_kernels(self) -> tuple[str, ...]:
        """Why the kernel that is named for the experts may not run them; empty where it is known to."""
        return kernel_doubts(self.architecture, self.engine_config)

    @property
    def unpacked_in_prompts(self) -> str | None:
        """Why attention over prompts takes longer with this cache; ``None`` where it does not."""
        reasons = (backend.unpacked_in_prompts for backend in self.backends.distinct)
        return next((reason for reason in reasons if reason is not None), None)

    @cached_property
    def failure_at_setup(self) -> EngineFailure | None:
        """What fails when a cache of any size is set up; ``None`` if nothing does."""
        if (unmatched := self._match_unit_failure) is not None:
            return unmatched
        failures = (backend.failure_at_setup for backend in self.backends.distinct)
        own = next((failure for failure in failures if failure is not None), None)
        if own is not None or self.engine_config.decode_context_parallel_size == 1:
            return own
        return self._hybrid_failure

    @property
    def _match_unit_failure(self) -> EngineFailure | None:
        """Return what fails if prefixes are compared at steps that do not divide every block size."""
        unit, groups = self.engine_config.prefix_match_unit, self.layout.groups
        ranks = self.engine_config.decode_context_parallel_size
        sizes = [
            group.spec.block_size * (1 if isinstance(group.spec, StateSpec) else ranks) for group in groups
        ]
        hashes = self.engine_config.enable_prefix_caching and len(groups) > 1
        if unit is None or not hashes or all(size % unit == 0 for size in sizes):
            return None
        words = self.engine_config.rules.blocks.match_unit_refusal
        return EngineFailure("ValueError", words.format(unit=unit, sizes=sizes))

    @property
    def _hybrid_failure(self) -> EngineFailure | None:
        words = self.engine_config.rules.parallelism.hybrid_context_parallel_failure
        several = len(self.layout.groups) > 1 and self.engine_config.enable_prefix_caching
        return EngineFailure("AssertionError", words) if words and several else None

    @cached_property
    def failures_when_run(self) -> tuple[EngineRefusal, ...]:
        """What fails after the cache is set up; empty if nothing does."""
        failures = {
            (failure.type, failure.message)
            for backend in self.backends.distinct
            if (failure := backend.failure_when_run) is not None
        }
        return tuple(
            EngineRefusal(Stage.RUN, message, type=type_, detail=FAILS_IN_ATTENTION)
            for type_, message in sorted(failures)
        ) + tuple(
            EngineRefusal(Stage.RUN, f"No common block size for {size}", detail=FAILS_IN_CACHES)
            for size in sorted(self.layout.uncuttable_blocks)
        )

    @property
    def fails_when_run(self) -> tuple[str, ...]:
        """``failures_when_run`` as sentences."""
        return tuple(f"{each.detail}: {each.type}: {each.message}" for each in self.failures_when_run)


def build_model(
    architecture: ModelArchitecture, engine_config: EngineConfig, assign: Assign = assign_backends
) -> Backends:
    """Check what the model's own code checks, and return each layer's attention backend.

    Raises:
        EngineRefusal: stages ``model``, ``backend`` and ``dtype``.
    """
    rules = engine_config.rules
    check_built_class(architecture.class_name, rules.release)
    check_layers(
        architecture,
        engine_config.tensor_parallel_size,
        rules.parallelism,
        whole_encoders=engine_config.whole_encoders,
    )
    check_built_heads(architecture, engine_config.tensor_parallel_size, rules.release)
    check_matched_heads(architecture, engine_config.tensor_parallel_size, rules.parallelism)
    check_required_fields(architecture, rules.config_fields)
    check_activation(architecture, rules.release)
    backends = assign(architecture, engine_config)
    check_chunks(engine_config.kv_cache_dtype, engine_config.kv_cache_dtype_skip_layers, architecture)
    check_e5m2(engine_config.kv_cache_dtype, architecture, rules.dtypes, engine_config.cache_method)
    check_clamped_experts(architecture, engine_config.compute_capability, rules.checkpoints)
    check_expert_kernel(architecture, engine_config)
    check_layouts(architecture, _weights_deployment(engine_config), rules.release)
    check_vision(architecture, rules.config_fields)
    check_tied_output(architecture, engine_config.pipeline_parallel_size, rules)
    check_missing_layers(architecture, engine_config.pipeline_parallel_size, rules.parallelism)
    check_shared_caches(architecture, engine_config.pipeline_parallel_size)
    check_memory_layouts(architecture, backends, engine_config.pipeline_parallel_size)
    return backends


def check_quantized_online(
    architecture: ModelArchitecture, engine_config: EngineConfig, flags: ServeFlags
) -> None:
    """Check the sizes of layers that are quantized while they load, encoders' included.

    Raises:
        EngineRefusal: stage ``model``.
    """
    if architecture.quantization is None and flags.quantization is None:
        return
    deployment = replace(
        _weights_deployment(engine_config),
        language_model_only=flags.language_model_only,
        media=MediaChoices.of(flags),
        whole_encoders=engine_config.whole_encoders,
    )
    if not engine_config.whole_encoders:
        check_encoders(architecture.media, engine_config.tensor_parallel_size)
    check_online_sizes(architecture, flags.quantization, deployment, engine_config.release)
    check_towers(architecture, deployment, engine_config.release)
    forced = forces_fp8_marlin(flags, engine_config.release)
    check_fp8_kernel(architecture, deployment, engine_config.release, forced=forced)
    named = engine_config.expert_kernel is not None or forces_mxfp4_marlin(flags, engine_config.release)
    check_quark_experts(architecture, deployment, engine_config.release, named=named)


def _weights_deployment(engine_config: EngineConfig) -> Parallelism:
    """Return what decides into which parts the weights are split."""
    capability = engine_config.compute_capability
    return Parallelism(
        tensor_parallel_size=engine_config.tensor_parallel_size,
        enable_expert_parallel=engine_config.enable_expert_parallel,
        compute_capability=(capability.major, capability.minor),
        dtype=engine_config.dtype,
    )


def resolved(
    architecture: ModelArchitecture, flags: ServeFlags, rules: EngineRules, gpu: GpuType
) -> tuple[ModelArchitecture, EngineConfig]:
    """Return the model as the release reads and drafts it, and its configuration before backends are chosen.

    Raises:
        EngineRefusal: the engine refuses the flags or the model's config.
        UnmodelledEngine: what the engine would run is not modelled.
        UnmodelledSpeculation: what the engine stores for draft tokens is not known.
    """
    architecture = as_run(read_by_release(architecture, rules), flags, rules.pooling)
    return before_backends(architecture, resolve_engine_config(architecture, flags, rules, gpu))


def read_by_release(architecture: ModelArchitecture, rules: EngineRules) -> ModelArchitecture:
    """Return the model as this release reads its config."""
    other, first = architecture.by_suffix, first_releases()
    if other is not None and first[other.class_name] <= rules.release < first[architecture.class_name]:
        architecture = other
    return as_read_by(as_written_for(architecture, rules.checkpoints, rules.release), rules)


def before_backends(
    architecture: ModelArchitecture, engine_config: EngineConfig
) -> tuple[ModelArchitecture, EngineConfig]:
    """Return the model with its draft, and the configuration with the dtype and block size for the backends.

    Raises:
        EngineRefusal: a block is larger than a batch (stage ``config``).
    """
    dtype = model_cache_dtype(
        architecture.class_name,
        engine_config.kv_cache_dtype,
        engine_config.release,
        engine_config.compute_capability,
    )
    if dtype != engine_config.kv_cache_dtype:
        engine_config = replace(engine_config, kv_cache_dtype=dtype)
    if engine_config.speculation is not None:
        architecture = replace(architecture, draft=engine_config.speculation.draft)
    return architecture, resolve_block_size(architecture, engine_config)
