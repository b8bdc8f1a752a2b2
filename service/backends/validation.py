"""Why a backend cannot serve a layer (``AttentionBackend.validate_configuration``)."""

from service.backends.backend import KernelBlockSizes
from service.backends.conditions import Subject, first_outcome
from service.backends.rules import Traits


def kernel_block_sizes_of(traits: Traits, subject: Subject) -> KernelBlockSizes:
    """Return the block sizes that the backend's kernels read for this layer."""
    sizes = first_outcome(traits.kernel_block_sizes, subject)
    if sizes is None:
        raise LookupError(f"{traits.name} declares no kernel block size for {subject.request}")
    return sizes


def invalid_reasons(traits: Traits, subject: Subject) -> tuple[str, ...]:
    """Return the engine's reasons against a backend, in its words and order; none when it is valid."""
    request = subject.request
    block_size = request.block_size
    checks = (
        (traits.head_sizes.holds(subject), "head_size not supported"),
        (traits.dtypes.holds(subject), "dtype not supported"),
        (traits.kv_cache_dtypes.holds(subject), "kv_cache_dtype not supported"),
        (
            block_size is None or kernel_block_sizes_of(traits, subject).accepts(block_size),
            "block_size not supported",
        ),
        (
            not request.mm_prefix or traits.mm_prefix.holds(subject),
            "partial multimodal token full attention not supported",
        ),
        (traits.mla or not request.mla, "MLA not supported"),
        (request.mla or not traits.mla, "non-MLA not supported"),
        (not request.sinks or traits.sinks.holds(subject), "attention sinks not supported"),
        (not traits.sparse, "non-sparse not supported"),
        (traits.capabilities.holds(subject), "compute capability not supported"),
        (
            not request.sliding_window or traits.sliding_window.holds(subject),
            "sliding window not supported",
        ),
    )
    reasons = tuple(reason for supported, reason in checks if not supported)
    refusal = first_outcome(traits.refusals, subject)
    if refusal is None:
        return reasons
    return (
        *reasons,
        refusal.format(kv_cache_dtype=request.kv_cache_dtype, qk_nope_head_dim=request.qk_nope_head_dim),
    )
