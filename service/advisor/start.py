"""One start of the engine, as far as it goes before memory is known."""

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from itertools import count
from typing import Final, Generic, TypeAlias, TypeVar

from service.architecture.layers import CachePart
from service.architecture.model import ModelArchitecture
from service.backends.assignment import Backends, asked_of_start, assign_backends, count_backends
from service.backends.backend import EngineFailure
from service.backends.forced import model_cache_dtype
from service.backends.memory_layout import check_memory_layouts
from service.engines.flags import ServeFlags
from service.engines.model_classes import check_built_class
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules import EngineRules
from service.gpus.gpu_type import GpuType
from service.kv_cache.alignment import asked_of_gpu
from service.kv_cache.block_size import settle_block_size
from service.kv_cache.capacity import CacheLayout, CacheSizing, lay_out
from service.launch.cache_dtype import HALF_FLOATS, canonical, check_chunks, check_e5m2
from service.launch.cache_dtype import resolve as resolve_cache_dtype
from service.launch.checkpoint import check_clamped_experts, check_expert_blocks, check_tied_embedding
from service.launch.config_format import as_written_for
from service.launch.layout import check_layers, check_missing_layers, check_shared_caches
from service.launch.model_dtype import check_supported
from service.launch.release_reading import as_read_by
from service.launch.resolution import DeviceTerms, configure, resolve
from service.launch.serving import Serving
from service.launch.unbuilt import unbuilt

Result = TypeVar("Result")
Assign: TypeAlias = Callable[[ModelArchitecture, Serving], Backends]
"""What chooses the backends of a model."""

FAILS_IN_ATTENTION: Final = "The engine accepts this, then fails when attention first runs"
FAILS_IN_CACHES: Final = "The engine accepts this, then fails when it sets up its caches"


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

    @property
    def stored_format(self) -> str:
        """Type that most attention layers store, after a backend had its say (``fp8`` as ``fp8_ds_mla``)."""
        if not self.serving.heeds_cache_dtype:
            return self.stored_dtype
        stored = Counter(
            backend.cache_dtype
            for (_, part), backend in self.backends.items()
            if part is CachePart.ATTENTION and backend.cache_dtype != "auto"
        )
        return stored.most_common(1)[0][0] if stored else self.stored_dtype

    @property
    def is_misread(self) -> bool:
        """Whether the cache is of 16-bit floats of another type than those that the model writes into it.

        Source: vLLM 0.20.0, csrc/attention/dtype_fp8.cuh, get_fp8_kv_cache_data_type: the kernels that write
        treat both types as ``auto`` and convert nothing.
        """
        return self.serving.heeds_cache_dtype and self.names_other_floats

    @property
    def names_other_floats(self) -> bool:
        """Whether a type of 16-bit floats is asked for that the model does not compute in."""
        return self.serving.kv_cache_dtype in HALF_FLOATS - {self.serving.dtype}

    @property
    def misreadings(self) -> tuple[str, ...]:
        """What comes of a cache that is read as another type; empty where it is not."""
        if not self.is_misread:
            return ()
        stored, dtype = self.stored_dtype, self.serving.dtype
        words = (
            f"--kv-cache-dtype {stored} breaks a model that computes in {dtype}: kernels write the bits of "
            f"{dtype} and read them as {stored}. The model then answers nonsense without an error or a "
            "warning (vLLM pull request 54338; vLLM 0.33.0 refuses such a cache), or attention fails when it "
            f"first runs. --kv-cache-dtype auto or {dtype} stores what the model computes."
        )
        return (words,)

    @property
    def is_published(self) -> bool:
        """Whether the cache is stored as the checkpoint itself asks for, with the scales that it brings."""
        own = resolve_cache_dtype("auto", self.architecture.quantization, self.serving.rules)
        return own != "auto" and canonical(own) == canonical(self.serving.kv_cache_dtype)

    @property
    def miscounts(self) -> tuple[str, ...]:
        """Why the release may build other layers than the config describes; empty when it does not."""
        words = self.serving.rules.miscounted_layers.get(self.architecture.class_name)
        return () if words is None else (words,)

    @property
    def unbuilt(self) -> tuple[str, ...]:
        """What the published builds of the release fail on; empty where they run."""
        return unbuilt(self.architecture, self.serving)

    @property
    def failure_at_setup(self) -> EngineFailure | None:
        """What always goes wrong when a cache of any size is set up; ``None`` when nothing does."""
        if self.serving.decode_context_parallel_size == 1:
            return None
        failures = (backend.failure_at_setup for backend in self.backends.values())
        own = next((failure for failure in failures if failure is not None), None)
        return own or self._hybrid_failure

    @property
    def _hybrid_failure(self) -> EngineFailure | None:
        words = self.serving.rules.hybrid_context_parallel_failure
        several = len(self.layout.groups) > 1 and self.serving.enable_prefix_caching
        return EngineFailure("AssertionError", words) if words and several else None

    @property
    def failures_when_run(self) -> tuple[EngineRefusal, ...]:
        """What goes wrong once the engine has found its memory; empty when nothing does."""
        failures = {
            (failure.type, failure.message)
            for backend in {id(backend): backend for backend in self.backends.values()}.values()
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
        """The same in words."""
        return tuple(f"{each.detail}: {each.type}: {each.message}" for each in self.failures_when_run)


def build_model(
    architecture: ModelArchitecture, serving: Serving, assign: Assign = assign_backends
) -> Backends:
    """Check what the model's own code checks, and choose every layer's backend.

    Raises:
        EngineRefusal: stages ``model``, ``backend`` and ``dtype``.
    """
    check_built_class(architecture.class_name, serving.release)
    check_layers(architecture, serving.tensor_parallel_size, serving.rules)
    backends = assign(architecture, serving)
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
    architecture = _read(architecture, rules)
    return _settled(architecture, resolve(architecture, flags, rules, gpu))


def _read(architecture: ModelArchitecture, rules: EngineRules) -> ModelArchitecture:
    return as_read_by(as_written_for(architecture, rules), rules)


def _settled(architecture: ModelArchitecture, serving: Serving) -> tuple[ModelArchitecture, Serving]:
    dtype = model_cache_dtype(
        architecture.class_name, serving.kv_cache_dtype, serving.release, serving.compute_capability
    )
    if dtype != serving.kv_cache_dtype:
        serving = replace(serving, kv_cache_dtype=dtype)
    if serving.speculation is not None:
        architecture = replace(architecture, draft=serving.speculation.draft)
    return architecture, settle_block_size(architecture, serving)


def dry_start(architecture: ModelArchitecture, flags: ServeFlags, rules: EngineRules, gpu: GpuType) -> Start:
    """Go through a start in the engine's own order up to the point where it asks for memory.

    Raises:
        EngineRefusal: the engine gives up on the way.
        UnmodelledSpeculation: what it would keep for guessing tokens is not known.
    """
    return Starts(architecture, rules).start(flags, gpu)


class Starts:
    """Starts of one model under one release's rules.

    Each step is worked out once for all starts that it is the same for. GPU types differ in what a release
    reads off them: the compute capability, and the sizes of its batches. Backends do not depend on batches;
    the layout depends on backends as far as they find pages, and on the capability by a few cases alone.
    """

    def __init__(self, architecture: ModelArchitecture, rules: EngineRules) -> None:
        self.architecture, self.rules = architecture, rules
        self._read = Memo[ModelArchitecture]()
        self._terms = Memo[DeviceTerms]()
        self._configured = Memo[Serving]()
        self._assigned = Memo[Backends]()
        self._built = Memo[Backends]()
        self._paging = Memo[int]()
        self._pagings: dict[Hashable, int] = {}
        self._numbers = count()
        self._names = Memo[tuple[str, ...]]()
        self._failures = Memo[tuple[EngineRefusal, ...]]()
        self._layouts = Memo[CacheLayout]()
        self._sizings = Memo[CacheSizing]()

    def start(self, flags: ServeFlags, gpu: GpuType) -> Start:
        """Go through a start up to the point where it asks for memory.

        Raises:
            EngineRefusal: the engine gives up on the way.
            UnmodelledSpeculation: what it would keep for guessing tokens is not known.
        """
        rules = self.rules
        read = self._read.of((), lambda: _read(self.architecture, rules))
        terms = self._terms.of(
            (flags.dtype, flags.quantization, gpu), lambda: DeviceTerms.of(read, flags, rules, gpu)
        )
        configured = self._configured.of((flags, terms), lambda: configure(read, flags, rules, terms))
        architecture, serving = _settled(read, configured.on(terms.name, terms.compute_capability))
        check_supported(serving.dtype, gpu)
        told = (flags, serving.dtype, serving.kv_cache_dtype, serving.block_size)
        capability = serving.compute_capability
        backends = self._built.of(
            (*told, capability), lambda: build_model(architecture, serving, self._assign)
        )
        paging = self._paging.of((id(backends), capability), lambda: self._number(_paging(backends, serving)))
        layout = self._layouts.of((*told, paging), lambda: lay_out(architecture, serving, backends))
        return Start(architecture, serving, backends, layout)

    def _number(self, paging: Hashable) -> int:
        """Return the number of one way to find pages, which is found faster than the way itself."""
        # Of two threads, neither may give away a number twice.
        return self._pagings.setdefault(paging, next(self._numbers))

    def _assign(self, architecture: ModelArchitecture, serving: Serving) -> Backends:
        drafted = None if serving.speculation is None else (serving.speculation, serving.tensor_parallel_size)
        key = (drafted, asked_of_start(architecture, serving))
        return self._assigned.of(key, lambda: assign_backends(architecture, serving))

    def backend_names(self, start: Start) -> tuple[str, ...]:
        """Return the attention backends of one of these starts, those of most layers first."""
        return self._names.of(id(start.backends), lambda: count_backends(start.backends))

    def failures_when_run(self, start: Start) -> tuple[EngineRefusal, ...]:
        """Return what goes wrong with one of these starts once the engine has found its memory."""
        return self._failures.of((id(start.backends), id(start.layout)), lambda: start.failures_when_run)

    def sizing(self, flags: ServeFlags, start: Start) -> CacheSizing:
        """Return the sizing of one of these starts."""
        serving, layout = start.serving, start.layout
        key = (flags, id(layout), serving.max_num_batched_tokens, serving.encoder_tokens)
        return self._sizings.of(key, lambda: CacheSizing.of(layout, serving))


def _paging(backends: Backends, serving: Serving) -> Hashable:
    """Return what a layout depends on of its backends and the GPU."""
    distinct = {id(backend): backend for backend in backends.values()}
    place = {key: number for number, key in enumerate(distinct)}
    return (
        asked_of_gpu(serving),
        tuple(backend.paging for backend in distinct.values()),
        tuple(place[id(backend)] for backend in backends.values()),
    )


class Memo(Generic[Result]):
    """Results by what they depend on; a refusal is a result too."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, Result | EngineRefusal] = {}

    def of(self, key: Hashable, work: Callable[[], Result]) -> Result:
        """Return the result for a key, worked out where it is not there yet.

        Raises:
            EngineRefusal: that is what the work ends in.
        """
        found = self._kept.get(key)
        if found is None:
            try:
                found = work()
            except EngineRefusal as refusal:
                found = refusal
            found = self._kept.setdefault(key, found)
        if isinstance(found, EngineRefusal):
            raise found.with_traceback(None)
        return found
