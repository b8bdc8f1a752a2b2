"""The type of the keys of sparse indexers, which ``--attention-config`` sets."""

from typing import Final

from service.architecture.layers.attention import Attention
from service.architecture.layers.compressed_attention import CompressedAttention
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.model import ModelArchitecture
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.indexers import IndexerRules
from service.gpus.capability import ComputeCapability

AUTO: Final = "auto"
FP4: Final = "mxfp4"
FP8: Final = frozenset({"fp8", "fp8_e4m3"})
DATA_CENTER_BLACKWELL: Final = 10
ADA: Final = ComputeCapability(8, 9)


def resolve_indexer_dtype(architecture: ModelArchitecture, flags: ServeFlags, rules: IndexerRules) -> str:
    """Return the type of indexers' keys, ``auto`` for the model's own.

    Source: vLLM 0.28.0 and 0.29.0, AttentionConfig.__post_init__: the older key stands for ``mxfp4``; 0.24.0
    to 0.27.1, DeepseekV4Indexer: use_fp4_indexer_cache alone.

    Raises:
        EngineRefusal: the release does not know the older key, or both keys contradict (stage ``config``).
    """
    read = rules.sparse_keys_by_name or not _has_sparse_indexer(architecture)
    given = (flags.indexer_kv_dtype if read else None) or AUTO
    if flags.use_fp4_indexer_cache is None:
        return given
    if not rules.fp4_alias:
        words = "AttentionConfig: use_fp4_indexer_cache: Unexpected keyword argument"
        raise EngineRefusal(Stage.CONFIG, words, type="ValidationError")
    if not flags.use_fp4_indexer_cache:
        return given
    if rules.sparse_keys_by_name and given not in {AUTO, FP4}:
        words = (
            f"AttentionConfig: use_fp4_indexer_cache=True conflicts with indexer_kv_dtype={given!r}. Set "
            "only indexer_kv_dtype."
        )
        raise EngineRefusal(Stage.CONFIG, words, type="ValidationError")
    return FP4


def check_indexer_dtype(
    architecture: ModelArchitecture, dtype: str, capability: ComputeCapability, rules: IndexerRules
) -> None:
    """Refuse a type of keys that the model's indexer, or the card, cannot have.

    Source: vLLM 0.28.0, dsa_indexer_uses_fp4 and models/minimax_m3/common/indexer.py.

    Raises:
        EngineRefusal: stage ``model``.
    """
    if dtype == AUTO:
        return
    blackwell = capability.major == DATA_CENTER_BLACKWELL
    mixers = tuple(mixer for _, mixer in architecture.attention_layers)
    if any(isinstance(mixer, Attention) and mixer.block_indexer is not None for mixer in mixers):
        _check_block_keys(dtype, capability, rules, blackwell=blackwell)
    if _has_sparse_indexer(architecture):
        if dtype == FP4 and not blackwell:
            error, words = rules.fp4_refusal
            raise EngineRefusal(Stage.MODEL, words, type=error)
        if dtype not in FP8 | {FP4} and rules.sparse_keys_by_name:
            words = (
                f"indexer_kv_dtype={dtype!r} is not supported by the DeepSeek sparse indexer (expected one "
                "of ('fp8', 'mxfp4'))."
            )
            raise EngineRefusal(Stage.MODEL, words, type="ValueError")


def _has_sparse_indexer(architecture: ModelArchitecture) -> bool:
    sparse = (MultiHeadLatentAttention, CompressedAttention)
    mixers = (mixer for _, mixer in architecture.attention_layers)
    return any(isinstance(mixer, sparse) and mixer.indexer is not None for mixer in mixers)


def _check_block_keys(
    dtype: str, capability: ComputeCapability, rules: IndexerRules, *, blackwell: bool
) -> None:
    if dtype in FP8 and not rules.block_keys_fp8_anywhere and not blackwell:
        words = f"indexer_kv_dtype={dtype!r} is not supported by the Triton indexer impl."
    elif dtype in FP8 and capability < ADA:
        words = f"indexer_kv_dtype={dtype!r} requires CUDA fp8 support."
    elif dtype in {"mxfp4", "nvfp4"}:
        words = f"indexer_kv_dtype={dtype!r} needs the (not-yet-added) CuteDSL indexer impl."
    else:
        return
    raise EngineRefusal(Stage.MODEL, words, type="NotImplementedError")
