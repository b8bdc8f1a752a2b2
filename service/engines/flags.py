"""The flags of ``vllm serve`` that decide about memory, as a caller gives them."""

from dataclasses import dataclass

from service.engines.speculative_config import SpeculativeConfig


@dataclass(frozen=True, slots=True)
class ServeFlags:
    """Flags by the engine's own names; ``None`` leaves the choice to the release.

    ``kv_cache_memory_bytes`` is, as in the engine, bytes per rank that replace the memory estimate.
    """

    tensor_parallel_size: int | None = None
    pipeline_parallel_size: int = 1
    data_parallel_size: int = 1
    decode_context_parallel_size: int = 1
    enable_expert_parallel: bool = False
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
    disable_hybrid_kv_cache_manager: bool = False
    mamba_cache_mode: str | None = None
    mamba_block_size: int | None = None
    mamba_cache_dtype: str | None = None
    mamba_ssm_cache_dtype: str | None = None
    language_model_only: bool = False
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
    speculative_config: SpeculativeConfig | None = None

    def __hash__(self) -> int:
        # Shared work is found by flags: what tells most candidates apart does, at a tenth of the time.
        return hash((self.kv_cache_dtype, self.tensor_parallel_size, self.block_size, self.max_model_len))
