"""The cache dtype of a start, and the layers that do not use it."""

from collections.abc import Iterable
from typing import Final

from packaging.version import Version

from service.architecture.layers.attention import Attention
from service.architecture.layers.compressed_attention import CompressedAttention
from service.architecture.model import ModelArchitecture
from service.architecture.quantization import Quantization
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.dtypes import CheckpointScheme, DtypeRules, E5m2Gate

BOUNDARY_LAYERS: Final = 2
"""Layers at each end that TurboQuant leaves at the model's type (vLLM 0.20.2, get_boundary_skip_layers)."""
CACHE_METHODS: Final = frozenset(
    {"fp8", "modelopt", "modelopt_fp4", "modelopt_mixed", "compressed-tensors", "quark", "petit_nvfp4"}
)
"""Checkpoint methods that bring a cache method (BaseKVCacheMethod) with scales for every attention layer."""
PLAIN_NVFP4: Final = frozenset({"nvfp4", "nvfp4_4over6"})


def check_cache_dtype(dtype: str, rules: DtypeRules, release: Version) -> None:
    """Refuse a cache dtype that the release does not know.

    Raises:
        EngineRefusal: the engine's validation error, which lists those it accepts (stage ``dtype``).
    """
    if dtype in rules.accepted:
        return
    *others, last = (f"'{name}'" for name in rules.accepted)
    raise EngineRefusal(
        Stage.DTYPE,
        rules.unknown_refusal.format(
            dtype=dtype, alternatives=f"{', '.join(others)} or {last}", names=list(rules.accepted)
        ),
        type="ValidationError",
        detail=f"vLLM {release} has no cache dtype {dtype!r}; it accepts {', '.join(rules.accepted)}.",
    )


def resolve_cache_dtype(dtype: str, quantization: Quantization | None, rules: DtypeRules) -> str:
    """Return the cache dtype after the checkpoint's override.

    Source: vLLM 0.32.0, resolve_kv_cache_dtype_string and Attention.__init__.
    """
    if quantization is None:
        return dtype
    if dtype == "auto" and quantization.method.startswith("modelopt"):
        return rules.checkpoint_algorithms.get(quantization.cache_algorithm or "", "auto")
    if quantization.method == "compressed-tensors" and quantization.kv_cache_scheme is not None:
        scheme = rules.checkpoint_scheme
        if scheme is CheckpointScheme.ALWAYS_FP8 or (
            scheme is CheckpointScheme.FP8_WHEN_AUTO and dtype == "auto"
        ):
            return "fp8"
    return dtype


def canonical(dtype: str) -> str:
    """Return the one name of cache dtypes that are stored alike: ``fp8`` is ``fp8_e4m3`` on CUDA.

    Source: vLLM 0.20.0, csrc/attention/dtype_fp8.cuh, get_fp8_kv_cache_data_type.
    """
    return "fp8" if dtype == "fp8_e4m3" else dtype


HALF_FLOATS: Final = frozenset({"float16", "bfloat16"})
HYBRID_REFUSAL: Final = (
    "TurboQuant KV cache is not supported for hybrid (attention + Mamba) models. "
    "Boundary layer protection requires uniform attention layers."
)
"""vLLM 0.20.0 to 0.20.2, engine/arg_utils.py create_engine_config."""
UNSET_LAYERS_REFUSAL: Final = (
    "TurboQuant KV cache requires identifiable full-attention layers, "
    "but none were found in the hybrid model config."
)
"""vLLM 0.21.0 to 0.33.0, TurboQuantConfig.get_boundary_skip_layers."""


def skipped_layers(
    dtype: str, requested: Iterable[str], architecture: ModelArchitecture, rules: DtypeRules
) -> frozenset[str]:
    """Return the layers that stay at the model's type, by index or as ``sliding_window``.

    Raises:
        EngineRefusal: TurboQuant on a hybrid in a release that cannot, or that does not find the model's
            attention layers (stage ``dtype``), or that sorts layers as numbers (stage ``config``).
    """
    skipped = frozenset(requested)
    if not is_turboquant(dtype):
        return skipped
    if architecture.is_hybrid:
        _check_hybrid(architecture, rules)
    else:
        skipped |= _boundary(architecture.declared.num_layers or len(architecture.layers))
    named = sorted(layer for layer in skipped if not layer.isdecimal())
    if named and rules.turboquant_sorts_skipped_as_numbers:
        raise EngineRefusal(Stage.CONFIG, f"invalid literal for int() with base 10: {named[0]!r}")
    return skipped


def _check_hybrid(architecture: ModelArchitecture, rules: DtypeRules) -> None:
    specified = (
        architecture.declared.attention_layers or architecture.class_name in rules.block_types_declared
    )
    if rules.turboquant_on_hybrids and specified:
        return
    raise EngineRefusal(
        Stage.DTYPE,
        UNSET_LAYERS_REFUSAL if rules.turboquant_on_hybrids else HYBRID_REFUSAL,
        type="NotImplementedError",
    )


def is_turboquant(dtype: str) -> bool:
    """Whether keys and values are packed into TurboQuant slots."""
    return dtype.startswith("turboquant_")


def _boundary(num_layers: int) -> frozenset[str]:
    ends = min(BOUNDARY_LAYERS, num_layers // 2)
    return frozenset(map(str, (*range(ends), *range(num_layers - ends, num_layers))))


def check_mla_cache_dtype(dtype: str, architecture: ModelArchitecture, rules: DtypeRules) -> None:
    """Refuse nvfp4 on MLA, where the release checks it.

    Raises:
        EngineRefusal: stage ``dtype``.
    """
    words = rules.nvfp4_on_mla_refusal
    if architecture.is_mla and words and dtype in PLAIN_NVFP4:
        raise EngineRefusal(Stage.DTYPE, f"VllmConfig: {words}", type="ValidationError")


def check_floats(dtype: str, model_dtype: str, rules: DtypeRules) -> None:
    """Refuse a cache of 16-bit floats of another type than the model's, where the release does.

    Raises:
        EngineRefusal: stage ``config``.
    """
    if not rules.float_caches_match or dtype not in HALF_FLOATS or dtype == model_dtype:
        return
    allowed = f"`auto` or `{model_dtype}`" if model_dtype in HALF_FLOATS else "`auto`"
    raise EngineRefusal(
        Stage.CONFIG,
        f'VllmConfig: kv_cache_dtype="{dtype}" is incompatible with dtype="{model_dtype}". '
        f"Please set `--kv-cache-dtype` to {allowed}.",
        type="ValidationError",
    )


def check_chunks(dtype: str, skipped: frozenset[str], architecture: ModelArchitecture) -> None:
    """Refuse TurboQuant if a layer with chunks is to be skipped: its backend is chosen as if it were not.

    Source: vLLM 0.20.2 and 0.32.0, layers/attention/chunked_local_attention.py and TurboQuantConfig.

    Raises:
        EngineRefusal: stage ``dtype``.
    """
    if not is_turboquant(dtype):
        return
    for index, mixer in architecture.attention_layers:
        if isinstance(mixer, Attention) and mixer.attention_chunk_size is not None and str(index) in skipped:
            presets = "turboquant_k8v4, turboquant_4bit_nc, turboquant_k3v4_nc, turboquant_3bit_nc"
            raise EngineRefusal(
                Stage.DTYPE, f"Unknown TurboQuant cache dtype: 'auto'. Valid presets: {presets}"
            )


def passes_cache_dtype(architecture: ModelArchitecture, rules: DtypeRules) -> bool:
    """Whether the model passes the requested cache dtype to its layers."""
    lead = architecture.lead_attention
    names = {architecture.class_name}
    if isinstance(lead, Attention) and lead.alibi:
        names.add(f"{architecture.class_name} alibi")
    return names.isdisjoint(rules.unpassed_classes)


def cache_method(quantization: Quantization | None) -> str | None:
    """Return the method by which weights are quantized, where it brings scales for the cache."""
    brings = quantization is not None and _brings_cache_method(quantization)
    return quantization.method if quantization is not None and brings else None


def check_e5m2(dtype: str, architecture: ModelArchitecture, rules: DtypeRules, method: str | None) -> None:
    """Refuse ``fp8_e5m2`` where weights are quantized by a ``method`` that brings scales for the cache.

    Raises:
        EngineRefusal: stage ``dtype``; its words speak of fp8 whatever the checkpoint's format.
    """
    quantization = architecture.quantization
    if dtype != "fp8_e5m2" or method is None:
        return
    if not passes_cache_dtype(architecture, rules):
        return
    if isinstance(architecture.lead_attention, CompressedAttention):
        # Its layers store one format whatever is requested, and use no cache method.
        return
    if (
        rules.e5m2_gate is E5m2Gate.UNLESS_COMPRESSED_TENSORS_WITHOUT_SCHEME
        and quantization is not None
        and quantization.method == "compressed-tensors"
        and quantization.kv_cache_scheme is None
    ):
        return
    raise EngineRefusal(
        Stage.DTYPE,
        "fp8_e5m2 kv-cache is not supported with fp8 checkpoints.",
        detail=f"These weights are quantized with {method}. The gate refuses every "
        "quantization that brings cache scales, not only fp8.",
    )


def _brings_cache_method(quantization: Quantization) -> bool:
    if quantization.method == "modelopt_mixed":
        return quantization.cache_algorithm is not None
    return quantization.method in CACHE_METHODS
