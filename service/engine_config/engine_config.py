"""The flags of one start with every default filled in."""

from dataclasses import dataclass, field

from packaging.version import Version

from service.changed import changed
from service.engine_config.graph_modes import RELEASE_SIZES, GraphMode, GraphSizes
from service.engine_config.speculation import Speculation
from service.engines.engine_rules import EngineRules
from service.engines.rules.admission import InFlightBatches
from service.gpus.capability import ComputeCapability


@dataclass(frozen=True, slots=True)
class RequestDemand:
    """Token counts that decide the blocks of one request of the maximum length."""

    max_model_len: int
    """Tokens of the request."""
    in_flight_tokens: int
    """Tokens that may be scheduled while older blocks are not yet freed."""
    encoder_tokens: int = 0
    """Tokens of an encoder that the decoder attends across to."""
    context_parallel: int = 1
    """Ranks that share the tokens of a request (decode context parallelism)."""
    retained_tokens: int = 0
    """Tokens below a sliding window that several prediction modules read again."""


@dataclass(frozen=True)
class EngineConfig:
    """One start of the engine, as its own configuration would say."""

    rules: EngineRules = field(repr=False)
    device_name: str
    compute_capability: ComputeCapability
    tensor_parallel_size: int
    pipeline_parallel_size: int
    decode_context_parallel_size: int
    enable_expert_parallel: bool
    dtype: str
    """Type of activations: ``bfloat16`` or ``float16``."""
    max_model_len: int
    fit_max_model_len: bool
    """Whether the engine shortens ``max_model_len`` to what fits (``--max-model-len -1``)."""
    max_num_batched_tokens: int
    max_num_seqs: int
    gpu_memory_utilization: float
    num_gpu_blocks_override: int | None
    kv_cache_dtype: str
    """The cache dtype after the checkpoint's override."""
    kv_cache_dtype_skip_layers: frozenset[str]
    block_size: int | None
    """What the caller set; ``None`` lets the engine choose."""
    attention_backend: str | None
    enable_prefix_caching: bool
    concurrent_batches: int
    """Batches that may be in flight at once."""
    enforce_eager: bool
    hybrid_manager: bool
    mamba_cache_mode: str
    mamba_block_size: int | None
    conv_state_dtype: str
    recurrent_state_dtype: str
    bidirectional_media: bool
    encoder_tokens: int = 0
    """Tokens that a request may bring to the encoder which the decoder attends across to; 0 without one."""
    encoder_request_tokens: int = 0
    """Tokens of that encoder for which a running request holds blocks."""
    cache_method: str | None = None
    """Method by which weights are quantized, where it brings scales for the cache."""
    passes_cache_dtype: bool = True
    """Whether the model passes the cache dtype to its layers; if not, they store the model's type."""
    speculation: Speculation | None = None
    """Speculative decoding, if any."""
    v2_model_runner: bool = False
    """Whether the engine runs the model on its V2 model runner."""
    expert_kernel: str | None = None
    """Kernel named for routed experts; ``None``: the release chooses, or the model has none."""
    whole_encoders: bool = False
    """Whether each tensor parallel rank has whole encoders, and encodes a part of the items."""
    graph_mode: GraphMode = GraphMode.FULL_AND_PIECEWISE
    """Which steps have CUDA graphs."""
    graph_sizes: GraphSizes = RELEASE_SIZES
    """What the caller says of the sizes of CUDA graphs."""
    prefix_match_unit: int | None = None
    """Tokens between two places at which a prefix can end, where the caller sets it."""
    indexer_dtype: str = "auto"
    """Type of the keys of sparse indexers; ``auto``: the model's own."""

    def on(self, device_name: str, compute_capability: ComputeCapability) -> "EngineConfig":
        """Return the same on another GPU type that is configured alike."""
        if device_name == self.device_name and compute_capability == self.compute_capability:
            return self
        return changed(self, device_name=device_name, compute_capability=compute_capability)

    @property
    def speculative_tokens(self) -> int:
        """Draft tokens of one request in one step; 0 without speculative decoding."""
        return 0 if self.speculation is None else self.speculation.tokens

    @property
    def release(self) -> Version:
        """The engine's release."""
        return self.rules.release

    @property
    def batches_behind(self) -> int:
        """Batches that are scheduled but not yet done when blocks are given back, by the release's rule."""
        concurrent = self.rules.admission.in_flight_batches is InFlightBatches.CONCURRENT
        return self.concurrent_batches - 1 if concurrent else 0

    @property
    def in_flight_tokens(self) -> int:
        """Tokens that a sliding window stores in reserve, by the release's rule."""
        return self.max_num_batched_tokens * (1 + self.batches_behind)

    @property
    def offloads_weights(self) -> bool:
        """Whether the model runner obeys the flags that move weights to the host's memory."""
        return self.rules.batches.v2_model_runner_offloads or not self.v2_model_runner

    def demand(self, max_model_len: int | None = None) -> RequestDemand:
        """Return the token counts of one request of the given (or the maximum) length."""
        drafted = self.speculation if self.rules.specs.windows_retain_draft_tokens else None
        return RequestDemand(
            max_model_len=self.max_model_len if max_model_len is None else max_model_len,
            in_flight_tokens=self.in_flight_tokens,
            encoder_tokens=self.encoder_tokens,
            context_parallel=self.decode_context_parallel_size,
            retained_tokens=0 if drafted is None else drafted.retained_tokens,
        )
