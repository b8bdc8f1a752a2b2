"""The attention backend of every layer that stores keys and values."""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from service.architecture.layers.attention import Attention
from service.architecture.layers.cache_part import CachePart
from service.architecture.layers.decoder_layer import TokenMixer
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.layers.recurrence import state_kind
from service.architecture.long_lists import LONG_LISTS
from service.architecture.model import ModelArchitecture
from service.architecture.pipeline import model_stages
from service.backends.backend import AttentionBackend, Backends
from service.backends.backend_rules import Forced
from service.backends.forced import forced_attention
from service.backends.heads import heads_seen_by_backends
from service.backends.layer_backend import class_named_backend, layer_request, select_for_layer
from service.backends.layer_cache_dtype import layer_cache_dtypes
from service.backends.layer_parts import built_parts, kinds_beside
from service.backends.unselected import UnselectedLayer, unselected_backend
from service.engine_config.engine_config import EngineConfig
from service.engines.refusal import EngineRefusal, Stage


def assign_backends(architecture: ModelArchitecture, engine_config: EngineConfig) -> Backends:
    """Choose a backend for each attention layer, in the order the engine builds them.

    Raises:
        EngineRefusal: no backend serves some layer, or it cannot be built with the one chosen.
    """
    if architecture.lead_attention is None:
        return Backends((), {})
    heads = _heads(architecture)
    forced = _forced(architecture, heads, engine_config)
    chosen = engine_config.attention_backend or forced.backend
    # Layers with equal mixers and cache dtypes have the same backends, in the model and in its draft.
    resolved: dict[tuple[int, bool, str], int] = {}
    parts: list[Mapping[CachePart, AttentionBackend]] = []
    kinds: list[int] = []
    converted: str | None = None
    mla = architecture.is_mla
    stages = _first_layers(architecture, engine_config) if mla else frozenset()
    dtypes = layer_cache_dtypes(architecture, engine_config)
    layers = zip(architecture.attention_layers, heads.places, dtypes, strict=True)
    for (index, mixer), place, specified in layers:
        if mla:
            converted = None if index in stages else converted
        turned = converted is not None and specified == engine_config.kv_cache_dtype and _is_dense_mla(mixer)
        dtype = converted if turned and converted is not None else specified
        drafts = index >= heads.own_layers
        kind = resolved.setdefault((place, drafts, dtype), len(parts))
        if kind == len(parts):
            largest = heads.largest_of_draft if drafts else heads.largest
            request = layer_request(mixer, dtype, engine_config, largest, forced)
            own = select_for_layer(mixer, request, chosen, engine_config)
            _check_kernels(architecture, mixer, own, dtype, engine_config)
            parts.append(dict(_with_parts(mixer, own, engine_config)))
        kinds.append(kind)
        if mla:
            converted = _converted(mixer, parts[kind][CachePart.ATTENTION], dtype) or converted
    return _backends(architecture, tuple(kinds), parts)


def _backends(
    architecture: ModelArchitecture, kinds: tuple[int, ...], parts: list[Mapping[CachePart, AttentionBackend]]
) -> Backends:
    """Return the backends of layers; ``kinds``: of each attention layer, the place of its ``parts``."""
    distinct: dict[tuple[AttentionBackend, str], int] = {}
    numbered = tuple(
        tuple(
            (part, distinct.setdefault((backend, backend.cache_dtype), len(distinct)))
            for part, backend in each.items()
        )
        for each in parts
    )
    indices = tuple(index for index, _ in architecture.attention_layers)
    return Backends(tuple(backend for backend, _ in distinct), _places(indices, kinds, numbered))


@lru_cache(maxsize=256)
def _places(
    indices: tuple[int, ...], kinds: tuple[int, ...], parts: tuple[tuple[tuple[CachePart, int], ...], ...]
) -> Mapping[tuple[int, CachePart], int]:
    """Return the places of ``Backends``: one mapping for all starts whose layers are alike."""
    return {
        (index, part): number
        for index, kind in zip(indices, kinds, strict=True)
        for part, number in parts[kind]
    }


def _first_layers(architecture: ModelArchitecture, engine_config: EngineConfig) -> frozenset[int]:
    stages = model_stages(architecture, engine_config.pipeline_parallel_size)
    return frozenset(layers.start for layers in stages)


def _is_dense_mla(mixer: TokenMixer) -> bool:
    return isinstance(mixer, MultiHeadLatentAttention) and mixer.indexer is None


def _converted(mixer: TokenMixer, backend: AttentionBackend, dtype: str) -> str | None:
    """Return the format to which a sparse layer turns the cache of those that are built after it.

    Source: vLLM 0.24.0 to 0.33.0, MLAAttention.__init__, which sets cache_config.cache_dtype.
    """
    sparse = isinstance(mixer, MultiHeadLatentAttention) and mixer.indexer is not None
    return backend.cache_dtype if sparse and backend.cache_dtype != dtype else None


def _with_parts(
    mixer: TokenMixer, own: AttentionBackend, engine_config: EngineConfig
) -> Iterator[tuple[CachePart, AttentionBackend]]:
    kinds = kinds_beside(mixer)
    for part in built_parts(mixer, engine_config.rules.specs):
        if part is CachePart.ATTENTION:
            yield part, own
        else:
            yield (
                part,
                unselected_backend(kinds[part], engine_config.release, engine_config.compute_capability),
            )


def _check_kernels(
    architecture: ModelArchitecture,
    mixer: TokenMixer,
    backend: AttentionBackend,
    dtype: str,
    engine_config: EngineConfig,
) -> None:
    """Refuse a backend or a type that a class's own kernels do not support.

    Source: vLLM 0.33.0, FlintAttention and InklingConvState.

    Raises:
        EngineRefusal: stage ``model``.
    """
    convolved = isinstance(mixer, Attention) and mixer.convolutions is not None
    if convolved and engine_config.dtype != "bfloat16":
        words = f"sconv SWA cache supports bfloat16 only, got torch.{engine_config.dtype}"
        raise EngineRefusal(Stage.MODEL, words, type="AssertionError")
    if architecture.class_limits.only_backend is None:
        return
    if backend.name != architecture.class_limits.only_backend:
        words = f"{architecture.class_name.removesuffix('ForCausalLM')} requires FlashInfer attention"
        raise EngineRefusal(Stage.MODEL, words, type="AssertionError")
    if engine_config.dtype != "bfloat16" or dtype not in {"auto", "bfloat16"}:
        raise EngineRefusal(Stage.MODEL, "", type="AssertionError")


@dataclass(frozen=True, slots=True)
class _Heads:
    """The heads of a model's attention, its draft's included."""

    own_layers: int
    """Layers of the model itself."""
    largest: int
    """Head size, of the model's own layers."""
    largest_of_draft: int
    sizes: frozenset[int]
    mla: MultiHeadLatentAttention | None
    """The first MLA layer."""
    mixers: tuple[TokenMixer, ...]
    """Those that differ."""
    places: tuple[int, ...]
    """Of each attention layer, the place of its mixer among those."""


@LONG_LISTS.emptied
@lru_cache(maxsize=64)
def _heads(architecture: ModelArchitecture) -> _Heads:
    own = len(architecture.layers)
    mixers = [mixer for _, mixer in architecture.attention_layers]
    distinct: dict[TokenMixer, int] = {}
    places = tuple(distinct.setdefault(mixer, len(distinct)) for mixer in mixers)
    sizes = [(index < own, mixer.head_size) for index, mixer in architecture.attention_layers]
    return _Heads(
        own_layers=own,
        largest=max((size for of_model, size in sizes if of_model), default=0),
        largest_of_draft=max((size for of_model, size in sizes if not of_model), default=0),
        sizes=frozenset(size for _, size in sizes),
        mla=next((mixer for mixer in mixers if isinstance(mixer, MultiHeadLatentAttention)), None),
        mixers=tuple(distinct),
        places=places,
    )


def backend_inputs(architecture: ModelArchitecture, engine_config: EngineConfig) -> Hashable:
    """Return what backends depend on of the starts of one model: those equal in it are assigned alike."""
    return (
        engine_config.compute_capability,
        engine_config.attention_backend,
        engine_config.dtype,
        engine_config.kv_cache_dtype,
        engine_config.kv_cache_dtype_skip_layers,
        engine_config.block_size,
        engine_config.bidirectional_media,
        engine_config.decode_context_parallel_size,
        engine_config.pipeline_parallel_size,
        tuple(_head_inputs(mixer, engine_config) for mixer in _heads(architecture).mixers),
    )


def _head_inputs(mixer: TokenMixer, engine_config: EngineConfig) -> Hashable:
    ranks = engine_config.tensor_parallel_size
    if not isinstance(mixer, Attention) or engine_config.attention_backend is not None:
        return ranks
    if class_named_backend(mixer, engine_config.rules.specs) is not None:
        return ranks
    return heads_seen_by_backends(
        engine_config.release, mixer.num_heads // ranks, max(1, mixer.num_kv_heads // ranks)
    )


def layers_by_backend(
    architecture: ModelArchitecture, engine_config: EngineConfig, backends: Backends
) -> Mapping[str, int]:
    """Return how many layers each backend has, recurrent ones included, by the names the release gives.

    Layers whose backend has no name in the release are counted under the empty one.
    """
    counts = Counter("" if backend.nameless else backend.name for backend in backends.values())
    for _, mixer in architecture.recurrent_layers:
        kind = UnselectedLayer(state_kind(mixer))
        backend = unselected_backend(kind, engine_config.release, engine_config.compute_capability)
        counts["" if backend.nameless else backend.name] += 1
    return counts


def _forced(architecture: ModelArchitecture, heads: _Heads, engine_config: EngineConfig) -> Forced:
    mla = heads.mla
    return forced_attention(
        engine_config.release,
        engine_config.compute_capability,
        head_sizes=heads.sizes,
        kv_cache_dtype=engine_config.kv_cache_dtype,
        chosen=engine_config.attention_backend,
        gemma4=architecture.model_type.startswith(("gemma4", "diffusion_gemma")),
        mla=mla is not None,
        sparse=mla is not None and mla.indexer is not None,
        qk_nope_head_dim=None if mla is None else mla.qk_nope_head_dim,
    )
