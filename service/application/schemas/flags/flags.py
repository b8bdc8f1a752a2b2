"""Flags of the engine that hold one value or a list."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from service.application.schemas.base import Input
from service.application.schemas.flags.flag_types import (
    GRAPH_MODES,
    MAX_ADAPTERS,
    MAX_BYTES,
    MAX_GRAPHS,
    MAX_LAYERS,
    MAX_OFFLOAD,
    MAX_RANKS,
    MAX_TOKENS,
    Gigabytes,
    Layer,
    Name,
    Ranks,
    Segments,
    StateDtype,
    Tokens,
    as_written,
    not_zero,
    short_together,
)
from service.engines.flag_values import read_count, read_length


class FlagsInput(Input):
    """Flags of `vllm serve` that hold one value or a list, by its own names.

    One left out (or null) takes the release's own default.
    """

    tensor_parallel_size: Ranks | None = Field(
        default=None, description="Ranks (GPUs) that share every layer; left out: 1, 2, 4 and 8 are tried"
    )
    pipeline_parallel_size: Ranks | None = Field(default=None, description="Stages of consecutive layers")
    data_parallel_size: Ranks | None = Field(default=None, description="Replicas of the whole model")
    decode_context_parallel_size: Ranks | None = Field(
        default=None, description="Ranks that share the tokens of one request's cache"
    )
    enable_expert_parallel: bool | None = Field(
        default=None, description="Expert parallelism: each GPU holds whole experts"
    )
    runner: Name | None = Field(
        default=None,
        description="`generate` for a model that writes text, `pooling` for one that returns vectors or "
        "scores; null: as the model's class and files say",
    )
    convert: Name | None = Field(
        default=None,
        description="What the pooling runner makes of a class that generates text: `embed` (vectors) or "
        "`classify` (scores); null: as the name of the class says, else `embed`",
    )
    dtype: Name | None = Field(default=None, description="Dtype of weights and activations")
    quantization: Name | None = Field(default=None, description="Method of quantized weights")
    max_model_len: (
        Annotated[
            int,
            Field(ge=-1, le=MAX_TOKENS),
            AfterValidator(not_zero),
            as_written(read_length),
        ]
        | None
    ) = Field(
        default=None,
        description="Tokens of the longest request; -1 or `auto` fits it to the memory; `32k` is 32,000 and "
        "`32K` is 32,768",
    )
    max_num_batched_tokens: Annotated[Tokens, as_written(read_count)] | None = Field(
        default=None, description="Tokens of one scheduler step; `8k` is 8,000 and `8K` is 8,192"
    )
    max_num_seqs: Tokens | None = Field(default=None, description="Requests that run at once")
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None, description="Share of the device's memory that the engine may take"
    )
    kv_cache_memory_bytes: Annotated[int, Field(ge=1, le=MAX_BYTES), as_written(read_count)] | None = Field(
        default=None,
        description="Bytes of cache on every rank, in place of what profiling would leave; `5g` is 5 x 10^9 "
        "and `5G` is 5 GiB",
    )
    num_gpu_blocks_override: Tokens | None = Field(
        default=None, description="Blocks of cache, whatever the memory"
    )
    kv_cache_dtype: Name | None = Field(
        default=None,
        description="Dtype of the cache; left out: every dtype that the release accepts is tried",
    )
    kv_cache_dtype_skip_layers: (
        Annotated[list[Layer], Field(max_length=MAX_LAYERS), AfterValidator(short_together)] | None
    ) = Field(
        default=None, description="Layers whose cache has the model's own dtype: indices or `sliding_window`"
    )
    block_size: Annotated[int, Field(ge=1, le=1 << 20)] | None = Field(
        default=None, description="Tokens of one block"
    )
    attention_backend: Name | None = Field(
        default=None, description="Kernels to run attention with, in upper or lower case"
    )
    enable_prefix_caching: bool | None = Field(default=None, description="Share blocks of equal prefixes")
    enable_chunked_prefill: bool | None = Field(default=None, description="Split long prompts over steps")
    async_scheduling: bool | None = Field(default=None, description="Schedule a step ahead")
    enforce_eager: bool | None = Field(default=None, description="Run without CUDA graphs")
    max_cudagraph_capture_size: Annotated[int, Field(ge=0, le=MAX_TOKENS)] | None = Field(
        default=None, description="Tokens of the largest CUDA graph; 0 captures none"
    )
    cudagraph_capture_sizes: Annotated[list[Tokens], Field(max_length=MAX_GRAPHS)] | None = Field(
        default=None, description="Tokens of each CUDA graph; null: the release's own sizes"
    )
    cudagraph_mode: Annotated[str, Field(pattern=GRAPH_MODES)] | None = Field(
        default=None,
        description="Which steps have CUDA graphs, the key of `compilation_config`: `NONE`, `PIECEWISE` "
        "(graphs between attention), `FULL`, `FULL_DECODE_ONLY`, `FULL_AND_PIECEWISE`; null: the default of "
        "`optimization_level`",
    )
    optimization_level: Annotated[int, Field(ge=0, le=3)] | None = Field(
        default=None,
        description="Defaults of compilation: 0 captures no CUDA graphs, 1 graphs between attention layers, "
        "2 and 3 whole decode steps too; null: 2",
    )
    performance_mode: Literal["balanced", "interactivity", "throughput"] | None = Field(
        default=None,
        description="`throughput` doubles the default `max_num_seqs` and `max_num_batched_tokens`, "
        "`interactivity` captures a CUDA graph for each batch of up to 32 tokens; null: balanced",
    )
    indexer_kv_dtype: Name | None = Field(
        default=None,
        description="Dtype of the keys of a sparse model's indexer, the key of `attention_config`: `fp8`, "
        "`mxfp4`, `bf16`; null: auto",
    )
    use_fp4_indexer_cache: bool | None = Field(
        default=None,
        description="Older name of `indexer_kv_dtype=mxfp4`; null: off",
    )
    kv_connector: Annotated[str, Field(pattern=r"^[A-Za-z0-9_]{1,64}$")] | None = Field(
        default=None,
        description="What sends blocks of the cache elsewhere, the key of `kv_transfer_config`, such as "
        "`NixlConnector`; null: nothing does",
    )
    kv_role: Literal["kv_producer", "kv_consumer", "kv_both"] | None = Field(
        default=None,
        description="Whether the connector sends blocks, receives them or both, the key of "
        "`kv_transfer_config`; null: no connector",
    )
    disable_hybrid_kv_cache_manager: bool | None = Field(
        default=None,
        description="Use one cache type for all layers (no hybrid manager); false keeps several types "
        "where a connector is used",
    )
    rope_theta: Annotated[float, Field(gt=0)] | None = Field(
        default=None,
        description="Base of the wavelengths of rotary positions, in tokens, in place of the config's; up to "
        "0.11.0; null: the config's",
    )
    prefix_match_unit: Tokens | None = Field(
        default=None,
        description="Tokens between two places at which a cached prefix can end; it must divide every block "
        "size; null: the release's choice",
    )
    mamba_cache_mode: Literal["all", "align", "none"] | None = Field(
        default=None, description="Which recurrent states are cached for prefixes"
    )
    mamba_block_size: Tokens | None = Field(
        default=None, description="Tokens between cached recurrent states"
    )
    mamba_cache_dtype: StateDtype | None = Field(default=None, description="Dtype of convolution states")
    mamba_ssm_cache_dtype: StateDtype | None = Field(default=None, description="Dtype of recurrent states")
    language_model_only: bool | None = Field(default=None, description="Load no encoders of images or audio")
    mm_encoder_tp_mode: Literal["weights", "data"] | None = Field(
        default=None,
        description="`weights` splits encoders over the tensor parallel ranks, `data` gives each rank whole "
        "encoders and a part of the items; null: weights",
    )
    enable_multimodal_encoder_data_parallel: bool | None = Field(
        default=None, description="Older name of `mm_encoder_tp_mode=data`; null: off"
    )
    mm_encoder_attn_backend: Name | None = Field(
        default=None, description="Kernels of the encoders' attention; null: the engine chooses"
    )
    mm_processor_cache_gb: Gigabytes | None = Field(
        default=None,
        description="Value in GiB of the host's memory in which each process caches processed items; null: 4",
    )
    skip_mm_profiling: bool | None = Field(
        default=None, description="Leave encoders out of the profile run; null: they are profiled"
    )
    video_pruning_rate: Annotated[float, Field(ge=0, lt=1)] | None = Field(
        default=None, description="Share of a video's tokens that are dropped after the encoder; null: none"
    )
    mm_ipc_gpu_memory_gb: Gigabytes | None = Field(
        default=None,
        description="Value in GiB of each GPU that the API server may take to decode videos; null: none",
    )
    api_server_count: Ranks | None = Field(
        default=None, description="Processes that take requests; null: the release's default"
    )
    enable_lora: bool | None = Field(default=None, description="Serve LoRA adapters; null: off")
    max_loras: Annotated[int, Field(ge=1, le=MAX_ADAPTERS)] | None = Field(
        default=None, description="Number of adapters of one batch, each with room on the GPU; null: 1"
    )
    max_lora_rank: Annotated[int, Field(ge=1, le=MAX_ADAPTERS)] | None = Field(
        default=None, description="Largest rank of an adapter, for which there is room; null: 16"
    )
    max_cpu_loras: Annotated[int, Field(ge=1, le=MAX_ADAPTERS)] | None = Field(
        default=None,
        description="Number of adapters in the host's memory; null: as many as `max_loras`",
    )
    lora_extra_vocab_size: Annotated[int, Field(ge=0, le=MAX_TOKENS)] | None = Field(
        default=None, description="Tokens that an adapter may add to the vocabulary; null: 256"
    )
    lora_dtype: Name | None = Field(default=None, description="Dtype of adapters; null: the model's")
    fully_sharded_loras: bool | None = Field(
        default=None, description="Split both matrices of an adapter over the ranks; null: one of them"
    )
    lora_target_modules: Segments | None = Field(
        default=None,
        description="Last parts of the names of modules that adapters change; null: all that the model "
        "class supports",
    )
    enable_tower_connector_lora: bool | None = Field(
        default=None, description="Let adapters change encoders of images too; null: off"
    )
    enable_eplb: bool | None = Field(
        default=None, description="Move experts between ranks by their load; null: off"
    )
    num_redundant_experts: Annotated[int, Field(ge=0, le=MAX_RANKS)] | None = Field(
        default=None,
        description="Number of spare experts: older name of `eplb_config.num_redundant_experts`; null: none",
    )
    enable_dbo: bool | None = Field(
        default=None, description="Compute each batch as two halves that overlap; null: off"
    )
    all2all_backend: Name | None = Field(
        default=None, description="How tokens are sent to experts on other ranks; null: the default"
    )
    max_num_partial_prefills: Tokens | None = Field(
        default=None, description="Requests whose prompts are computed in pieces, up to 0.26.0; null: 1"
    )
    max_long_partial_prefills: Tokens | None = Field(
        default=None, description="Requests with long prompts among them, up to 0.26.0; null: 1"
    )
    moe_backend: Name | None = Field(
        default=None, description="Kernel that computes routed experts; null: the release chooses"
    )
    enable_sleep_mode: bool | None = Field(
        default=None, description="Allow the engine to free its GPU memory while it is idle; null: off"
    )
    enable_cumem_allocator: bool | None = Field(
        default=None, description="Allocate weights and cache as sleep mode does; null: off"
    )
    swap_space: Gigabytes | None = Field(
        default=None, description="Value in GiB of the host's memory for each GPU; null: 4"
    )
    kv_offloading_size: Gigabytes | None = Field(
        default=None,
        description="GiB of the host's memory, of all ranks together, for cached blocks; null: none",
    )
    kv_offloading_backend: Literal["native", "lmcache"] | None = Field(
        default=None, description="What moves cached blocks to the host; null: the release's default"
    )
    cpu_offload_gb: Annotated[float, Field(ge=0, le=MAX_OFFLOAD)] | None = Field(
        default=None,
        description="GiB of weights, on every rank, that are stored in the host's memory; left out: none",
    )
    offload_backend: Literal["auto", "uva", "prefetch"] | None = Field(
        default=None, description="How weights in the host's memory are read: in place, or fetched ahead"
    )
    cpu_offload_params: Segments | None = Field(
        default=None, description="Parts of the names of weights that `cpu_offload_gb` moves; left out: all"
    )
    offload_group_size: Annotated[int, Field(ge=0, le=MAX_LAYERS)] | None = Field(
        default=None, description="Layers of a group whose last ones stay in the host's memory; 0: none do"
    )
    offload_num_in_group: Annotated[int, Field(ge=1, le=MAX_LAYERS)] | None = Field(
        default=None, description="Layers of each group that are stored in the host's memory; left out: none"
    )
    offload_prefetch_step: Annotated[int, Field(ge=0, le=MAX_LAYERS)] | None = Field(
        default=None, description="Layers that are fetched ahead, for which the GPU has room"
    )
    offload_params: Segments | None = Field(
        default=None, description="Parts of the names of weights that groups move; left out: all"
    )
