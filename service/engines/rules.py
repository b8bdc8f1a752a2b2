"""What one release does, as plain values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final

from packaging.version import Version

from service.engines.cases import (
    ActivationTypes,
    BatchDefaults,
    KernelBlock,
    LatentBlock,
    QuantizationOverride,
    RowAlignedBlock,
    StateCheckpoint,
)


class ParamsFile(StrEnum):
    """When a model is read by its params.json, Mistral's own format."""

    WITHOUT_CONFIG = "without_config"
    """Where there is no config.json."""
    FIRST = "first"
    """Wherever there is one."""
    WITH_CONSOLIDATED_WEIGHTS = "with_consolidated_weights"
    """Beside weights in Mistral's own files alone."""


class CheckpointScheme(StrEnum):
    """What a compressed-tensors ``kv_cache_scheme`` does to the cache dtype."""

    IGNORED = "ignored"
    ALWAYS_FP8 = "always_fp8"
    FP8_WHEN_AUTO = "fp8_when_auto"


class E5m2Gate(StrEnum):
    """Which quantized checkpoints refuse ``fp8_e5m2``."""

    ANY_CACHE_METHOD = "any_cache_method"
    UNLESS_COMPRESSED_TENSORS_WITHOUT_SCHEME = "unless_compressed_tensors_without_scheme"


class BlockSizeChoice(StrEnum):
    """How the block size is found when none is given."""

    BEFORE_BACKENDS = "before_backends"
    FIRST_BACKEND = "first_backend"
    ALL_BACKENDS = "all_backends"


class HybridBlockSize(StrEnum):
    """When the attention block of a hybrid is aligned with the recurrent state."""

    BEFORE_BACKENDS = "before_backends"
    FORGOTTEN = "forgotten"
    """Aligned as before, but blocks fall back to the default unless a size was asked for."""
    BY_BACKEND = "by_backend"


class SlidingWindowBlock(StrEnum):
    """Block size of sliding-window layers before unification."""

    MODEL = "model"
    SMALLEST_KERNEL = "smallest_kernel"
    PAGE_BUDGET = "page_budget"


class PageUnification(StrEnum):
    """What happens to a layer whose page is smaller than the largest."""

    NONE = "none"
    DIVIDE = "divide"
    DIVIDE_OR_PAD_STRIDED = "divide_or_pad_strided"
    DIVIDE_OR_PAD_STRIDED_AND_STATES = "divide_or_pad_strided_and_states"
    DIVIDE_OR_PAD_UNLESS_LATENT = "divide_or_pad_unless_latent"
    DIVIDE_OR_PAD_TO_DIVISOR = "divide_or_pad_to_divisor"
    """Pull request 40391: grow the page to the next divisor of the largest, then scale the block."""
    DIVIDE_OR_PAD_TO_COMMON_MULTIPLE = "divide_or_pad_to_common_multiple"
    """Pull request 40128: grow recurrent pages to the next multiple of the others' pages."""


class PackedGroups(StrEnum):
    """How layers with pages of several sizes are grouped (DeepSeek V4)."""

    NONE = "none"
    LATENT_FIRST_PADDED = "latent_first_padded"
    """Compressed layers first; pages of the others are padded to theirs."""
    LATENT_FIRST = "latent_first"
    IN_ORDER = "in_order"


class BlockBytes(StrEnum):
    """What one block id costs where pages of several sizes lie side by side."""

    WHOLE_ROUNDS = "whole_rounds"
    """As many pages of every size as the most frequent one has layers."""
    PAGE_SIZES = "page_sizes"
    """For every size as many pages as the group with the most."""
    WIDEST_GROUP = "widest_group"


class ConcurrencyCount(StrEnum):
    """What one request of the maximum length is counted in."""

    FIRST_GROUP_PAGES = "first_group_pages"
    """Its bytes in pages of the first group, which is off where pages differ."""
    BLOCKS = "blocks"


class StartupCheck(StrEnum):
    """Which bytes must fit before the engine starts."""

    LAYERS = "layers"
    FIRST_GROUP_OF_MODEL = "first_group_of_model"
    FIRST_GROUP = "first_group"
    ALL_GROUPS = "all_groups"
    ALL_GROUPS_BUT_NULL_BLOCK = "all_groups_but_null_block"


class GroupMembers(StrEnum):
    """Which layers of a kind share a group."""

    CONTIGUOUS = "contiguous"
    STRIDED = "strided"


class StateCaching(StrEnum):
    """Which recurrent states prefix caching keeps."""

    NEVER = "never"
    ALL_OR_NEVER = "all_or_never"
    ALL_OR_ALIGN = "all_or_align"
    ALIGN_BY_DEFAULT = "align_by_default"
    ALIGN = "align"


class AsyncScheduling(StrEnum):
    """Whether asynchronous scheduling is on by default."""

    OFF = "off"
    UNLESS_PIPELINED = "unless_pipelined"
    UNLESS_STATES_ARE_CACHED = "unless_states_are_cached"
    ON = "on"


class BlockInBatch(StrEnum):
    """When a block is checked not to exceed the batch."""

    NEVER = "never"
    BY_CONFIG = "by_config"
    ONCE_GROUPED = "once_grouped"


class InFlightBatches(StrEnum):
    """Batches whose tokens a sliding window keeps in reserve."""

    ONE = "one"
    CONCURRENT = "concurrent"


class TokenReport(StrEnum):
    """What "GPU KV cache size" counts."""

    BLOCKS_PER_GROUP = "blocks_per_group"
    CONCURRENCY = "concurrency"


class AdmissionGate(StrEnum):
    """How many sliding-window blocks a waiting request must find free."""

    CHUNK_BY_CHUNK = "chunk_by_chunk"
    WHOLE_PROMPT = "whole_prompt"
    STARTUP_BOUND = "startup_bound"
    WINDOW_PLUS_CHUNK = "window_plus_chunk"


class YarnLength(StrEnum):
    """Which length a YaRN config allows."""

    ORIGINAL_TIMES_FACTOR = "original_times_factor"
    AS_WRITTEN = "as_written"


class LongRopeDefault(StrEnum):
    """Default length of a LongRoPE config."""

    STRETCHED = "stretched"
    ORIGINAL = "original"


@dataclass(frozen=True, slots=True)
class EngineRules:
    """Behaviour of one release, patches included. Each field is a table of ``vllm_*.toml``."""

    release: Version
    params_file: ParamsFile
    params_parts: frozenset[str]
    params_class: str
    kv_cache_dtypes: tuple[str, ...]
    unknown_dtype_refusal: str
    turboquant_on_hybrids: bool
    block_types_told: frozenset[str]
    turboquant_numbers_skipped: bool
    nvfp4_on_latent_attention_refusal: str
    sliding_window_packing: frozenset[str]
    chunk_packing: frozenset[str]
    pads_values: bool
    unheeded_cache_dtype: frozenset[str]
    own_value_size: frozenset[str]
    block_size_choice: BlockSizeChoice
    latent_block_sizes: tuple[LatentBlock, ...]
    hybrid_block_size: HybridBlockSize
    hybrid_kernel_blocks: tuple[KernelBlock, ...]
    hybrid_alignment_packing: frozenset[str]
    latent_hybrid_block: int
    hybrid_block_suits_all_backends: bool
    skip_layer_alignment: bool
    sliding_window_block: SlidingWindowBlock
    windows_count_earlier_tokens: bool
    latent_kind: str
    reused_picks_need_no_indexer: bool
    skip_alignment_packing: Mapping[str, str]
    row_aligned_blocks: tuple[RowAlignedBlock, ...]
    padded_rows_align_blocks: bool
    states_come_last: bool
    uniform_type: bool
    uniform_type_per_stage: bool
    page_unification: PageUnification
    page_refusal: str
    group_size_percent: int
    packed_groups: PackedGroups
    packed_states: frozenset[str]
    packed_block_bytes: BlockBytes
    packed_check_bytes: BlockBytes
    concurrency_count: ConcurrencyCount
    group_members: GroupMembers
    groups_per_stage: bool
    empty_stage_refusal: tuple[str, ...]
    chunks_keep_hybrid_manager: bool
    promotion_refusal: str
    windows_become_full: bool
    window_promotion_failure: str
    promotion_keeps_packing: frozenset[str]
    promotion_forgets_quantization: frozenset[str]
    promotion_keeps_stride: bool
    promotion_takes_full_block: bool
    in_flight_batches: InFlightBatches
    startup_check: StartupCheck
    override_counts_as_available: bool
    token_report: TokenReport
    report_lines: tuple[str, ...]
    memory_refusal: str
    no_memory_refusal: str
    admission: AdmissionGate
    admission_bounds_steps: bool
    states_pile_up: bool
    checkpoint_cache_algorithms: Mapping[str, str]
    checkpoint_cache_scheme: CheckpointScheme
    e5m2_gate: E5m2Gate
    quantization_methods: frozenset[str]
    deprecated_quantization: frozenset[str]
    quantization_overrides: tuple[QuantizationOverride, ...]
    online_cache_scales: bool
    modelopt_algorithms: tuple[str, ...]
    offload_keeps_batch: bool
    quantization_min_capability: Mapping[str, str]
    activation_types: tuple[ActivationTypes, ...]
    plain_gptq: bool
    modelopt_ties_embeddings: bool
    expert_block_check: bool
    clamped_nvfp4_majors: frozenset[str]
    yarn_length: YarnLength
    long_rope_default: LongRopeDefault
    fits_length: bool
    auto_backend: bool
    left_to_transformers: frozenset[str]
    head_dim_is_rotary: frozenset[str]
    pipeline_unsupported: frozenset[str]
    pipeline_unsplittable: frozenset[str]
    pipeline_unnamed: frozenset[str]
    pipeline_unready: Mapping[str, str]
    whole_prompt_batches: bool
    miscounted_layers: Mapping[str, str]
    unrepeated_kv_heads: Mapping[str, str]
    uneven_ranks_refusal: tuple[str, ...]
    context_parallel_refusals: tuple[str, ...]
    hybrid_context_parallel_failure: str
    gpu_memory_utilization: int
    batch_defaults: tuple[BatchDefaults, ...]
    batch_bounded_by_requests: bool
    media_item_sets_batch: bool
    bidirectional_media_types: frozenset[str]
    encoder_budget_is_batch: bool
    encoders_batch_whole_prompts: bool
    encoders_may_cache_prefixes: bool
    async_scheduling: AsyncScheduling
    second_runner: frozenset[str]
    free_memory_refusal: str
    hybrid_prefix_caching: bool
    attention_free_prefix_caching: bool
    state_block_is_block: bool
    state_caching: StateCaching
    float_caches_match: bool
    state_cache_modes: tuple[str, ...]
    unstable_in_float16: frozenset[str]
    state_dtypes: tuple[str, ...]
    state_block_needs_caching: bool
    unchunked_states_refusal: str
    aligned_block_in_batch: BlockInBatch
    every_state_classes: frozenset[str]
    one_state_dtype: frozenset[str]
    float32_linear_states: bool
    own_state_dtype: Mapping[str, str]
    configured_state_dtype: Mapping[str, str]
    state_checkpoints: tuple[StateCheckpoint, ...]
    graphs_need_states: bool
    unbuilt_capabilities: frozenset[str]
    deep_gemm_unbuilt_majors: frozenset[str]
    deep_gemm_excluded_types: frozenset[str]
    drafted_rows: frozenset[str]
    undrafted_alignment: frozenset[str]
    drafted_states: frozenset[str]
    drafted_states_refusal: str
    windows_retain_modules: bool
    specs_tell_kernel_block: bool
    speculative_methods: tuple[str, ...]
    own_drafts: Mapping[str, str]
    drafts_by_model: bool
    untold_method: str
    draft_model_refusal: str
    whole_drafts: bool
    drafts_are_pipelined: bool
    pipelined_drafts: frozenset[str]
    eagle3_targets: tuple[str, ...]
    async_speculation: frozenset[str]
    async_speculation_asked: frozenset[str]
    async_speculation_refusal: str
    second_runner_methods: frozenset[str]
    equal_vocabularies: bool
    draft_limits_length: bool
    draft_slots: bool
    blocks_guessed_whole: bool
    blocks_guessed_in_rounds: bool
    aligned_states_refusal: str
    drafts_align_states: bool

    def __hash__(self) -> int:
        # Patches change the rest, by which rules of one release are compared.
        return hash(self.release)


def _pairs(value: list[str]) -> Mapping[str, str]:
    return dict(entry.split("=", 1) for entry in value)


def _cases(kind: Callable[..., Any]) -> Callable[[list[dict[str, Any]]], tuple[Any, ...]]:
    def read(entry: dict[str, Any]) -> object:
        return kind(**{key: tuple(part) if isinstance(part, list) else part for key, part in entry.items()})

    return lambda value: tuple(map(read, value))


def _exactly(kind: type) -> Callable[[Any], Any]:
    def check(value: object) -> object:
        if type(value) is not kind:
            raise TypeError(f"{value!r} is not {kind.__name__}")
        return value

    return check


PARSERS: Final[Mapping[object, Callable[[Any], Any]]] = {
    tuple[str, ...]: tuple,
    frozenset[str]: frozenset,
    Mapping[str, str]: _pairs,
    tuple[BatchDefaults, ...]: _cases(BatchDefaults),
    tuple[LatentBlock, ...]: _cases(LatentBlock),
    tuple[KernelBlock, ...]: _cases(KernelBlock),
    tuple[StateCheckpoint, ...]: _cases(StateCheckpoint),
    tuple[ActivationTypes, ...]: _cases(ActivationTypes),
    tuple[QuantizationOverride, ...]: _cases(QuantizationOverride),
    tuple[RowAlignedBlock, ...]: _cases(RowAlignedBlock),
    bool: _exactly(bool),
    int: _exactly(int),
    str: _exactly(str),
}
"""How a value of the data file becomes a field's type; enumerations parse themselves."""

RULE_PARSERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    field.name: PARSERS.get(field.type, field.type)  # type: ignore[arg-type]
    for field in fields(EngineRules)
    if field.name != "release"
}
"""Every rule by name, with the reader of its values."""
