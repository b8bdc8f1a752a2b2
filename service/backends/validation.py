"""Why a backend cannot serve a layer (``AttentionBackend.validate_configuration``)."""

from collections.abc import Iterator

from service.backends.backend import KernelBlockSizes
from service.backends.backend_rules import ReleaseRules, Traits
from service.backends.conditions import Subject, first_outcome


def kernel_block_sizes_of(traits: Traits, subject: Subject) -> KernelBlockSizes:
    """Return the block sizes that the backend's kernels read for this layer."""
    sizes = first_outcome(traits.kernel_block_sizes, subject)
    if sizes is None:
        raise LookupError(f"{traits.name} declares no kernel block size for {subject.request}")
    return sizes


def is_valid(traits: Traits, subject: Subject, rules: ReleaseRules) -> bool:
    """Say whether a backend serves a layer."""
    return next(_reasons(traits, subject, rules), None) is None


def invalid_reasons(traits: Traits, subject: Subject, rules: ReleaseRules) -> tuple[str, ...]:
    """Return the engine's reasons against a backend, in its words and order; none when it is valid."""
    return tuple(_reasons(traits, subject, rules))


def _reasons(traits: Traits, subject: Subject, rules: ReleaseRules) -> Iterator[str]:  # noqa: C901, PLR0912 - the engine's list
    request = subject.request
    if not traits.head_sizes.holds(subject):
        yield "head_size not supported"
    if not traits.dtypes.holds(subject):
        yield "dtype not supported"
    if not traits.kv_cache_dtypes.holds(subject):
        yield "kv_cache_dtype not supported"
    if not _accepts_block_size(traits, subject, rules):
        yield "block_size not supported"
    if request.mm_prefix and not traits.mm_prefix.holds(subject):
        yield "partial multimodal token full attention not supported"
    if request.mla and not traits.mla:
        yield "MLA not supported"
    if traits.mla and not request.mla:
        yield "non-MLA not supported"
    if request.sinks and not traits.sinks.holds(subject):
        yield rules.sink_reason
    if request.sparse and not traits.sparse:
        yield "sparse not supported"
    if traits.sparse and not request.sparse:
        yield "non-sparse not supported"
    if not traits.capabilities.holds(subject):
        yield "compute capability not supported"
    if not traits.attn_types.holds(subject):
        yield f"attention type {rules.attn_type_printed.format(request=request)} not supported"
    if request.sliding_window and not traits.sliding_window.holds(subject):
        yield "sliding window not supported"
    if request.context_parallel and not traits.context_parallel.holds(subject):
        yield "DCP not supported"
    refusal = first_outcome(traits.refusals, subject)
    if refusal is not None:
        yield joined_reasons(refusal, subject)


def joined_reasons(template: str, subject: Subject, device_name: str = "") -> str:
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
        v_head_dim=request.v_head_dim,
        kv_lora_rank=request.kv_lora_rank,
        index_topk=request.index_topk,
    )


def _accepts_block_size(traits: Traits, subject: Subject, rules: ReleaseRules) -> bool:
    size = subject.request.block_size
    if size is None or not rules.block_size_filters:
        return True
    return kernel_block_sizes_of(traits, subject).accepts(size)
