"""ServerFlags: the flags of `llama-server` that decide its memory."""

from dataclasses import dataclass
from enum import StrEnum


class FlashAttention(StrEnum):
    """`-fa`."""

    ON = "on"
    OFF = "off"
    AUTO = "auto"
    """On where the devices support it, which CUDA does."""


class SplitMode(StrEnum):
    """`-sm`."""

    NONE = "none"
    LAYER = "layer"
    ROW = "row"
    TENSOR = "tensor"


@dataclass(frozen=True, slots=True)
class ServerFlags:
    """Flags by the server's long names. ``None``: not given."""

    ctx_size: int | None = None
    """`-c`: cells of the context, of all sequences together; 0 is the training length."""
    parallel: int | None = None
    """`-np`: slots."""
    n_gpu_layers: int | None = None
    """`-ngl`: layers on GPUs, the output counted as one; ``None`` is all."""
    cache_type_k: str = "f16"
    cache_type_v: str = "f16"
    flash_attn: FlashAttention = FlashAttention.AUTO
    swa_full: bool = False
    kv_unified: bool | None = None
    tensor_split: tuple[float, ...] = ()
    split_mode: SplitMode = SplitMode.LAYER
    batch_size: int = 2048
    ubatch_size: int = 512
    fit: bool = True
    fit_target: int = 1024
    """`--fit-target`: MiB that stay free on each device."""
    fit_ctx: int = 4096
    """`--fit-ctx`: least context that `--fit` chooses."""
    kv_offload: bool = True
    """`--no-kv-offload` leaves the cache in the host's memory."""
    draft_max: int = 0
    """`--draft-max` with drafts of the model itself: further rows of recurrent states (`n_rs_seq`)."""
