"""The attention backend of every layer that stores keys and values."""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, assert_never

from service.architecture.layers.attention import Attention
from service.architecture.layers.cache_part import CachePart
from service.architecture.layers.compressed_attention import CompressedAttention
from service.architecture.layers.decoder_layer import TokenMixer
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.layers.recurrence import state_kind
from service.architecture.model import ModelArchitecture
from service.architecture.pipeline import model_stages
from service.backends.attention_request import AttentionRequest, AttentionType
from service.backends.backend import AttentionBackend, Backends
from service.backends.backend_rules import Forced, release_rules
from service.backends.forced import forced_attention
from service.backends.heads import heads_seen_by_backends
from service.backends.layer_parts import built_parts, kinds_beside
from service.backends.selection import select_backend
from service.backends.unselected import UnselectedLayer, unselected_backend
from service.engine_config.engine_config import EngineConfig
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.specs import SpecRules

SINK_BACKEND: Final = "FLASHMLA_SPARSE"
"""vLLM 0.29.0 to 0.33.0, HYV4FlashMLASparseBackend goes by the name of what it extends."""
NO_SPARSE_BACKEND: Final = (
    "HYV4 sparse attention was requested, but no valid sparse MLA backend is available for current "
    "runtime/config. Refusing to fall back to dense attention."
)


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
            request = _request(mixer, dtype, engine_config, largest, forced)
            own = _select(mixer, request, chosen, engine_config)
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
    if _unselected(mixer, engine_config.rules.specs) is not None:
        return ranks
    return heads_seen_by_backends(
        engine_config.release, mixer.num_heads // ranks, max(1, mixer.num_kv_heads // ranks)
    )


def layer_cache_dtypes(architecture: ModelArchitecture, engine_config: EngineConfig) -> tuple[str, ...]:
    """Return the cache dtype of each attention layer, in their order."""
    specified = common_cache_dtype(engine_config)
    if specified is not None:
        return (specified,) * len(architecture.attention_layers)
    return tuple(
        layer_cache_dtype(architecture.layer_number(index), mixer, engine_config)
        for index, mixer in architecture.attention_layers
    )


def common_cache_dtype(engine_config: EngineConfig) -> str | None:
    """Return the cache dtype that all layers have; ``None`` where some may be skipped."""
    if not engine_config.passes_cache_dtype:
        return "auto"
    return None if engine_config.kv_cache_dtype_skip_layers else engine_config.kv_cache_dtype


def layer_cache_dtype(index: int, mixer: TokenMixer, engine_config: EngineConfig) -> str:
    """Return the cache dtype of the layer of a number: skipped layers stay at the model's type.

    Source: vLLM 0.32.0, Attention.__init__ and MLAAttention.__init__. Layers with classes of their own
    (DeepseekV4Attention, MiniMaxM3SparseAttention) are never skipped.
    """
    specified, skipped = common_cache_dtype(engine_config), engine_config.kv_cache_dtype_skip_layers
    if specified is not None:
        return specified
    if not _skippable(mixer, engine_config):
        return engine_config.kv_cache_dtype
    windowed = isinstance(mixer, Attention) and mixer.sliding_window is not None
    if str(index) in skipped or (windowed and "sliding_window" in skipped):
        return "auto"
    return engine_config.kv_cache_dtype


def _skippable(mixer: TokenMixer, engine_config: EngineConfig) -> bool:
    match mixer:
        case Attention():
            return mixer.block_indexer is None
        case MultiHeadLatentAttention():
            return release_rules(engine_config.release).mla_layers_skip
        case CompressedAttention():
            return False
    assert_never(mixer)


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
        gemma4=architecture.model_type.startswith("gemma4"),
        mla=mla is not None,
        sparse=mla is not None and mla.indexer is not None,
        qk_nope_head_dim=None if mla is None else mla.qk_nope_head_dim,
    )


def _attention_type(mixer: Attention) -> AttentionType:
    if mixer.encodes:
        return AttentionType.ENCODER_ONLY
    return AttentionType.ENCODER_DECODER if mixer.cross else AttentionType.DECODER


def _select(
    mixer: TokenMixer, request: AttentionRequest, chosen: str | None, engine_config: EngineConfig
) -> AttentionBackend:
    kind = _unselected(mixer, engine_config.rules.specs)
    if kind is not None:
        return unselected_backend(
            kind,
            engine_config.release,
            engine_config.compute_capability,
            request=request,
            chosen=chosen,
            device_name=engine_config.device_name,
        )
    if isinstance(mixer, MultiHeadLatentAttention) and mixer.sinks:
        return _with_sinks(request, chosen, engine_config)
    selected = _selected(request, chosen, engine_config)
    if isinstance(mixer, MultiHeadLatentAttention) and mixer.row_size is not None:
        # What is selected is built first, and then replaced.
        return unselected_backend(
            UnselectedLayer.PADDED_MLA,
            engine_config.release,
            engine_config.compute_capability,
            request=request,
        )
    return selected


def _selected(request: AttentionRequest, chosen: str | None, engine_config: EngineConfig) -> AttentionBackend:
    return select_backend(
        request,
        engine_config.release,
        engine_config.compute_capability,
        chosen=chosen,
        device_name=engine_config.device_name,
    )


def _with_sinks(
    request: AttentionRequest, chosen: str | None, engine_config: EngineConfig
) -> AttentionBackend:
    """Return the backend of MLA with sinks: the one with sinks if it is valid, else the selected one.

    Source: vLLM 0.29.0 to 0.33.0, HYV4MLAAttention._resolve_sink_backend.

    Raises:
        EngineRefusal: sparse attention has no backend at all.
    """
    try:
        selected = _selected(request, chosen, engine_config)
    except EngineRefusal as refusal:
        if not request.sparse:
            raise
        raise EngineRefusal(
            Stage.MODEL, NO_SPARSE_BACKEND, type="RuntimeError", find_fixes=refusal.find_fixes
        ) from None
    try:
        return _selected(request, SINK_BACKEND, engine_config)
    except EngineRefusal:
        return selected


def _unselected(mixer: TokenMixer, rules: SpecRules) -> UnselectedLayer | None:
    """Return the kind of a layer whose class names its backend itself."""
    if isinstance(mixer, CompressedAttention):
        return UnselectedLayer.DEEPSEEK_V4_COMPRESSED
    if isinstance(mixer, MultiHeadLatentAttention):
        return None if mixer.sliding_window is None else UnselectedLayer.WINDOWED_MLA
    differ = mixer.head_size_v != mixer.head_size and not rules.pads_values
    named = {
        UnselectedLayer.BLOCK_SPARSE: mixer.block_indexer is not None,
        UnselectedLayer.GROUP_SPARSE: mixer.group_indexer is not None,
        UnselectedLayer.REGION_SPARSE: mixer.region_indexer is not None,
        UnselectedLayer.PINNED_FLASH_ATTENTION: mixer.flash,
        UnselectedLayer.STORED_SINKS: bool(mixer.stored_sinks),
        UnselectedLayer.CONVOLVED_ATTENTION: mixer.convolutions is not None,
        UnselectedLayer.DIFFERING_VALUES: differ,
    }
    return next((kind for kind, applies in named.items() if applies), None)


def _request(
    mixer: TokenMixer, dtype: str, engine_config: EngineConfig, model_head_size: int, forced: Forced
) -> AttentionRequest:
    num_heads = mixer.num_heads // engine_config.tensor_parallel_size
    if isinstance(mixer, CompressedAttention):
        return AttentionRequest(
            head_size=mixer.head_size,
            dtype=engine_config.dtype,
            kv_cache_dtype=dtype,
            num_heads=num_heads,
            num_kv_heads=1,
            block_size=engine_config.block_size,
            mla=True,
            sparse=True,
        )
    if isinstance(mixer, MultiHeadLatentAttention):
        return AttentionRequest(
            head_size=mixer.head_size,
            dtype=engine_config.dtype,
            kv_cache_dtype=dtype,
            num_heads=num_heads,
            num_kv_heads=1,
            block_size=engine_config.block_size,
            mla=True,
            sparse=mixer.indexer is not None,
            index_topk=None if mixer.indexer is None else mixer.indexer.top_k,
            qk_nope_head_dim=mixer.qk_nope_head_dim,
            qk_rope_head_dim=mixer.qk_rope_head_dim,
            v_head_dim=mixer.weights.v_head_dim,
            kv_lora_rank=mixer.kv_lora_rank,
            flash_attn_version=forced.flash_attn_version,
            decode_context_parallel_size=engine_config.decode_context_parallel_size,
        )
    return AttentionRequest(
        head_size=mixer.head_size,
        head_size_v=mixer.head_size_v,
        dtype=engine_config.dtype,
        kv_cache_dtype=dtype,
        num_heads=num_heads,
        num_kv_heads=max(1, mixer.num_kv_heads // engine_config.tensor_parallel_size),
        block_size=engine_config.block_size,
        attn_type=_attention_type(mixer),
        sinks=mixer.sinks,
        mm_prefix=engine_config.bidirectional_media,
        sliding_window=mixer.sliding_window is not None,
        logits_soft_cap=mixer.logits_soft_cap,
        shares_cache=mixer.shares_cache_of is not None,
        index_topk=None if mixer.block_indexer is None else mixer.block_indexer.top_k,
        model_head_size=model_head_size,
        flash_attn_version=forced.flash_attn_version,
        decode_context_parallel_size=engine_config.decode_context_parallel_size,
    )
