"""Which FlashAttention version a layer runs with (``fa_utils.get_flash_attn_version``)."""

from service.backends.attention_request import AttentionRequest
from service.backends.backend_rules import ReleaseRules
from service.backends.conditions import Subject, first_outcome
from service.gpus.capability import ComputeCapability


def subject_of(
    request: AttentionRequest, rules: ReleaseRules, capability: ComputeCapability, chosen: str | None = None
) -> Subject:
    """Join a request and a GPU with what the release derives from them."""
    quantized = request.kv_cache_dtype in rules.quantized_kv_cache_dtypes
    subject = Subject(request, capability, chosen, quantized=quantized)
    available = frozenset(rule.outcome for rule in rules.flash_attn_available if rule.applies(subject))
    version = request.flash_attn_version or first_outcome(rules.flash_attn_default, subject)
    of_layer = version
    for rule in rules.flash_attn_of_layer:
        if rule.outcome.old == of_layer and rule.applies(subject):
            of_layer = rule.outcome.new
    return Subject(
        request,
        capability,
        chosen,
        quantized=quantized,
        flash_attn_available=available,
        flash_attn=version if version in available else None,
        flash_attn_of_layer=of_layer if of_layer in available else None,
    )
