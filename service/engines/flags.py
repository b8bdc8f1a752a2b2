"""The flags of ``vllm serve`` that decide about memory, as a caller gives them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Self

from service.changed import StoresChanges, changed, of_fields
from service.engines.json_object import JsonObject
from service.engines.speculative_config import SpeculativeConfig

KEYS_OF: Final[Mapping[str, str]] = {
    "cudagraph_mode": "compilation_config",
    "indexer_kv_dtype": "attention_config",
    "use_fp4_indexer_cache": "attention_config",
    "kv_connector": "kv_transfer_config",
    "kv_role": "kv_transfer_config",
}
"""Fields of ``ServeFlags`` that are keys of a JSON argument, with the argument that each belongs to."""


@dataclass(frozen=True, eq=False)
class ServeFlags(StoresChanges):
    """Flags by the engine's own names; ``None`` leaves the choice to the release.

    ``kv_cache_memory_bytes`` is, as in the engine, bytes per rank that replace the memory estimate.
    """

    tensor_parallel_size: int | None = None
    pipeline_parallel_size: int = 1
    data_parallel_size: int = 1
    decode_context_parallel_size: int = 1
    enable_expert_parallel: bool = False
    runner: str | None = None
    """``generate`` for text, ``pooling`` for vectors and scores; ``None``: as the model's files say."""
    convert: str | None = None
    """What a class that generates text is made for the pooling runner: ``embed`` or ``classify``."""
    dtype: str = "auto"
    quantization: str | None = None
    max_model_len: int | None = None
    """Tokens; ``-1`` asks the engine to fit it to the memory."""
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    gpu_memory_utilization: float | None = None
    kv_cache_memory_bytes: int | None = None
    num_gpu_blocks_override: int | None = None
    kv_cache_dtype: str | None = None
    kv_cache_dtype_skip_layers: tuple[str, ...] = ()
    block_size: int | None = None
    attention_backend: str | None = None
    enable_prefix_caching: bool | None = None
    enable_chunked_prefill: bool | None = None
    async_scheduling: bool | None = None
    enforce_eager: bool = False
    max_cudagraph_capture_size: int | None = None
    """Tokens of the largest CUDA graph; 0 captures none."""
    cudagraph_capture_sizes: tuple[int, ...] = ()
    """Tokens of each CUDA graph; none: the release's own sizes."""
    cudagraph_mode: str | None = None
    """Which steps have graphs, such as ``PIECEWISE`` or ``FULL_DECODE_ONLY``."""
    optimization_level: int | None = None
    """0 to 3: a set of defaults, among them which steps have graphs."""
    performance_mode: str | None = None
    """``throughput`` doubles the default batch, ``interactivity`` captures a graph for each small batch."""
    indexer_kv_dtype: str | None = None
    """Dtype of the keys of a sparse model's indexer."""
    use_fp4_indexer_cache: bool | None = None
    """The older name of ``indexer_kv_dtype=mxfp4``."""
    kv_connector: str | None = None
    """What sends blocks to other engines or stores them elsewhere."""
    kv_role: str | None = None
    """Whether this engine sends blocks, receives them, or both."""
    disable_hybrid_kv_cache_manager: bool | None = None
    rope_theta: float | None = None
    """Replaces the config's key of the same name."""
    prefix_match_unit: int | None = None
    """Tokens between two places at which a prefix can end; it divides the block sizes of all groups."""
    mamba_cache_mode: str | None = None
    mamba_block_size: int | None = None
    mamba_cache_dtype: str | None = None
    mamba_ssm_cache_dtype: str | None = None
    language_model_only: bool = False
    mm_encoder_tp_mode: str | None = None
    """``weights`` splits the encoders over the ranks; ``data`` gives each rank whole encoders."""
    enable_multimodal_encoder_data_parallel: bool = False
    """The older name of ``mm_encoder_tp_mode=data``."""
    mm_encoder_attn_backend: str | None = None
    mm_processor_cache_gb: float | None = None
    """GiB of the host's memory in which each process caches processed items."""
    skip_mm_profiling: bool = False
    """The profile run does not run the encoders."""
    video_pruning_rate: float | None = None
    """Share of a video's tokens that are dropped after the encoder."""
    mm_ipc_gpu_memory_gb: float = 0.0
    """GiB of the GPU that are set aside for the API server, which decodes videos there."""
    api_server_count: int | None = None
    enable_lora: bool = False
    max_loras: int | None = None
    """Adapters of one batch."""
    max_lora_rank: int | None = None
    max_cpu_loras: int | None = None
    """Adapters in the host's memory."""
    lora_extra_vocab_size: int | None = None
    lora_dtype: str | None = None
    fully_sharded_loras: bool = False
    """Both matrices of an adapter are split over the ranks, not one of them."""
    lora_target_modules: tuple[str, ...] = ()
    """Last parts of the names of modules that adapters change; none: all that the class supports."""
    enable_tower_connector_lora: bool = False
    enable_eplb: bool = False
    num_redundant_experts: int | None = None
    """The older name of the same key of ``eplb_config``."""
    enable_dbo: bool = False
    """Each batch is computed as two halves, so that communication of one overlaps with the other."""
    all2all_backend: str | None = None
    """How tokens are sent to experts on other ranks."""
    max_num_partial_prefills: int | None = None
    """Prompts that are computed piece by piece at once, which no release can do but one at a time."""
    max_long_partial_prefills: int | None = None
    moe_backend: str | None = None
    """Kernel of routed experts; ``None`` or ``auto``: the release chooses."""
    enable_sleep_mode: bool = False
    enable_cumem_allocator: bool = False
    swap_space: float | None = None
    """GiB of the host's memory per GPU."""
    kv_offloading_size: float | None = None
    """GiB of the host's memory, of all ranks together, for blocks that the GPU no longer has."""
    kv_offloading_backend: str | None = None
    cpu_offload_gb: float = 0.0
    """GiB of parameters, on every rank, that the GPU reads from the host's memory."""
    offload_backend: str = "auto"
    cpu_offload_params: tuple[str, ...] = ()
    """Segments of names of the parameters that ``cpu_offload_gb`` moves; none: all."""
    offload_group_size: int = 0
    """Layers of a group, of which the last ``offload_num_in_group`` are fetched from the host."""
    offload_num_in_group: int = 1
    offload_prefetch_step: int = 1
    offload_params: tuple[str, ...] = ()
    """Segments of names of the parameters that ``offload_group_size`` moves; none: all."""
    limit_mm_per_prompt: JsonObject | None = None
    """By modality: items of one prompt, or an object with their ``count`` and the sizes that are profiled."""
    mm_processor_kwargs: JsonObject | None = None
    """What the model's processor of images and videos is given, such as ``max_pixels``."""
    eplb_config: JsonObject | None = None
    """How experts are moved between ranks; ``num_redundant_experts`` are stored beside the model's own."""
    speculative_config: SpeculativeConfig | None = None
    hf_overrides: JsonObject | None = None
    """Keys that replace those of the config."""
    rope_scaling: JsonObject | None = None
    """Replaces the config's key of the same name."""
    environment: tuple[tuple[str, str], ...] = ()
    """Environment variables by name, in order."""

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, ServeFlags):
            return NotImplemented
        same_length = self.max_model_len == other.max_model_len
        return same_length and vars(self.but_length) == vars(other.but_length)

    def __hash__(self) -> int:
        # Shared work is found by flags: what tells most candidates apart does, at a tenth of the time.
        return hash((self.kv_cache_dtype, self.tensor_parallel_size, self.block_size, self.max_model_len))

    @property
    def but_length(self) -> Self:
        """The same without a maximum length."""
        return self if self.max_model_len is None else self._but_length

    @cached_property
    def _but_length(self) -> Self:
        return changed(self, max_model_len=None)

    def of_length(self, max_model_len: int | None) -> Self:
        """Return the same with another maximum length; both have one object as ``but_length``."""
        if max_model_len is None:
            return self.but_length
        stored = vars(self.but_length).copy()
        stored.update(max_model_len=max_model_len, _but_length=self.but_length)
        return of_fields(type(self), stored)
