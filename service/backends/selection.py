"""Which attention backend a release chooses for one layer, or why none will do."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from packaging.version import Version

from service.backends.attention_request import AttentionRequest
from service.backends.backend import (
    DEFAULT_BLOCK_SIZE,
    AttentionBackend,
    EngineFailure,
    KernelBlockSizes,
)
from service.backends.backend_rules import ReleaseRules, Traits, rules_on_gpu
from service.backends.conditions import Subject, first_outcome
from service.backends.flash_attention import subject_of
from service.backends.validation import (
    invalid_reasons,
    is_valid,
    joined_reasons,
    kernel_block_sizes_of,
)
from service.engines.refusal import EngineRefusal, Stage
from service.gpus.capability import ComputeCapability

MOST_NEAREST: Final = 2
"""Backends named at most, where none fits."""


def select_backend(
    request: AttentionRequest,
    release: Version,
    capability: ComputeCapability,
    *,
    chosen: str | None = None,
    device_name: str = "this GPU",
) -> AttentionBackend:
    """Return the backend that the release chooses for a layer.

    Args:
        request: the layer.
        release: the engine's release.
        capability: the GPU's compute capability.
        chosen: the backend that the user named or that the engine forces (see ``forced_attention``).
        device_name: the GPU as its driver names it; some messages quote it.

    Raises:
        EngineRefusal: no backend is valid, the chosen one is not, or the layer cannot be built with it.
        UnknownBackend: the chosen backend is not described for this release.
        LookupError: the release is older than the first one described.
    """
    rules = rules_on_gpu(release, capability)
    subject = subject_of(request, rules, capability, chosen)
    return built(choose(rules, subject), subject, rules, device_name)


def built(traits: Traits, subject: Subject, rules: ReleaseRules, device_name: str) -> AttentionBackend:
    """Return a backend as it behaves for the layer that is built with it.

    Raises:
        EngineRefusal: the layer cannot be built with it.
    """
    _construct(traits, subject, rules, device_name)
    cache_dtype = first_outcome(traits.cache_dtypes, subject) or subject.request.kv_cache_dtype
    spec_block_sizes = kernel_block_sizes_of(traits, _of_spec(subject, cache_dtype, rules))
    failure = first_outcome(traits.run_failures, subject)
    return AttentionBackend(
        name=traits.known_as or traits.name,
        kernel_block_sizes=kernel_block_sizes_of(traits, subject),
        spec_block_sizes=spec_block_sizes,
        indexes_kv_by_block_stride=traits.indexes_kv_by_block_stride,
        cache_dtype=cache_dtype,
        nameless=traits.nameless,
        plain_cache=traits.plain_cache,
        flash_attn_version=subject.flash_attn_of_layer,
        packed_rows=first_outcome(traits.packed_rows, subject) or _largest_fixed(spec_block_sizes),
        layouts=first_outcome(traits.layouts, subject) or (),
        unpacked_in_prompts=first_outcome(traits.unpacked_in_prompts, subject),
        failure_when_run=None
        if failure is None
        else EngineFailure(failure.type, joined_reasons(failure.message, subject)),
        failure_at_setup=first_outcome(traits.setup_failures, subject)
        or _without_decode_lse(traits, subject, rules),
    )


def _without_decode_lse(traits: Traits, subject: Subject, rules: ReleaseRules) -> EngineFailure | None:
    """Return how decode context parallelism fails with a backend that returns no softmax LSE for decode.

    Source: vLLM 0.10.2 to 0.12.0, GPUModelRunner.initialize_kv_cache; 0.13.0 to 0.33.0,
    check_attention_cp_compatibility, which the model runner calls once the cache is sized.
    """
    impl = first_outcome(traits.no_decode_lse, subject) if subject.request.context_parallel else None
    if impl is None:
        return None
    return EngineFailure("AssertionError", rules.no_decode_lse_message.format(impl=impl))


def _of_spec(subject: Subject, cache_dtype: str, rules: ReleaseRules) -> Subject:
    """Return the layer as its backend sees it for the cache spec: by its own head size and stored type."""
    request = subject.request
    if cache_dtype != request.kv_cache_dtype or subject.model_head_size != request.head_size:
        request = replace(request, model_head_size=None, kv_cache_dtype=cache_dtype)
        subject = subject_of(request, rules, subject.capability, subject.chosen)
    return replace(subject, of_spec=True)


def _largest_fixed(sizes: KernelBlockSizes) -> int:
    return 1 if sizes.multiples_of else max(sizes.fixed)


def candidates(rules: ReleaseRules, subject: Subject) -> tuple[str, ...]:
    """Return the names of the backends in the order the release tries them."""
    orders = rules.mla_priorities if subject.request.mla else rules.multi_head_priorities
    return first_outcome(orders, subject) or ()


def choose(rules: ReleaseRules, subject: Subject) -> Traits:
    """Return the backend that the engine's selector answers, before any layer is built with it.

    Raises:
        EngineRefusal: no backend is valid, or the chosen one is not.
    """
    if subject.chosen is None:
        return _first_valid(rules, subject)
    return _chosen(rules, subject, subject.chosen)


def _chosen(rules: ReleaseRules, subject: Subject, name: str) -> Traits:
    traits = rules.traits(name)
    reasons = invalid_reasons(traits, subject, rules)
    if reasons:
        raise EngineRefusal(
            Stage.BACKEND,
            f"Selected backend AttentionBackendEnum.{name} is not valid for this configuration. "
            f"Reason: {list(reasons)}",
            find_fixes=partial(_fixes, rules, subject),
        )
    return traits


def _first_valid(rules: ReleaseRules, subject: Subject) -> Traits:
    tried = tuple(map(rules.traits, candidates(rules, subject)))
    for traits in tried:
        if is_valid(traits, subject, rules):
            return traits
    refused = {traits.name: invalid_reasons(traits, subject, rules) for traits in tried}
    listed = ", ".join(f"{name}: [{', '.join(reasons)}]" for name, reasons in refused.items())
    config = rules.selector_config.format(
        request=subject.request,
        attn_type=rules.attn_type_printed.format(request=subject.request),
        block_size=subject.request.block_size or DEFAULT_BLOCK_SIZE,
    )
    raise EngineRefusal(
        Stage.BACKEND,
        f"No valid attention backend found for cuda with {config}. Reasons: {{{listed}}}.",
        detail=_nearest(refused),
        find_fixes=partial(_fixes, rules, subject),
    )


def _nearest(refused: Mapping[str, Sequence[str]]) -> str:
    """Say which backends have the fewest reasons against them."""
    fewest = min(map(len, refused.values()), default=0)
    near = [f"{name} ({', '.join(reasons)})" for name, reasons in refused.items() if len(reasons) == fewest]
    named = "; ".join(near[:MOST_NEAREST])
    return f"None of {len(refused)} attention backends fits. Nearest: {named}." if near else ""


def _construct(traits: Traits, subject: Subject, rules: ReleaseRules, device_name: str) -> None:
    found = first_outcome(traits.construction_failures, subject)
    if found is not None:
        raise EngineRefusal(
            found.stage,
            joined_reasons(found.failure.message, subject, device_name),
            type=found.failure.type,
            device=device_name if "{device_name}" in found.failure.message else "",
            find_fixes=partial(_fixes, rules, subject),
        )


def _fixes(rules: ReleaseRules, subject: Subject) -> tuple[str, ...]:
    """Name the single flags that let this layer start, each tried before it is named."""
    request, chosen = subject.request, subject.chosen
    attempts = [(f"--kv-cache-dtype {request.dtype}", replace(request, kv_cache_dtype=request.dtype), chosen)]
    if request.block_size is not None:
        attempts.append(("omit --block-size", replace(request, block_size=None), chosen))
    if chosen is not None:
        names = (name for name in candidates(rules, subject) if name != chosen)
        attempts.extend((f"--attention-backend {name}", request, name) for name in names)
    return tuple(
        fix
        for fix, changed, backend in attempts
        if _starts(rules, subject_of(changed, rules, subject.capability, backend))
    )


def _starts(rules: ReleaseRules, subject: Subject) -> bool:
    names = candidates(rules, subject) if subject.chosen is None else (subject.chosen,)
    first = next((traits for traits in map(rules.traits, names) if is_valid(traits, subject, rules)), None)
    return first is not None and first_outcome(first.construction_failures, subject) is None
