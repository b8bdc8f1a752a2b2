"""What the memory budget depends on besides the model."""

from dataclasses import dataclass

from packaging.version import Version

from service.engine_config.graph_modes import RELEASE_SIZES, GraphMode, GraphSizes
from service.memory.budget_types import Estimate
from service.memory.host import NO_FLAGS, HostFlags
from service.memory.media_choices import ALL_MEDIA, MediaChoices
from service.memory.offloading import Offload
from service.memory.parallelism import Parallelism
from service.memory.weights.resident.adapters import AdapterSlots


@dataclass(frozen=True, slots=True)
class BudgetInputs:
    """What the budget depends on besides the model, with every default resolved."""

    release: Version
    total: Estimate
    """The device's total memory as CUDA reports it."""
    compute_capability: tuple[int, int]
    gpu_memory_utilization: float
    max_num_batched_tokens: int
    max_num_seqs: int
    max_model_len: int | None
    """``None`` where nothing of the budget depends on it."""
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    data_parallel_size: int = 1
    enable_expert_parallel: bool = False
    enforce_eager: bool = False
    max_cudagraph_capture_size: int | None = None
    """Tokens of the largest CUDA graph; ``None``: the release's default."""
    graph_mode: GraphMode = GraphMode.FULL_AND_PIECEWISE
    """Which steps have CUDA graphs."""
    graph_sizes: GraphSizes = RELEASE_SIZES
    """What the caller says of the sizes of CUDA graphs."""
    expands_segments: bool = False
    """PyTorch's allocator maps memory into segments that grow."""
    reserves_graphs: bool | None = None
    """Whether the V1 model runner sets memory for graphs aside; ``None``: as the release does."""
    speculative_tokens: int = 0
    """Draft tokens of one request in one step."""
    v2_model_runner: bool = False
    """The V2 model runner runs the model."""
    unified_memory: bool = False
    """The GPU shares the host's memory."""
    nvlink: bool = True
    """NVLink joins the tensor parallel ranks."""
    language_model_only: bool = False
    balances_experts: bool = False
    """Experts are moved between ranks by their load (EPLB)."""
    spare_experts: int = 0
    """Experts that all ranks together store beside the model's own."""
    media: MediaChoices = ALL_MEDIA
    """What the flags say about images, videos and sound."""
    whole_encoders: bool = False
    """Each tensor parallel rank has whole encoders."""
    free_memory_bytes: int | None = None
    """Bytes that are free when the engine starts, as given by the caller."""
    kv_cache_memory_bytes: int | None = None
    """Bytes of the cache per rank, as set by the caller."""
    dtype: str | None = None
    """The model's dtype in the engine; ``None``: the config's."""
    quantization: str | None = None
    """The flag ``--quantization``, which quantizes an unquantized checkpoint while it loads."""
    turboquant_layers: frozenset[int] = frozenset()
    """Numbers of the layers whose cache is in a TurboQuant type."""
    checkpoint_bytes: int | None = None
    """Bytes of all tensors of the checkpoint; ``None``: unknown."""
    offload: Offload | None = None
    """Which weights lie in the host's memory; ``None``: none do."""
    all2all_backend: str | None = None
    """How tokens are sent to experts on other ranks; ``None``: the release's default."""
    expert_kernel: str | None = None
    """Kernel named for routed experts; ``None``: the release chooses."""
    sleeps: bool = False
    """The engine may sleep, and then has its weights in the host's memory."""
    host: HostFlags = NO_FLAGS
    """What flags ask of the host's memory."""
    reserved_bytes: int = 0
    """Bytes of the GPU that are set aside for the API server."""
    adapters: AdapterSlots | None = None
    """LoRA adapters for which there is room; ``None``: none are served."""

    @property
    def sums_by_nccl(self) -> bool:
        """Whether NCCL sums over ranks, which cannot read each other's memory over NVLink."""
        return self.tensor_parallel_size > 1 and not self.nvlink

    @property
    def deployment(self) -> Parallelism:
        """The inputs that decide which weights a rank has."""
        return Parallelism(
            tensor_parallel_size=self.tensor_parallel_size,
            pipeline_parallel_size=self.pipeline_parallel_size,
            data_parallel_size=self.data_parallel_size,
            enable_expert_parallel=self.enable_expert_parallel,
            compute_capability=self.compute_capability,
            language_model_only=self.language_model_only,
            spare_experts=self.spare_experts,
            media=self.media,
            whole_encoders=self.whole_encoders,
            dtype=self.dtype,
        )
