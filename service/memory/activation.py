"""The peak of the profile run: one forward pass at full length, and the sampler after it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, assert_never

from service.architecture.layers.attention import Attention, NoAttention
from service.architecture.layers.compressed_attention import CompressedAttention
from service.architecture.layers.decoder_layer import DecoderLayer, Mixer
from service.architecture.layers.experts import MixtureOfExperts
from service.architecture.layers.feed_forward import DenseFeedForward, NoFeedForward
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.layers.recurrence import (
    GatedDeltaNet,
    GroupedLinearAttention,
    KimiDeltaAttention,
    KimiK3DeltaAttention,
    LinearAttention,
    Mamba,
    Mamba2,
    NgramConvolution,
    Recurrence,
    ShortConvolution,
)
from service.architecture.long_lists import LONG_LISTS
from service.architecture.model import ModelArchitecture
from service.memory.budget_types import Basis, Estimate
from service.memory.compressed_spaces import (
    CompressedRun,
    compressed_mixers,
    compressed_peak,
    gathered_bytes,
)
from service.memory.dequantized import dequantizing_elements
from service.memory.encoders import EncoderConstants, encoders, takes_media
from service.memory.expert_spaces import (
    expert_width,
    gathered,
    has_two_work_spaces,
    keeps_work_space,
    kernel_work_spaces,
    quantized_width,
    sorted_copies,
)
from service.memory.interval import (
    around,
    exact,
    from_range,
    total,
)
from service.memory.mega_moe import exchanges_in_kernel
from service.memory.profile_run import ProfileRun
from service.memory.ranges import MibRange, Range
from service.memory.rejection import RejectionRun
from service.memory.shards import Shards
from service.memory.weights.schemes.quantized import FLOAT32
from service.units import MIB

INT32: Final = 4

MLA_CONTEXTS: Final = 8
MLA_TOKENS: Final = 64 * 1024
"""Contexts, and the most tokens, whose keys MLA gathers at once."""
BESIDE_TIMED: Final = 20 * MIB
"""What is there beside the copies while kernels are timed: three logged peaks are 0.01 to 0.03 GiB more."""
NO_COPY: Final = Estimate(0, 0, 0, Basis.COMPUTED, "no code that is compiled anew reads the embedding")


@dataclass(frozen=True, slots=True)
class ActivationConstants:
    """Dated constants of the profile run. A name ends in ``v1`` or ``v2`` if it is for one model runner."""

    sampler_copies_v1: Range
    """Float32 copies of all logits that the sampler holds at once, beside the logits in the model's dtype."""
    sampler_copies_v2: Range
    rejection_v1: RejectionRun | None
    """What the rejection sampler takes with draft tokens; ``None`` where it is less than the sampler."""
    base_mib_v1: MibRange
    """Added to the computed peak."""
    base_mib_v2: MibRange
    keeps_experts: bool
    """The experts' work space is still there when the sampler runs."""
    keeps_projections: bool
    """Compiled code keeps what a gated delta net projected, and its output, while the next network runs."""
    two_work_spaces: frozenset[str]
    """Formats of experts whose kernels take two work spaces of whole rows from one pool."""
    indexer_contexts: int
    """Contexts for whose keys the indexer of sparse attention reserves room in the same work space."""
    encodes_v2: bool
    """The V2 model runner runs the encoders before it profiles the decoder."""
    compiling_copies: Range
    """Copies of a rank's embedding that are there while the model is compiled; none where it was compiled
    before.
    """
    charges_counts_v2: bool
    """The profile run is charged for the table in which the V2 model runner's sampler counts tokens."""
    recurrent_mib: MibRange
    """Work space of gated delta nets."""
    compressed: CompressedRun
    """How layers with compressed attention run."""
    compressed_mib: MibRange
    """Beside what is computed of such layers."""
    spread_percent_v1: tuple[float, float]
    """Percent by which the computed peak may be off: below, above."""
    spread_percent_v2: tuple[float, float]
    sources: Mapping[str, str]

    def base_mib(self, *, v2: bool) -> MibRange:
        """Return what a model runner's peak has beside what is computed."""
        return self.base_mib_v2 if v2 else self.base_mib_v1


def activation(
    architecture: ModelArchitecture,
    constants: ActivationConstants,
    encoder_constants: EncoderConstants,
    run: ProfileRun,
) -> Estimate:
    """Return the peak of the profile run on one rank, in bytes, without weights."""
    v2 = run.v2_model_runner
    copies = constants.sampler_copies_v2 if v2 else constants.sampler_copies_v1
    least, peak, most = (
        _peak(architecture, run, each if run.samples else None, constants)
        for each in (copies.low, copies.middle, copies.high)
    )
    below, above = constants.spread_percent_v2 if v2 else constants.spread_percent_v1
    source = constants.sources["sampler_copies_v2" if v2 else "sampler_copies_v1"]
    base = constants.base_mib(v2=v2)
    terms = [
        around(peak, least * (1 - below / 100), most * (1 + above / 100), Basis.COMPUTED, source),
        from_range(base, Basis.CALIBRATED, constants.sources["base_mib_v2" if v2 else "base_mib_v1"]),
    ]
    workspace = _attention_workspace(architecture, run)
    terms.append(exact(workspace, Basis.COMPUTED, "work space of attention, in closed form from the config"))
    if v2 and run.samples and constants.charges_counts_v2:
        counts = _token_counts(architecture, run)
        terms.append(exact(counts, Basis.COMPUTED, constants.sources["charges_counts_v2"]))
    terms.append(compiled_copy(architecture, constants, run))
    if run.encodes and (constants.encodes_v2 or not v2):
        beside, *_ = base.bytes
        terms.extend(encoders(architecture, encoder_constants, run, peak + beside))
    if architecture.is_recurrent:
        terms.append(from_range(constants.recurrent_mib, Basis.ASSUMED, constants.sources["recurrent_mib"]))
    if compressed_mixers(architecture):
        terms.append(from_range(constants.compressed_mib, Basis.ASSUMED, constants.sources["compressed_mib"]))
    two = has_two_work_spaces(architecture, constants.two_work_spaces, run)
    others = (gathered(architecture, run, two=two), kernel_work_spaces(architecture, run, two=two))
    terms.extend(each for each in others if each is not None)
    return total(terms, source)


def compiled_copy(
    architecture: ModelArchitecture, constants: ActivationConstants, run: ProfileRun
) -> Estimate:
    """Return by how much the peak is higher where the compiler times kernels that read the embedding.

    It times them before the forward pass, on random tensors in the shape of what they read. The peak is that
    of the forward pass or of these tensors, whichever is larger; what is copied more than once stays.
    A model that takes media is given rows of its embedding and is compiled without it; where all media are
    turned off, it is given tokens, and its compiled code reads the embedding like that of a text model.

    Source: vLLM 0.19.0 to 0.33.0, CompilationConfig (benchmark_combo_kernel) and supports_multimodal_inputs;
    PyTorch 2.9 to 2.13, _inductor/codegen/triton_combo_kernel.py codegen_kernel_benchmark, get_args.
    """
    copies, source = constants.compiling_copies, constants.sources["compiling_copies"]
    if not run.compiles_embedding or takes_media(architecture, run) or not copies.high:
        return NO_COPY
    sampler = constants.sampler_copies_v2 if run.v2_model_runner else constants.sampler_copies_v1
    middle_base, least_base, _ = constants.base_mib(v2=run.v2_model_runner).bytes
    least, peak = (
        _peak(architecture, run, each if run.samples else None, constants) + base
        for each, base in ((sampler.low, least_base), (sampler.middle, middle_base))
    )
    width = architecture.ends.embedding_size or architecture.hidden_size
    embedding = run.shards.vocabulary(architecture.vocab_size) * width * run.element_bytes
    timed = embedding + BESIDE_TIMED
    middle, high = (
        min(1.0, share) * max(0, timed - other) + max(0.0, share - 1) * embedding
        for share, other in ((copies.middle, peak), (copies.high, least))
    )
    low = copies.low * max(0, timed - peak)
    return around(middle, min(low, middle), max(high, middle), Basis.CALIBRATED, source)


def _peak(
    architecture: ModelArchitecture,
    run: ProfileRun,
    sampler_copies: float | None,
    constants: ActivationConstants,
) -> int:
    """Return the peak of the forward pass or of the sampler, whichever is larger.

    ``sampler_copies``: float32 copies of the logits; ``None`` on a rank that does not sample.
    """
    token_bytes = run.tokens * run.element_bytes
    two = has_two_work_spaces(architecture, constants.two_work_spaces, run)
    keeps = constants.keeps_projections and run.compiled
    widest_layer, widest_experts = _widths(architecture, run.shards, two, keeps)
    experts = 0 if exchanges_in_kernel(run) else token_bytes * widest_experts
    experts = max(experts, indexer_bytes(architecture, constants, run))
    layer = token_bytes * widest_layer
    if compressed_mixers(architecture):
        experts = max(experts, gathered_bytes(architecture, constants.indexer_contexts, run))
        layer = max(layer, compressed_peak(architecture, constants.compressed, run))
    forward = layer + experts + sorted_copies(architecture, run)
    forward = max(forward, run.element_bytes * dequantizing_elements(architecture, run))
    if sampler_copies is None:
        return forward
    logit_bytes = sampler_copies * FLOAT32 + run.element_bytes
    rejection = constants.rejection_v1
    if rejection is not None and run.draft_tokens and not run.v2_model_runner:
        logit_bytes = max(logit_bytes, rejection.bytes_per_logit(sampler_copies, run.element_bytes))
    logits = round(min(run.sequences, run.tokens) * architecture.vocab_size * logit_bytes)
    kept = constants.keeps_experts and keeps_work_space(architecture, constants.two_work_spaces)
    kept = kept or bool(compressed_mixers(architecture))
    still_there = experts if kept else 0
    return max(forward, logits + token_bytes * architecture.hidden_size + still_there)


@LONG_LISTS.emptied
@lru_cache(maxsize=256)
def _widths(architecture: ModelArchitecture, shards: Shards, two: bool, keeps: bool) -> tuple[int, int]:
    """Return the elements per token of the widest layer, and of the widest experts' work space."""
    layers = architecture.distinct_layers
    widths = [layer_width(layer, architecture, shards, keeps=keeps) for layer in layers]
    if two:
        copies = max(quantized_width(layer, architecture, shards) for layer in layers)
        widths.append(_residual_width(architecture) + copies)
    return (
        max(widths),
        max(expert_width(layer, architecture, shards, two=two) for layer in layers),
    )


def _attention_workspace(architecture: ModelArchitecture, run: ProfileRun) -> int:
    """Return the bytes of the work space in which MLA gathers the keys of earlier tokens.

    Source: vLLM 0.19.0, MLACommonMetadataBuilder.
    """
    sizes = [0]
    for mixer in (layer.mixer for layer in architecture.distinct_layers):
        if isinstance(mixer, MultiHeadLatentAttention):
            tokens = min(MLA_CONTEXTS * run.length, MLA_TOKENS)
            sizes.append(tokens * mixer.head_size)
    return max(sizes) * run.element_bytes


def indexer_bytes(architecture: ModelArchitecture, constants: ActivationConstants, run: ProfileRun) -> int:
    """Return the bytes in which the indexer of sparse MLA gathers keys; experts work in the same room.

    A key takes a byte for each element, and four for its scale. Source: vLLM 0.13.0 to 0.33.0,
    get_max_prefill_buffer_size, and sparse_attn_indexer without metadata (the profile run).
    """
    sizes = [0]
    for mixer in (layer.mixer for layer in architecture.distinct_layers):
        if isinstance(mixer, MultiHeadLatentAttention) and mixer.indexer is not None:
            rows = constants.indexer_contexts * run.length // mixer.indexer.group_size
            sizes.append(rows * (mixer.indexer.head_dim + FLOAT32))
    return max(sizes)


def _token_counts(architecture: ModelArchitecture, run: ProfileRun) -> int:
    """Return the bytes of the sampler's tables: a count of each token, and a bit whether the prompt has it.

    Source: vLLM 0.27.0, v1/worker/gpu/sample/penalties.py PenaltiesState: 32-bit words.
    """
    words = architecture.vocab_size + -(-architecture.vocab_size // 32)
    return run.sequences * words * INT32


def _residual_width(architecture: ModelArchitecture) -> int:
    mixing = architecture.hyper_connections
    return 2 * architecture.hidden_size * (1 if mixing is None else mixing.copies)


def layer_width(
    layer: DecoderLayer, architecture: ModelArchitecture, shards: Shards, *, keeps: bool = False
) -> int:
    """Return the elements per token that are alive at once in a layer, the residual stream included.

    A gated delta net is an operation between two compiled pieces. The second, which has the feed-forward
    network, is called with the net's output and its gate, a view of all that was projected: both stay until
    it returns (``keeps``). Without compiling they go when the mixer returns.
    """
    match layer.mixer:
        case Attention() as mixer:
            heads = shards.share(mixer.num_heads)
            keys = shards.kv_heads(mixer.num_kv_heads) * (mixer.head_size + mixer.head_size_v)
            mixed = heads * (mixer.head_size + mixer.head_size_v) + keys
        case MultiHeadLatentAttention() as mixer:
            heads = shards.share(mixer.num_heads)
            sizes = mixer.qk_nope_head_dim + mixer.qk_rope_head_dim + mixer.weights.v_head_dim
            mixed = heads * 2 * sizes
        case CompressedAttention():
            mixed = 0  # compressed_peak counts it
        case NoAttention():
            mixed = 0
        case mixer:
            mixed = _recurrent_width(mixer, shards)
    if layer.beside is not None:
        mixed += _recurrent_width(layer.beside, shards)
    kept = _delta_width(layer.mixer, shards) if keeps else 0
    return _residual_width(architecture) + max(mixed, kept + _dense_width(layer, shards))


def _delta_width(mixer: Mixer, shards: Shards) -> int:
    """Return the elements per token of what a gated delta net projects, and of its output.

    That of OLMo hybrid is one operation with its projections (olmo_hybrid_gdn_full_forward), and keeps none.
    """
    if not isinstance(mixer, GatedDeltaNet) or mixer.separate_projections:
        return 0
    values = mixer.num_value_heads * mixer.value_head_dim
    return shards.share(2 * mixer.num_key_heads * mixer.key_head_dim + 3 * values)


def _recurrent_width(mixer: Recurrence, shards: Shards) -> int:
    """Return the elements per token of a recurrent mixer: its projections, and their convolved copy."""
    match mixer:
        case GatedDeltaNet():
            keys = mixer.num_key_heads * mixer.key_head_dim
            projected = 2 * keys + 2 * mixer.num_value_heads * mixer.value_head_dim
        case KimiDeltaAttention() | KimiK3DeltaAttention():
            projected = 4 * mixer.num_heads * mixer.head_dim
        case Mamba():
            projected = 2 * mixer.intermediate_size
        case Mamba2():
            projected = 2 * (mixer.intermediate_size + mixer.num_groups * mixer.state_size)
        case ShortConvolution():
            projected = 3 * mixer.channels
        case NgramConvolution():
            return 4 * mixer.channels
        case LinearAttention() | GroupedLinearAttention():
            projected = 4 * mixer.num_heads * mixer.head_dim
        case _:
            assert_never(mixer)
    return 2 * shards.share(projected)


def _dense_width(layer: DecoderLayer, shards: Shards) -> int:
    match layer.feed_forward:
        case DenseFeedForward() as network:
            return 3 * shards.share(network.intermediate_size)
        case MixtureOfExperts() as network:
            beside = network.parallel_dense.intermediate_size if network.parallel_dense else 0
            return 3 * shards.share(max(network.shared_intermediate_size, beside))
        case NoFeedForward():
            return 0
    assert_never(layer.feed_forward)
