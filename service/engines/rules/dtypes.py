"""Cache dtypes that a release accepts, and what decides which one a layer uses."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class CheckpointScheme(StrEnum):
    """What a compressed-tensors ``kv_cache_scheme`` does to the cache dtype."""

    IGNORED = "ignored"
    ALWAYS_FP8 = "always_fp8"
    FP8_WHEN_AUTO = "fp8_when_auto"


class E5m2Gate(StrEnum):
    """Which quantized checkpoints refuse ``fp8_e5m2``."""

    ANY_CACHE_METHOD = "any_cache_method"
    UNLESS_COMPRESSED_TENSORS_WITHOUT_SCHEME = "unless_compressed_tensors_without_scheme"


@dataclass(frozen=True, slots=True)
class DtypeRules:
    """Cache dtypes that a release accepts, and what decides which one a layer uses."""

    accepted: tuple[str, ...]
    """Accepted values of --kv-cache-dtype, in the engine's own order."""
    unknown_refusal: str
    """The engine's refusal of a cache dtype that it does not know."""
    turboquant_on_hybrids: bool
    """Whether TurboQuant runs beside recurrent layers."""
    block_types_declared: frozenset[str]
    """Hybrid classes whose attention layers the engine finds only by the types that an older config class
    lists.
    """
    turboquant_sorts_skipped_as_numbers: bool
    """Whether TurboQuant sorts --kv-cache-dtype-skip-layers as numbers, and so takes no `sliding_window`."""
    nvfp4_on_mla_refusal: str | None
    """The engine's refusal of nvfp4 with MLA before it looks for a backend; empty: none."""
    unpassed_classes: frozenset[str]
    """Classes whose attention is not handed the cache's settings and keeps the model's type (of Baichuan,
    those with ALiBi).
    """
    float_caches_match: bool
    """Whether a cache of 16-bit floats must be of the model's own type."""
    unstable_in_float16: frozenset[str]
    """Types of models (model_type) that are not run in float16: it is refused, and 'auto' passes it over."""
    checkpoint_algorithms: Mapping[str, str]
    """ModelOpt's kv_cache_quant_algo values that turn `auto` into a quantized cache."""
    checkpoint_scheme: CheckpointScheme
    """What a compressed-tensors kv_cache_scheme does to the cache dtype."""
    e5m2_gate: E5m2Gate
    """Which checkpoints refuse fp8_e5m2."""
    online_cache_scales: bool
    """Whether weights that are quantized to fp8 while they load bring scales for the cache, which fp8_e5m2
    does not go with.
    """
