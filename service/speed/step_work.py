"""What one rank reads and computes in a step of the engine, by the size of the batch and its context.

Everything here follows from the model's layers and the start's cache specs; nothing is measured.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from packaging.version import Version

from service.architecture.layers.attention import Attention
from service.architecture.layers.compressed_attention import SharedCompressedAttention
from service.architecture.layers.decoder_layer import DecoderLayer, Mixer, TokenMixer
from service.architecture.layers.experts import MixtureOfExperts
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.long_lists import LONG_LISTS
from service.architecture.model import ModelArchitecture
from service.architecture.quantization import Quantization
from service.architecture.weight_schemes import WeightScheme
from service.kv_cache.specs import AttentionSpec, CacheKind, SpecLayers, StateSpec
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.parameters import layer_modules_of, layer_tensors
from service.memory.weights.modules import Experts, Linear, Module, PlainModule
from service.speed.multiplication import Precision, is_unpacked, multiplied_as

OPERATIONS_PER_ELEMENT = 2
"""A multiplication and an addition for each element of a matrix and each token."""
HALF_BITS = 16
BYTE_BITS = 8
READ_AND_WRITTEN = 2
"""A recurrent state is read and written in each step."""


@dataclass(frozen=True, slots=True)
class ExpertReads:
    """The routed experts of equal layers on one rank."""

    layers: int
    on_rank: int
    """Experts of one layer that the rank holds, whole or a slice of each."""
    total: int
    """Experts of one layer of the model."""
    per_token: int
    """Experts that each token is routed to."""
    bytes_each: float
    """Bytes of one expert on the rank."""
    elements_each: int
    precision: Precision
    repacked: bool
    """Whether a kernel unpacks weights of fewer bits than it computes in."""

    @property
    def operations(self) -> float:
        """Operations of all these layers for one token of any rank, on average over the ranks."""
        share = self.per_token * self.on_rank / self.total
        return self.layers * OPERATIONS_PER_ELEMENT * self.elements_each * share

    def touched(self, tokens: float) -> float:
        """Return how many experts of one layer a batch is routed to on this rank, if routing is uniform."""
        missed: float = (1 - self.per_token / self.total) ** tokens
        return self.on_rank * (1 - missed)


@dataclass(frozen=True, slots=True)
class CacheReads:
    """The caches of equal layers on one rank."""

    layers: int
    bytes_per_token: float
    most_tokens: int | None = None
    """Tokens that a query reads at most (a window, a chunk or a sparse selection); ``None`` is all."""

    def bytes_of(self, context: float) -> float:
        """Return the bytes that one request's query reads with so many tokens before it."""
        read = context if self.most_tokens is None else min(context, self.most_tokens)
        return self.layers * self.bytes_per_token * read


@dataclass(frozen=True, slots=True)
class AttentionWork:
    """Operations of equal attention layers for one token, by the tokens it attends to."""

    layers: int
    operations_per_pair: float
    """Operations of a rank for one query and one token before it, with the kernels of a prompt."""
    most_tokens: int | None = None

    def operations(self, context: float) -> float:
        """Return the operations of a query with so many tokens before it."""
        read = context if self.most_tokens is None else min(context, self.most_tokens)
        return self.layers * self.operations_per_pair * read


@dataclass(frozen=True, slots=True)
class StepWork:
    """What one rank reads and computes in a step. All bytes are of one rank, over all pipeline stages."""

    dense_bytes: float
    """Weights that every step reads whole: attention, dense and shared networks, routers, norms."""
    head_bytes: float
    """The output head."""
    experts: tuple[ExpertReads, ...]
    caches: tuple[CacheReads, ...]
    state_bytes: float
    """Recurrent states of one request, read and written."""
    operations: tuple[tuple[Precision, float], ...]
    """Operations of dense matrices for one token, by the precision of the multiplication."""
    head_operations: float
    attention: tuple[AttentionWork, ...]
    layers: int
    expert_layers: int
    recurrent_layers: int
    hidden_size: int
    tensor_parallel_size: int
    pipeline_parallel_size: int
    data_parallel_size: int
    expert_parallel: bool

    @property
    def exchanges(self) -> bool:
        """Whether ranks exchange in every layer."""
        return self.tensor_parallel_size > 1 or (self.data_parallel_size > 1 and self.expert_layers > 0)

    @property
    def exchanging_ranks(self) -> int:
        """Ranks that exchange with each other in a layer."""
        ranks = self.tensor_parallel_size
        return ranks * self.data_parallel_size if self.expert_layers else ranks

    def expert_bytes(self, tokens: float) -> float:
        """Return the bytes of routed experts that a batch of so many tokens of all ranks touches."""
        return sum(each.layers * each.touched(tokens) * each.bytes_each for each in self.experts)

    def cache_bytes(self, context: float) -> float:
        """Return the bytes of the cache that one request of this context reads."""
        return sum(each.bytes_of(context) for each in self.caches)


def step_work(
    architecture: ModelArchitecture,
    parallelism: Parallelism,
    release: Version,
    caches: tuple[tuple[SpecLayers, ...], ...],
) -> StepWork:
    """Return the work of one rank; ``caches`` are the layers that own a cache, per pipeline stage."""
    weights = _without_caches(architecture, parallelism, release)
    return replace(
        weights, caches=tuple(_cache_reads(architecture, caches)), state_bytes=_state_bytes(caches)
    )


@LONG_LISTS.emptied
@lru_cache(maxsize=256)
def _without_caches(architecture: ModelArchitecture, parallelism: Parallelism, release: Version) -> StepWork:
    """Return the work that the weights and the layers alone decide."""
    layers, shards = architecture.layers, parallelism.shards
    passes = len(layers) / sum(not layer.repeats for layer in layers)
    sizes = layer_tensors(architecture, parallelism, release)
    modules = layer_modules_of(architecture, parallelism, release)
    dense, operations = 0.0, Counter[Precision]()
    experts: Counter[ExpertReads] = Counter()
    for layer, built, named in zip(layers, modules, sizes, strict=False):
        for module, (_, size) in zip(built, named, strict=True):
            precision, repacked = _precision(module, size, architecture.quantization, parallelism)
            if isinstance(module, Experts):
                experts[_expert_reads(layer, module, size, precision, repacked=repacked)] += 1
                continue
            dense += size
            operations[precision] += OPERATIONS_PER_ELEMENT * _elements(module)
    head = shards.vocabulary(architecture.vocab_size) * (
        architecture.ends.embedding_size or architecture.hidden_size
    )
    return StepWork(
        dense_bytes=dense * passes,
        head_bytes=head * parallelism.element_bytes(architecture),
        experts=tuple(replace(each, layers=round(count * passes)) for each, count in experts.items()),
        caches=(),
        state_bytes=0,
        operations=tuple((precision, count * passes) for precision, count in operations.items() if count),
        head_operations=OPERATIONS_PER_ELEMENT * head,
        attention=tuple(_attention(architecture, shards.tensor_parallel_size)),
        layers=len(layers),
        expert_layers=sum(isinstance(layer.feed_forward, MixtureOfExperts) for layer in layers),
        recurrent_layers=len(architecture.recurrent_layers),
        hidden_size=architecture.hidden_size,
        tensor_parallel_size=parallelism.tensor_parallel_size,
        pipeline_parallel_size=parallelism.pipeline_parallel_size,
        data_parallel_size=parallelism.data_parallel_size,
        expert_parallel=parallelism.enable_expert_parallel,
    )


def _expert_reads(
    layer: DecoderLayer, module: Experts, size: int, precision: Precision, *, repacked: bool
) -> ExpertReads:
    network = layer.feed_forward
    if not isinstance(network, MixtureOfExperts):  # a bank of experts that a dense layer names
        raise TypeError(f"{module.name} has experts and no router")
    return ExpertReads(
        layers=1,
        on_rank=module.count,
        total=network.num_experts,
        per_token=min(network.experts_per_token, network.num_experts),
        bytes_each=size / module.count,
        elements_each=module.elements,
        precision=precision,
        repacked=repacked,
    )


def _elements(module: Module) -> int:
    match module:
        case Linear():
            return module.inputs * sum(module.outputs)
        case PlainModule():
            return module.elements if module.outputs else 0
        case _:
            return 0


def _precision(
    module: Module, size: int, quantization: Quantization | None, parallelism: Parallelism
) -> tuple[Precision, bool]:
    """Return how a module is multiplied, and whether its weights are unpacked to wider types first."""
    elements = module.count * module.elements if isinstance(module, Experts) else _elements(module)
    if quantization is None or not elements or size * BYTE_BITS > (HALF_BITS - 2) * elements:
        return Precision.HALF, False
    scheme = _scheme_of(module, quantization)
    if scheme is None:
        return Precision.HALF, True
    capability = parallelism.compute_capability
    return multiplied_as(scheme, capability), is_unpacked(scheme, capability)


def _scheme_of(module: Module, quantization: Quantization) -> WeightScheme | None:
    if isinstance(module, Experts) and quantization.expert_scheme is not None:
        return quantization.expert_scheme
    return next((group.scheme for group in quantization.schemes if group.scheme is not None), None)


def _cache_reads(
    architecture: ModelArchitecture, stages: tuple[tuple[SpecLayers, ...], ...]
) -> Iterator[CacheReads]:
    """Yield what a query reads of the caches, layers that read another layer's cache included."""
    readers, layers = _readers(architecture), architecture.layers
    for cache in (each for stage in stages for each in stage):
        spec = cache.spec
        if not isinstance(spec, AttentionSpec):
            continue
        size, own = _token_bytes(spec), tuple(index for index in cache.indices if index < len(layers))
        alike = Counter(layers[index] for index in own) if _selects(architecture) else {}
        if not alike:
            count = len(own) + (sum(readers[index] for index in own) if readers else 0)
            yield CacheReads(count, size, spec.sliding_window or spec.attention_chunk_size)
        for layer, count in alike.items():
            yield CacheReads(count, size, _most_tokens(spec, layer.mixer))


@LONG_LISTS.emptied
@lru_cache(maxsize=64)
def _readers(architecture: ModelArchitecture) -> Counter[int]:
    """Return how many other layers read the cache of a layer, by its index."""
    return Counter(
        mixer.shares_cache_of
        for _, mixer in architecture.attention_layers
        if isinstance(mixer, Attention) and mixer.shares_cache_of is not None
    )


@LONG_LISTS.emptied
@lru_cache(maxsize=64)
def _selects(architecture: ModelArchitecture) -> bool:
    """Whether indexers select the tokens that some layers read."""
    return any(getattr(mixer, "indexer", None) is not None for _, mixer in architecture.attention_layers)


def _token_bytes(spec: AttentionSpec) -> float:
    return spec.bytes_per_token / spec.tokens_per_state


def _most_tokens(spec: AttentionSpec, mixer: Mixer) -> int | None:
    """Return the tokens of a cache that one query reads at most: an indexer's keys are all read."""
    indexer = getattr(mixer, "indexer", None)
    if indexer is not None and spec.kind is CacheKind.MLA_ATTENTION and spec.head_size == _mla_width(mixer):
        return int(indexer.top_k)
    return spec.sliding_window or spec.attention_chunk_size


def _mla_width(mixer: Mixer) -> int:
    """Return the elements that MLA caches for a token; 0 for other mixers."""
    return mixer.head_size if isinstance(mixer, MultiHeadLatentAttention) else 0


def _state_bytes(stages: tuple[tuple[SpecLayers, ...], ...]) -> float:
    return sum(
        READ_AND_WRITTEN * cache.count * cache.spec.state_bytes
        for stage in stages
        for cache in stage
        if isinstance(cache.spec, StateSpec)
    )


def _attention(architecture: ModelArchitecture, ranks: int) -> Iterator[AttentionWork]:
    found: Counter[AttentionWork] = Counter()
    for index, mixer in architecture.attention_layers:
        if index < len(architecture.layers):
            found[_pair_work(mixer, ranks)] += 1
    for work, count in found.items():
        yield replace(work, layers=count)


def _pair_work(mixer: TokenMixer, ranks: int) -> AttentionWork:
    match mixer:
        case Attention():
            width = mixer.head_size + mixer.head_size_v
            window = mixer.sliding_window or mixer.attention_chunk_size
        case MultiHeadLatentAttention():
            width = mixer.qk_nope_head_dim + mixer.qk_rope_head_dim + mixer.weights.v_head_dim
            window = mixer.sliding_window or (None if mixer.indexer is None else mixer.indexer.top_k)
        case SharedCompressedAttention():
            width, window = 2 * mixer.head_size, mixer.sliding_window + mixer.selected_tokens
        case _:
            width, window = 2 * mixer.head_size, None
    heads = mixer.num_heads / ranks
    return AttentionWork(1, OPERATIONS_PER_ELEMENT * heads * width, window)
