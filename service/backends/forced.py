"""What the engine itself decides about attention before it asks the backends."""

from collections.abc import Collection

from packaging.version import Version

from service.backends.conditions import first_outcome
from service.backends.flash_attention import subject_of
from service.backends.request import AttentionRequest
from service.backends.rules import Forced, release_rules
from service.gpus.capability import ComputeCapability


def forced_attention(  # noqa: PLR0913 - each is asked of by one rule of the engine
    release: Version,
    capability: ComputeCapability,
    *,
    head_sizes: Collection[int],
    kv_cache_dtype: str,
    chosen: str | None = None,
    gemma4: bool = False,
) -> Forced:
    """Return the backend and FlashAttention version the engine sets for a whole model.

    TurboQuant caches hold FlashAttention at version 2; a Gemma 4 whose layers differ in head size gets one
    backend or one FlashAttention version for all of them. ``kv_cache_dtype`` is the engine's resolved one
    (not a layer's), ``head_sizes`` those of all layers.
    """
    rules = release_rules(release)
    request = AttentionRequest(
        head_size=max(head_sizes), dtype="auto", kv_cache_dtype=kv_cache_dtype, num_heads=1, num_kv_heads=1
    )
    subject = subject_of(request, rules, capability, chosen)
    by_dtype = first_outcome(rules.forced, subject) or Forced()
    differing = gemma4 and len(set(head_sizes)) > 1
    by_model = (first_outcome(rules.forced_gemma4, subject) if differing else None) or Forced()
    return Forced(
        backend=by_dtype.backend or by_model.backend,
        flash_attn_version=by_dtype.flash_attn_version or by_model.flash_attn_version,
    )
