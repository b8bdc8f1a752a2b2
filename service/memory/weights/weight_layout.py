"""Which weights a release builds, as dated data."""

from dataclasses import dataclass
from functools import cache

from packaging.version import Version

from service.memory.dated_groups import group_at
from service.memory.ranges import for_capability


@dataclass(frozen=True, slots=True)
class Rounding:
    """Multiples to which a kernel rounds up the sizes of an expert, in elements."""

    capability: tuple[int, int]
    """Least compute capability that runs this kernel."""
    hidden: int
    intermediate: int


@dataclass(frozen=True, slots=True)
class DecoderLayout:
    """Which modules a decoder layer has."""

    shared_cache_projections: bool
    """Layers that read another layer's cache have key and value projections of their own."""
    fused_indexer_keys: bool
    """The indexer of sparse MLA projects keys and weights in one matrix, which is never quantized."""
    widened_experts: bool
    """Experts with a least width have it on every rank that tensor parallelism splits them over."""
    float32_router_kernels: frozenset[tuple[int, int]]
    """Compute capabilities whose kernels compute a router in 32 bits from a matrix of 16."""

    quantized_short_convolutions: bool
    """The projections of short convolutions (LFM2) are quantized; if not, they are built unquantized."""
    whole_state_gates: frozenset[str]
    """Methods of which each rank has the whole matrix of the gates of gated delta nets."""
    split_modern_gates: bool
    """The first matrix of ModernBERT's feed-forward networks is split over the ranks."""
    quantized_routers: frozenset[str]
    """Classes whose routers are quantized unless the checkpoint excludes them."""
    padded_shared_experts: frozenset[str]
    """Classes whose shared experts are padded, so that each rank has whole blocks that share a scale."""
    split_ngram_projections: bool
    """The projection of n-gram embeddings (DeepSeek V4.1) is split over the ranks."""
    plain_outputs: frozenset[str]
    """Classes that build the output embedding without the checkpoint's quantization."""
    unmapped_classes: frozenset[str]
    """Classes whose fused projections are not matched by the names of their parts."""
    whole_layers: frozenset[str]
    """Classes whose layers every rank has in full."""
    split_single_key_heads: bool
    """Ranks share the attention of such layers where it has one key head."""

    def float32_routers(self, capability: tuple[int, int]) -> bool:
        """Whether the matrix of a router that computes in 32 bits is stored in 32 bits on a GPU."""
        return capability not in self.float32_router_kernels


@dataclass(frozen=True, slots=True)
class QuantizedLayout:
    """In which form modules of a quantized checkpoint are built, and how experts are rounded up."""

    weight_only_nvfp4: bool
    """Layers that a mixed ModelOpt checkpoint stores in W4A16_NVFP4 are quantized."""
    mixed_text_names: bool
    """A mixed ModelOpt checkpoint may name the text model as checkpoints do, whatever its class maps."""
    mixed_mxfp8: bool
    """Layers that a mixed ModelOpt checkpoint stores in MXFP8 are quantized."""
    names_every_layer: bool
    """A linear layer that no group of compressed-tensors is for, and no list leaves, is refused."""
    checkpoint_names: bool
    """Lists of compressed-tensors name the projections of experts as the model's checkpoints do."""
    fused_names: bool
    """A list that holds names alone may name a fused module itself, and not only its projections."""
    exceptions_by_ends: bool
    """AutoRound's ``extra_config`` names modules by the last parts of their names too."""
    quantized_output: bool
    """An output embedding that ModelOpt does not exclude is quantized."""
    named_output: bool
    """An output embedding that a group of compressed-tensors names is quantized."""
    activation_order_indices: bool
    """Group-quantized experts and GPTQ layers always have indices of the activation order; where a checkpoint
    uses it, layers split by their inputs have the scales of all ranks' inputs.
    """
    repeated_named_orders: bool
    """Experts of compressed-tensors have the scales of all ranks' inputs whatever order the config names."""
    w4a8_channel_scales: bool
    """Experts with integers of four bits and activations of eight have a scale for each output too."""
    rounded_w4a8_experts: bool
    """MXFP4 experts of compressed-tensors with activations of eight bits are rounded up for their kernel."""
    padded_marlin_experts: bool
    """Widths of AWQ and GPTQ experts that are no multiple of a kernel's tile are padded after loading."""
    weighed_marlin_experts: bool
    """Marlin takes AWQ and GPTQ experts whose scores multiply their inputs."""
    gptq_expert_biases: bool
    """GPTQ experts on Marlin kernels have biases even if the model has none."""
    gptq_zero_points_as_scales: bool
    """Zero points of such experts have the type of their scales, not words of 32 bits."""
    doubled_experts: frozenset[str]
    """Methods of which experts without a gate have room for one all the same."""
    declared_nvfp4_experts: bool
    """Experts that a DeepSeek V4 checkpoint stores in NVFP4 are built in it; else in MXFP4."""
    mxfp4_rounding: tuple[Rounding, ...]
    unquantized_rounding: tuple[Rounding, ...]

    def rounding(self, capability: tuple[int, int], *, mxfp4: bool) -> Rounding:
        """Return how experts in MXFP4, or unquantized ones, are rounded up on a GPU."""
        return for_capability(self.mxfp4_rounding if mxfp4 else self.unquantized_rounding, capability)


@dataclass(frozen=True, slots=True)
class StageLayout:
    """Which modules outside the decoder layers a pipeline stage has."""

    towers_on_every_stage: bool
    """Every stage builds the vision tower, not only the first."""
    sharded_positions: bool
    """SigLIP's learned positions are split over the ranks like a vocabulary."""
    plain_outputs: frozenset[str]
    """Classes whose output embedding is not quantized, whatever the checkpoint's config says."""
    split_roberta_tables: bool
    """RoBERTa's positions and token types are padded and split over the ranks like a vocabulary."""
    pooler_in_head_dtype: bool
    """The layer between pooling and classifier has the type of the head, not that of the model."""
    tied_when_unset: frozenset[str]
    """Classes whose output is tied to the embedding when the config leaves ``tie_word_embeddings`` out."""
    quantized_tied_outputs: bool
    """A quantized output that is tied to the embedding keeps its own weights too."""
    embedding_as_output: frozenset[str]
    """Classes that have no output layer: the embedding is it."""
    keeps_own_output: bool
    """An output layer that the checkpoint brings is kept where it differs from the embedding."""
    transformers_classes: frozenset[str]
    """Classes that run on the transformers backend, which has no rotary tables."""


@dataclass(frozen=True, slots=True)
class DraftLayout:
    """Which modules a draft has."""

    shared_predictor_heads: bool
    """Prediction layers with an output of their own use the model's output instead."""
    shared_equal_outputs: bool
    """A draft whose output equals the model's uses the model's."""
    split_markov_tables: bool
    """The tables of a DSpark draft's Markov head are split over the ranks."""
    confidence_heads: bool
    """A DSpark draft of DeepSeek V4 builds the head that predicts its confidence."""
    stacked_context_keys: bool
    """Such a draft stores the key projections of its layers a second time, as one matrix."""


@dataclass(frozen=True, slots=True)
class TowerLayout:
    """Which encoders are built where flags allow a prompt no images, videos or sounds."""

    always_built: frozenset[str]
    """Classes that build their encoders whatever the limits of a prompt are."""
    images_alone: frozenset[str]
    """Classes whose encoder is left out by the limit of images; others' by those of images and videos."""
    chunked: frozenset[str]
    """Classes whose images and videos are one modality, ``vision_chunk``."""
    unquantized: frozenset[str]
    """Classes whose encoders are never quantized."""
    left_by_compressed_tensors: frozenset[str]
    """Classes whose encoders compressed-tensors leaves unquantized."""
    whole: frozenset[str]
    """Classes whose encoders every rank has in full."""

    def quantizes(self, class_name: str, *, compressed_tensors: bool) -> bool:
        """Whether a class passes a checkpoint's quantization to its encoders."""
        left = self.left_by_compressed_tensors if compressed_tensors else frozenset[str]()
        return class_name not in self.unquantized | left


@dataclass(frozen=True, slots=True)
class WeightLayout:
    """Which weights one release builds."""

    decoder: DecoderLayout
    quantized: QuantizedLayout
    stages: StageLayout
    drafts: DraftLayout
    towers: TowerLayout

    def representative(self, capability: tuple[int, int]) -> tuple[int, int]:
        """Return a compute capability on which the release builds the same weights.

        It is the same for most GPUs, so sizes that are cached by it are computed once for all of these.
        """
        roundings = (*self.quantized.mxfp4_rounding, *self.quantized.unquantized_rounding)
        step = max((each.capability for each in roundings if each.capability <= capability), default=(0, 0))
        same_routers = self.decoder.float32_routers(step) == self.decoder.float32_routers(capability)
        return step if same_routers else capability


@cache
def weight_layout_at(release: Version) -> WeightLayout:
    """Return which weights a release builds.

    Raises:
        LookupError: the release is older than the first dated change.
    """
    data = "weights/weight_layout.toml"
    return WeightLayout(
        decoder=group_at(DecoderLayout, release, data, "decoder"),
        quantized=group_at(QuantizedLayout, release, data, "quantized"),
        stages=group_at(StageLayout, release, data, "stages"),
        drafts=group_at(DraftLayout, release, data, "drafts"),
        towers=group_at(TowerLayout, release, data, "towers"),
    )
