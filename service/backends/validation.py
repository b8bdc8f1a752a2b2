"""Why a backend cannot serve a layer (``AttentionBackend.validate_configuration``)."""

from service.backends.backend import KernelBlockSizes
from service.backends.conditions import Subject, first_outcome
from service.backends.rules import ReleaseRules, Traits


def kernel_block_sizes_of(traits: Traits, subject: Subject) -> KernelBlockSizes:
    """Return the block sizes that the backend's kernels read for this layer."""
    sizes = first_outcome(traits.kernel_block_sizes, subject)
    if sizes is None:
        raise LookupError(f"{traits.name} declares no kernel block size for {subject.request}")
    return sizes


def invalid_reasons(traits: Traits, subject: Subject, rules: ReleaseRules) -> tuple[str, ...]:
    """Return the engine's reasons against a backend, in its words and order; none when it is valid."""
    request = subject.request
    attn_type = rules.attn_type_printed.format(request=request)
    checks = (
        (traits.head_sizes.holds(subject), "head_size not supported"),
        (traits.dtypes.holds(subject), "dtype not supported"),
        (traits.kv_cache_dtypes.holds(subject), "kv_cache_dtype not supported"),
        (_accepts_block_size(traits, subject, rules), "block_size not supported"),
        (
            not request.mm_prefix or traits.mm_prefix.holds(subject),
            "partial multimodal token full attention not supported",
        ),
        (traits.mla or not request.mla, "MLA not supported"),
        (request.mla or not traits.mla, "non-MLA not supported"),
        (not request.sinks or traits.sinks.holds(subject), rules.sink_reason),
        (traits.sparse or not request.sparse, "sparse not supported"),
        (request.sparse or not traits.sparse, "non-sparse not supported"),
        (traits.capabilities.holds(subject), "compute capability not supported"),
        (traits.attn_types.holds(subject), f"attention type {attn_type} not supported"),
        (
            not request.sliding_window or traits.sliding_window.holds(subject),
            "sliding window not supported",
        ),
        (not request.context_parallel or traits.context_parallel.holds(subject), "DCP not supported"),
    )
    reasons = tuple(reason for supported, reason in checks if not supported)
    refusal = first_outcome(traits.refusals, subject)
    return reasons if refusal is None else (*reasons, spoken(refusal, subject))


def spoken(template: str, subject: Subject, device_name: str = "") -> str:
    """Fill in one of the engine's messages."""
    request = subject.request
    return template.format(
        device_name=device_name,
        capability=subject.capability,
        major=subject.capability.major,
        minor=subject.capability.minor,
        dtype=request.dtype,
        head_size=request.head_size,
        chosen=subject.chosen,
        kv_cache_dtype=request.kv_cache_dtype,
        num_heads=request.num_heads,
        num_kv_heads=request.num_kv_heads,
        dcp_size=request.decode_context_parallel_size,
        qk_nope_head_dim=request.qk_nope_head_dim,
        qk_rope_head_dim=request.qk_rope_head_dim,
        kv_lora_rank=request.kv_lora_rank,
        index_topk=request.index_topk,
    )


def _accepts_block_size(traits: Traits, subject: Subject, rules: ReleaseRules) -> bool:
    size = subject.request.block_size
    if size is None or not rules.block_size_filters:
        return True
    return kernel_block_sizes_of(traits, subject).accepts(size)
