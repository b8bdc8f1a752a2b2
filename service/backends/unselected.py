"""Layers whose own class names their backend, so that the selector does not choose it."""

from enum import StrEnum
from functools import lru_cache
from typing import Final

from packaging.version import Version

from service.backends.attention_request import AttentionRequest
from service.backends.backend import AttentionBackend
from service.backends.backend_rules import (
    RefusedBackend,
    ReleaseRules,
    UnknownBackend,
    rules_on_gpu,
)
from service.backends.conditions import Subject, first_outcome
from service.backends.flash_attention import subject_of
from service.backends.selection import built
from service.backends.validation import joined_reasons
from service.engines.refusal import EngineRefusal
from service.gpus.capability import ComputeCapability

_STATE: Final = AttentionRequest(
    head_size=1, dtype="auto", kv_cache_dtype="auto", num_heads=1, num_kv_heads=1
)


class UnselectedLayer(StrEnum):
    """Kinds of layers that have a cache and a backend of their own."""

    GATED_DELTA_NET = "gated_delta_net"
    KIMI_DELTA_ATTENTION = "kimi_delta_attention"
    KIMI_K3_DELTA_ATTENTION = "kimi_k3_delta_attention"
    MAMBA1 = "mamba1"
    MAMBA2 = "mamba2"
    SHORT_CONVOLUTION = "short_convolution"
    NGRAM_CONVOLUTION = "ngram_convolution"
    LINEAR_ATTENTION = "linear_attention"
    """Lightning attention (MiniMax Text and M1)."""
    BAILING_LINEAR_ATTENTION = "bailing_linear_attention"
    SPARSE_INDEXER = "sparse_indexer"
    """Keys by which DeepSeek V3.2 and GLM-5 select tokens."""
    POOLED_INDEXER = "pooled_indexer"
    """Keys by which GLM-5 Next selects groups of tokens."""
    POOLED_TAIL = "pooled_tail"
    """Keys of the tokens of its incomplete groups."""
    DIFFERING_VALUES = "differing_values"
    """Multi-head attention whose values are of another size than its keys (MiMo V2)."""
    BLOCK_SPARSE = "block_sparse"
    """Attention with heads over the blocks that an indexer selects (MiniMax M3)."""
    BLOCK_INDEXER = "block_indexer"
    """Keys by which it selects them."""
    GROUP_SPARSE = "group_sparse"
    """Attention with heads over the groups of tokens that an indexer selects (Qwen4 Exp)."""
    GROUP_INDEXER = "group_indexer"
    """Keys of groups and of their tokens, by which it selects them."""
    REGION_SPARSE = "region_sparse"
    """Attention with heads over regions that groups of heads select (Step 5)."""
    PINNED_FLASH_ATTENTION = "pinned_flash_attention"
    """Its layers between, which take FlashAttention."""
    REGION_SUMMARIES = "region_summaries"
    """Summaries of regions, by which they are selected."""
    REGION_RING = "region_ring"
    """Keys of the region that is not summed up yet."""
    WINDOWED_MLA = "windowed_mla"
    """MLA with a window (Dots 3 Note)."""
    PADDED_MLA = "padded_mla"
    """Its sparse layers, with rows as wide as those of the windowed ones."""
    STORED_SINKS = "stored_sinks"
    """Attention to learned tokens that stand in the cache (openPangu Pro MoE V2)."""
    CONVOLVED_ATTENTION = "convolved_attention"
    """Attention to keys and values that come of short convolutions (Inkling)."""
    PACKED_CONVOLUTIONS = "packed_convolutions"
    """States of those convolutions."""
    DEEPSEEK_V4_COMPRESSED = "deepseek_v4_compressed"
    DEEPSEEK_V4_WINDOW = "deepseek_v4_window"
    DEEPSEEK_V4_INDEXER = "deepseek_v4_indexer"
    DEEPSEEK_V4_COMPRESSOR = "deepseek_v4_compressor"
    """The compressor's running state."""
    DEEPSEEK_V41_COMPRESSED = "deepseek_v41_compressed"
    DEEPSEEK_V41_INDEXER = "deepseek_v41_indexer"
    DEEPSEEK_V41_COMPRESSOR = "deepseek_v41_compressor"


@lru_cache(maxsize=1024)
def unselected_backend(  # noqa: PLR0913 - as select_backend, and the kind
    layer: UnselectedLayer,
    release: Version,
    capability: ComputeCapability,
    *,
    request: AttentionRequest = _STATE,
    chosen: str | None = None,
    device_name: str = "this GPU",
) -> AttentionBackend:
    """Return the backend of a layer for which the selector does not choose one.

    Args:
        layer: its kind.
        release: the engine's release.
        capability: the GPU's compute capability.
        request: the layer's demands; states and indexers have none.
        chosen: the backend that the user named.
        device_name: the GPU as its driver names it.

    Raises:
        EngineRefusal: the layer cannot be built so.
        UnknownBackend: the release has no such layer.
        LookupError: the release is older than the first one described.
    """
    rules = rules_on_gpu(release, capability)
    subject = subject_of(request, rules, capability, chosen)
    return built(rules.traits(_named(layer, subject, rules)), subject, rules, device_name)


def _named(layer: UnselectedLayer, subject: Subject, rules: ReleaseRules) -> str:
    named = first_outcome(rules.unselected.get(layer, ()), subject)
    if named is None:
        raise UnknownBackend(f"the release names no backend for {layer}")
    if isinstance(named, RefusedBackend):
        raise EngineRefusal(
            named.stage, joined_reasons(named.failure.message, subject), type=named.failure.type
        )
    return named
