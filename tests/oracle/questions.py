"""What a release is asked: bundled models with a spread of flags, and our own answers."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from packaging.version import Version

from service.advisor.candidates.engine_start import build_model, resolved
from service.architecture.config import InvalidConfig
from service.architecture.layers.cache_part import CachePart
from service.architecture.layers.compressed_attention import CompressedAttention
from service.architecture.model import ModelArchitecture
from service.architecture.pipeline import model_stages
from service.architecture.reading import UnknownArchitecture
from service.backends.backend import Backends
from service.engine_config.engine_config import EngineConfig
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import UnavailableFlag, check_flags, rules_for
from service.gpus.catalog import find_gpu
from service.hub.bundled.snapshot import BundledSnapshot
from service.kv_cache.block_size import resolve_block_sizes
from service.kv_cache.capacity import lay_out, size_cache
from service.kv_cache.compressed import BYTES
from service.kv_cache.formats import UnmodelledCacheDtype
from service.kv_cache.layer_caches import layer_caches
from service.kv_cache.specs import LayerSpec, SpecLayers, StateSpec
from service.units import GIB
from tests.accuracy.oracle import bundled_architecture
from tests.oracle.translation import Words, words_of_serving, words_of_spec


class UnaskedAttention(ValueError):
    """Compressed attention, whose pages lie in a layout that the driver does not set up (DeepSeek V4)."""


NOT_ASKED: Final = (
    EngineRefusal,  # before there are layers to ask about
    UnknownArchitecture,
    InvalidConfig,
    UnavailableFlag,
    UnmodelledCacheDtype,
    UnaskedAttention,
)


DEFAULTS: Final = ServeFlags()


@dataclass(frozen=True)
class Case:
    """Flags, a GPU type and the bytes for the cache of each rank."""

    flags: ServeFlags = DEFAULTS
    gpu: str = "h100-sxm-80gb"
    gib: float = 40


SPREAD: Final = (
    Case(),
    Case(ServeFlags(tensor_parallel_size=2, max_model_len=8192), gib=8),
    Case(ServeFlags(tensor_parallel_size=8, max_model_len=32_768), gpu="b200-180gb", gib=120),
    Case(ServeFlags(pipeline_parallel_size=2, max_model_len=32_768), gib=20),
    Case(ServeFlags(pipeline_parallel_size=3, tensor_parallel_size=2, max_model_len=8192)),
    Case(ServeFlags(enable_prefix_caching=True, max_model_len=16_001), gib=20),
    Case(ServeFlags(enable_prefix_caching=False, max_num_batched_tokens=2048), gpu="a100-sxm-80gb", gib=20),
    Case(ServeFlags(max_num_batched_tokens=16_384, async_scheduling=False), gib=1),
    Case(ServeFlags(max_model_len=-1), gib=1.5),
    Case(ServeFlags(max_model_len=-1, tensor_parallel_size=4), gpu="b200-180gb", gib=0.3),
    Case(ServeFlags(disable_hybrid_kv_cache_manager=True, max_model_len=32_768)),
    Case(ServeFlags(disable_hybrid_kv_cache_manager=True, tensor_parallel_size=4), gpu="b200-180gb", gib=4),
    Case(ServeFlags(num_gpu_blocks_override=3000, max_model_len=8192), gpu="b200-180gb"),
    Case(ServeFlags(num_gpu_blocks_override=100), gib=2),
    Case(ServeFlags(block_size=64, max_model_len=32_768), gib=10),
    Case(ServeFlags(tensor_parallel_size=4, decode_context_parallel_size=2, max_model_len=32_768)),
    Case(gib=0),
)
"""Cases that every model is asked with its own cache dtype; with another it is asked some of them."""
STEP: Final = 4
"""Of how many cases one is asked with a cache dtype other than the model's own."""


INDEXER_DTYPE: Final = "fp8"
"""A cache dtype of one byte per element."""


@dataclass(frozen=True)
class Question:
    """One start, as the engine is asked about it, and what we say."""

    model: str
    case: Case
    requested: Words
    """What driver.py reads."""
    answer: Words
    """Ours, in the form in which driver.py answers."""

    @property
    def title(self) -> str:
        """Return the model and what is asked of it, in the engine's own flags."""
        flags = {
            name: value for name, value in asdict(self.case.flags).items() if value != getattr(DEFAULTS, name)
        }
        return f"{self.model} {flags} {self.case.gpu} {self.case.gib:g} GiB"


def questions(release: Version, only: str) -> Iterator[Question | None]:
    """Yield what a release is asked about the models whose name holds ``only``.

    ``None`` stands for a question that cannot be put to the functions that are driven here, since the
    start ends before there are layers, or that we do not answer ourselves.
    """
    rules = rules_for(release)
    for model in BundledSnapshot(withheld={}).ids():
        if only.lower() in model.lower():
            for case in cases(rules):
                try:
                    yield question(model, case, rules)
                except NOT_ASKED:
                    yield None


def cases(rules: EngineRules) -> Iterator[Case]:
    """Yield the spread for the model's own cache dtype, and a part of it for each other one."""
    for number, dtype in enumerate(rules.dtypes.accepted):
        for case in SPREAD if dtype == "auto" else SPREAD[number % STEP :: STEP]:
            yield replace(case, flags=replace(case.flags, kv_cache_dtype=dtype))


def question(model: str, case: Case, rules: EngineRules) -> Question:
    """Return one question.

    Raises:
        NOT_ASKED: it cannot be asked or answered.
    """
    check_flags(case.flags, rules.release)
    architecture, engine_config = resolved(bundled_architecture(model), case.flags, rules, find_gpu(case.gpu))
    if isinstance(architecture.lead_attention, CompressedAttention):
        raise UnaskedAttention(model)
    backends = build_model(architecture, engine_config)
    sizes = resolve_block_sizes(architecture, engine_config, backends)
    caches = layer_caches(architecture, engine_config, backends, sizes)
    available = int(case.gib * GIB)
    requested = {
        "available_bytes": available,
        "config": words_of_serving(engine_config),
        **layers_of(architecture, engine_config, backends, caches),
    }
    pages = [cache.spec.page_size for cache in caches]
    return Question(
        model, case, requested, {"pages": pages, **_answer(architecture, engine_config, backends, available)}
    )


def layers_of(
    architecture: ModelArchitecture,
    engine_config: EngineConfig,
    backends: Backends,
    caches: tuple[SpecLayers, ...],
) -> dict[str, Any]:
    """Return each stage's layers by name, each with the number of its spec, and the specs."""
    specs = [_words(architecture, engine_config, backends, cache) for cache in caches]
    stages: list[dict[str, int]] = []
    for indices in model_stages(architecture, engine_config.pipeline_parallel_size):
        stage: dict[str, int] = {}
        for number, index in _in_order(caches, engine_config):
            if index in indices:
                stage[_name(index, caches[number].spec, stage)] = number
        stages.append(stage)
    return {"specs": specs, "stages": stages}


def _in_order(caches: tuple[SpecLayers, ...], engine_config: EngineConfig) -> list[tuple[int, int]]:
    """Return the number of its spec and the index of every layer, in the order the engine builds them."""
    built = [(index, number) for number, cache in enumerate(caches) for index in cache.indices]
    last = engine_config.rules.groups.states_come_last
    order = sorted(built, key=lambda each: (last and isinstance(caches[each[1]].spec, StateSpec), *each))
    return [(number, index) for index, number in order]


def _name(index: int, spec: LayerSpec, taken: Mapping[str, int]) -> str:
    part = "linear_attn" if isinstance(spec, StateSpec) else "self_attn.attn"
    name = f"model.layers.{index}.{part}"
    while name in taken:
        name += "_"
    return name


def _words(
    architecture: ModelArchitecture, engine_config: EngineConfig, backends: Backends, cache: SpecLayers
) -> Words:
    index = cache.indices[0]
    layer = architecture.layers[index]
    if isinstance(cache.spec, StateSpec):
        return words_of_spec(cache.spec, layer.beside or layer.mixer, "", engine_config)
    backend = backends[index, CachePart.ATTENTION]
    # An indexer's keys are bytes, whatever the attention's own cache holds.
    dtype = INDEXER_DTYPE if cache.spec.format is BYTES else backend.cache_dtype
    words = {**words_of_spec(cache.spec, layer.mixer, dtype, engine_config), "backend": backend.name}
    return {**words, "cache_dtype_str": None} if cache.spec.format is BYTES else words


def _answer(
    architecture: ModelArchitecture, engine_config: EngineConfig, backends: Backends, available: int
) -> dict[str, Any]:
    try:
        cache = size_cache(lay_out(architecture, engine_config, backends), engine_config, available)
    except EngineRefusal as refusal:
        return {"error": {"type": refusal.type, "message": refusal.message}}
    return {
        "groups": [
            {
                "kind": str(group.kind),
                "layers": group.layers,
                "block_size": group.block_size,
                "page_size_bytes": group.page_size_bytes,
                "blocks_per_request": group.blocks_per_request,
            }
            for group in cache.groups
        ],
        "num_blocks": cache.num_blocks,
        "bytes_per_block": cache.bytes_per_block,
        "max_model_len": cache.max_model_len,
        "max_concurrency": cache.max_concurrency,
        "log_lines": list(cache.log_lines),
    }
