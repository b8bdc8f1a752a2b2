"""What the engine itself decides about attention before it asks the backends."""

from collections.abc import Collection

from packaging.version import Version

from service.backends.attention_request import AttentionRequest
from service.backends.backend_rules import Forced, ReleaseRules, rules_on_gpu
from service.backends.conditions import Subject, first_outcome
from service.backends.flash_attention import subject_of
from service.backends.validation import joined_reasons
from service.engines.refusal import EngineRefusal
from service.gpus.capability import ComputeCapability


def forced_attention(  # noqa: PLR0913 - each is read by one rule of the engine
    release: Version,
    capability: ComputeCapability,
    *,
    head_sizes: Collection[int],
    kv_cache_dtype: str,
    chosen: str | None = None,
    gemma4: bool = False,
    mla: bool = False,
    sparse: bool = False,
    qk_nope_head_dim: int | None = None,
) -> Forced:
    """Return the backend and FlashAttention version the engine sets for a whole model.

    TurboQuant caches hold FlashAttention at version 2; a Gemma 4 whose layers differ in head size gets one
    backend or one FlashAttention version for all of them; MLA on data-center Blackwell had its backend set
    before the order of trial put it first. ``kv_cache_dtype`` is the engine's resolved one (not a layer's),
    ``head_sizes`` those of all layers.

    Raises:
        EngineRefusal: the release refuses the cache dtype before it chooses a backend.
    """
    rules = rules_on_gpu(release, capability)
    request = AttentionRequest(
        head_size=max(head_sizes),
        dtype="auto",
        kv_cache_dtype=kv_cache_dtype,
        num_heads=1,
        num_kv_heads=1,
        mla=mla,
        sparse=sparse,
        qk_nope_head_dim=qk_nope_head_dim,
    )
    subject = subject_of(request, rules, capability, chosen)
    _refuse(rules, subject)
    by_any = first_outcome(rules.forced, subject) or Forced()
    differing = gemma4 and len(set(head_sizes)) > 1
    by_model = (first_outcome(rules.forced_gemma4, subject) if differing else None) or Forced()
    return Forced(
        backend=by_any.backend or by_model.backend,
        flash_attn_version=by_any.flash_attn_version or by_model.flash_attn_version,
    )


def model_cache_dtype(
    class_name: str, kv_cache_dtype: str, release: Version, capability: ComputeCapability
) -> str:
    """Return the cache dtype after the model's own class may have changed it, before backends are chosen.

    ``class_name`` is the architecture as ``architectures`` names it. A chosen backend may store yet another
    format (``AttentionBackend.cache_dtype``).
    """
    rules = rules_on_gpu(release, capability)
    rewrites = rules.model_cache_dtypes.get(class_name, ())
    if not rewrites:
        return kv_cache_dtype
    request = AttentionRequest(
        head_size=1, dtype="auto", kv_cache_dtype=kv_cache_dtype, num_heads=1, num_kv_heads=1
    )
    return first_outcome(rewrites, subject_of(request, rules, capability)) or kv_cache_dtype


def _refuse(rules: ReleaseRules, subject: Subject) -> None:
    refused = first_outcome(rules.refused_cache_dtypes, subject)
    if refused is not None:
        message = joined_reasons(refused.failure.message, subject)
        raise EngineRefusal(refused.stage, message, type=refused.failure.type, detail=refused.detail)
