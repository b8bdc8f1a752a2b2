"""Flags of the engine in a request."""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from service.application.schemas.base import Input
from service.engines.flags import ServeFlags
from service.engines.speculative_config import SpeculativeConfig

MAX_RANKS: Final = 1 << 12
MAX_TOKENS: Final = 1 << 31
MAX_BYTES: Final = 1 << 50
MAX_LAYERS: Final = 1 << 10
MAX_LAYER_CHARACTERS: Final = 1 << 12
"""Characters of all layer names together, which every command repeats; 0 to 1023 take 2,986."""
MAX_DRAFT_TOKENS: Final = 1 << 10
MAX_OFFLOAD: Final = 1 << 14
LISTS: Final = ("kv_cache_dtype_skip_layers", "cpu_offload_params", "offload_params")
"""Flags that take several words."""


def _not_zero(tokens: int) -> int:
    if tokens == 0:
        raise ValueError("must be -1 or at least 1")
    return tokens


def _short_together(layers: list[str]) -> list[str]:
    if sum(map(len, layers)) > MAX_LAYER_CHARACTERS:
        raise ValueError(f"must have at most {MAX_LAYER_CHARACTERS} characters together")
    return layers


Ranks = Annotated[int, Field(ge=1, le=MAX_RANKS)]
Tokens = Annotated[int, Field(ge=1, le=MAX_TOKENS)]
StateDtype = Literal["auto", "float32", "float16", "bfloat16"]
Name = Annotated[str, Field(min_length=1, max_length=64)]
Layer = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.]{1,64}$")]
"""An index or a kind of layers; never text that a command would read as an option."""


Segments = Annotated[
    list[Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.]{0,63}$")]], Field(max_length=64)
]
"""Parts of parameters' names, between dots."""


class SpeculativeInput(Input):
    """Speculative decoding, by the engine's own keys.

    One left out (or null) takes the release's own default.
    """

    method: Name | None = Field(
        default=None,
        description="`mtp` (or an older spelling of it), `dspark`, `eagle`, `eagle3`, `draft_model`, "
        "`ngram`, `suffix`",
    )
    model: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None,
        description="Id of the draft model on the Hub; layers in the model's own checkpoint "
        "(`mtp`, `dspark`) need none",
    )
    num_speculative_tokens: Annotated[int, Field(ge=1, le=MAX_DRAFT_TOKENS)] | None = Field(
        default=None, description="Draft tokens of one request in one step"
    )
    draft_tensor_parallel_size: Ranks | None = Field(
        default=None, description="Ranks that share the draft model"
    )
    prompt_lookup_max: Tokens | None = Field(
        default=None, description="Most tokens that are looked up in the prompt"
    )
    prompt_lookup_min: Tokens | None = Field(
        default=None, description="Fewest tokens that are looked up in the prompt"
    )
    quantization: Name | None = Field(
        default=None, description="Method of the draft model's quantized weights"
    )
    max_model_len: Tokens | None = Field(
        default=None, description="Tokens of the draft model's longest request"
    )
    revision: Annotated[str, Field(min_length=1, max_length=128)] | None = Field(
        default=None, description="Branch, tag or commit of the draft model"
    )
    parallel_drafting: bool | None = Field(default=None, description="Compute all draft tokens in one pass")
    disable_padded_drafter_batch: bool | None = Field(
        default=None, description="Put requests of different lengths in one batch of the draft model"
    )
    use_heterogeneous_vocab: bool | None = Field(
        default=None, description="Let the draft model have a vocabulary of its own"
    )
    suffix_decoding_max_tree_depth: Annotated[int, Field(ge=1, le=MAX_DRAFT_TOKENS)] | None = Field(
        default=None, description="Most draft tokens of `suffix` where `num_speculative_tokens` is left out"
    )

    def parsed(self) -> SpeculativeConfig:
        """Return the engine's speculative configuration."""
        return SpeculativeConfig(**self.model_dump())


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
        default=None, description="Give each rank whole experts in place of a part of each expert"
    )
    dtype: Name | None = Field(default=None, description="Dtype of weights and activations")
    quantization: Name | None = Field(default=None, description="Method of quantized weights")
    max_model_len: Annotated[int, Field(ge=-1, le=MAX_TOKENS), AfterValidator(_not_zero)] | None = Field(
        default=None, description="Tokens of the longest request; -1 fits it to the memory"
    )
    max_num_batched_tokens: Tokens | None = Field(default=None, description="Tokens of one scheduler step")
    max_num_seqs: Tokens | None = Field(default=None, description="Requests that run at once")
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None, description="Share of the device's memory that the engine may take"
    )
    kv_cache_memory_bytes: Annotated[int, Field(ge=1, le=MAX_BYTES)] | None = Field(
        default=None, description="Bytes of cache on every rank, in place of what profiling would leave"
    )
    num_gpu_blocks_override: Tokens | None = Field(
        default=None, description="Blocks of cache, whatever the memory"
    )
    kv_cache_dtype: Name | None = Field(
        default=None,
        description="Dtype of the cache; left out: every dtype that the release accepts is tried",
    )
    kv_cache_dtype_skip_layers: (
        Annotated[list[Layer], Field(max_length=MAX_LAYERS), AfterValidator(_short_together)] | None
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
    disable_hybrid_kv_cache_manager: bool | None = Field(
        default=None, description="Use one kind of KV cache for all layers"
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
    cpu_offload_gb: Annotated[float, Field(ge=0, le=MAX_OFFLOAD)] | None = Field(
        default=None,
        description="GiB of weights, on every rank, that are stored in the host's memory; null: none",
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
        default=None, description="Layers of each group that are stored in the host's memory; null: none"
    )
    offload_prefetch_step: Annotated[int, Field(ge=0, le=MAX_LAYERS)] | None = Field(
        default=None, description="Layers that are fetched ahead, for which the GPU has room"
    )
    offload_params: Segments | None = Field(
        default=None, description="Parts of the names of weights that groups move; left out: all"
    )


class ServeInput(FlagsInput):
    """Flags of `vllm serve`, by its own names. One left out (or null) takes the release's own default."""

    speculative_config: SpeculativeInput | None = Field(
        default=None, description="Speculative decoding: how draft tokens are proposed; left out: none"
    )

    def flags(self) -> ServeFlags:
        """Return the engine's flags."""
        given = self.model_dump(exclude_none=True, exclude={"speculative_config"})
        given |= {name: tuple(given[name]) for name in LISTS if name in given}
        speculative = None if self.speculative_config is None else self.speculative_config.parsed()
        return ServeFlags(speculative_config=speculative, **given)
