"""Which attention backend a release chooses for one layer, or why none will do."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from packaging.version import Version

from service.backends.backend import AttentionBackend, EngineFailure
from service.backends.conditions import Subject, first_outcome
from service.backends.flash_attention import subject_of
from service.backends.request import AttentionRequest
from service.backends.rules import ReleaseRules, Traits, release_rules
from service.backends.validation import invalid_reasons, kernel_block_sizes_of
from service.engines.refusal import EngineRefusal, Stage
from service.gpus.capability import ComputeCapability

# Features outside a layer's request, as the engine prints them when they are not in use.
_UNUSED: Final[Mapping[str, str]] = {
    "use_sparse": "False",
    "use_per_head_quant_scales": "False",
    "attn_type": "AttentionType.DECODER",
    "use_non_causal": "False",
    "use_batch_invariant": "False",
    "use_kv_connector": "False",
    "use_adaptive_verification": "False",
    "use_pcp": "False",
    "use_dcp": "False",
    "use_rswa": "False",
}


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
    rules = release_rules(release)
    subject = subject_of(request, rules, capability, chosen)
    traits = choose(rules, subject)
    _construct(traits, subject, rules, device_name)
    failure = first_outcome(traits.run_failures, subject)
    return AttentionBackend(
        name=traits.name,
        kernel_block_sizes=kernel_block_sizes_of(traits, subject),
        spec_block_sizes=kernel_block_sizes_of(
            traits, subject_of(replace(request, model_head_size=None), rules, capability, chosen)
        ),
        indexes_kv_by_block_stride=traits.indexes_kv_by_block_stride,
        flash_attn_version=subject.flash_attn_of_layer,
        failure_when_run=None if failure is None else _spoken(failure, subject),
    )


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
    reasons = invalid_reasons(traits, subject)
    if reasons:
        raise EngineRefusal(
            Stage.BACKEND,
            f"Selected backend AttentionBackendEnum.{name} is not valid for this configuration. "
            f"Reason: {list(reasons)}",
            fixes=_fixes(rules, subject),
        )
    return traits


def _first_valid(rules: ReleaseRules, subject: Subject) -> Traits:
    reasons: dict[str, tuple[str, ...]] = {}
    for name in candidates(rules, subject):
        traits = rules.traits(name)
        reasons[name] = invalid_reasons(traits, subject)
        if not reasons[name]:
            return traits
    listed = ", ".join(f"{name}: [{', '.join(why)}]" for name, why in reasons.items())
    raise EngineRefusal(
        Stage.BACKEND,
        f"No valid attention backend found for cuda with {_selector_config(rules, subject.request)}. "
        f"Reasons: {{{listed}}}.",
        fixes=_fixes(rules, subject),
    )


def _selector_config(rules: ReleaseRules, request: AttentionRequest) -> str:
    printed = {
        "head_size": request.head_size,
        "dtype": f"torch.{request.dtype}",
        "kv_cache_dtype": request.kv_cache_dtype,
        "block_size": request.block_size,
        "use_mla": request.mla,
        "has_sink": request.sinks,
        "use_mm_prefix": request.mm_prefix,
        "has_sliding_window": request.sliding_window,
        **_UNUSED,
    }
    fields = ", ".join(f"{field}={printed[field]}" for field in rules.selector_fields)
    return f"AttentionSelectorConfig({fields})"


def _construct(traits: Traits, subject: Subject, rules: ReleaseRules, device_name: str) -> None:
    found = first_outcome(traits.construction_failures, subject)
    if found is not None:
        failure = _spoken(found.failure, subject, device_name)
        raise EngineRefusal(found.stage, failure.message, type=failure.type, fixes=_fixes(rules, subject))


def _spoken(failure: EngineFailure, subject: Subject, device_name: str = "") -> EngineFailure:
    message = failure.message.format(
        device_name=device_name,
        capability=subject.capability,
        kv_cache_dtype=subject.request.kv_cache_dtype,
    )
    return EngineFailure(failure.type, message)


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
    valid = (rules.traits(name) for name in names if not invalid_reasons(rules.traits(name), subject))
    first = next(valid, None)
    return first is not None and first_outcome(first.construction_failures, subject) is None
