"""Builds a FetchedConfig from a repository's files and metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from service.hub.errors import ConfigNotFound, NotATextModel
from service.hub.model_files.allowed_files import is_gguf
from service.hub.model_files.fetched_config import (
    CONFIG,
    CONSOLIDATED_INDEX,
    HF_QUANT_CONFIG,
    MODULES,
    PARAMS,
    POOLING,
    SENTENCES,
    TOKENIZER,
    WEIGHTS_INDEX,
    FetchedConfig,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.hub.model_files.model_info import ModelInfo

    Files = Mapping[str, Mapping[str, Any] | None]

MOST_FILES: Final = 3
"""Files that one fetch requests at most, without those of sentence-transformers."""
INDEXES: Final = (WEIGHTS_INDEX, CONSOLIDATED_INDEX)
"""Weights indexes. Only the total size is read from them; the config is usable without it."""
_LISTED: Final = (CONFIG, PARAMS, HF_QUANT_CONFIG, *INDEXES)
_MODULE_FILES: Final = (POOLING, SENTENCES)
"""Files that the engine reads where there is a `modules.json`."""
_UNLISTED: Final = (CONFIG, HF_QUANT_CONFIG)
_BYTES_OF: Final = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2, "F8_E4M3": 1, "F8_E5M2": 1}
"""Bytes per element of the safetensors dtypes that hold one element each, with no packing."""


def files_to_fetch(info: ModelInfo) -> tuple[str, ...]:
    """Return the files to request in parallel, the most important first."""
    if info.files is None:
        return _UNLISTED
    listed = tuple(file for file in _LISTED if file in info.files)[:MOST_FILES]
    modules = _MODULE_FILES if MODULES in info.files else ()
    return (*listed, *(file for file in modules if file in info.files))


def reads_tokenizer(info: ModelInfo, files: Files) -> bool:
    """Whether the engine limits the context to the tokenizer's: for learned positions, of pooling models."""
    config = files.get(CONFIG) or {}
    return info.may_hold(TOKENIZER, otherwise=True) and config.get("position_embedding_type") == "absolute"


def assemble(
    model_id: str, provenance: str, info: ModelInfo, files: Files, stored_bytes: int | None
) -> FetchedConfig:
    """Return a model's config from its parsed files (None for an absent file).

    `stored_bytes` is the size of all tensors from the weights index; None where unknown: it is then computed
    from the parameter counts, if no dtype packs elements.

    Raises:
        NotATextModel: there is no config, and the repository is a pipeline or for another task than text.
        ConfigNotFound: the repository has neither config.json nor params.json.
    """
    config, params = files.get(CONFIG), files.get(PARAMS)
    if config is None and params is None:
        raise _missing(model_id, info)
    counts = info.parameter_counts
    return FetchedConfig(
        id=model_id,
        revision=info.commit if info.stated else None,
        source="hub",
        config=config or {},
        params=params,
        consolidated=info.consolidated,
        quantization_config=files.get(HF_QUANT_CONFIG),
        pools=info.may_hold(MODULES, otherwise=False) and info.may_hold(POOLING, otherwise=False),
        pooling=files.get(POOLING),
        sentences=files.get(SENTENCES),
        tokenizer=files.get(TOKENIZER),
        parameter_counts=counts,
        total_parameters=sum(counts.values()) if counts else None,
        total_parameter_bytes=_bytes_of(counts) if stored_bytes is None else stored_bytes,
        task=info.task,
        provenance=provenance,
        note=_note(model_id, info),
    )


def _missing(model_id: str, info: ModelInfo) -> ConfigNotFound | NotATextModel:
    if info.pipeline or info.task is not None:
        return NotATextModel(model_id, info.task)
    gguf = info.files is not None and any(map(is_gguf, info.files))
    remark = f"; its weights are GGUF files: name one, as {model_id}:Q4_K_M" if gguf else ""
    return ConfigNotFound(model_id, CONFIG, remark, has_ggufs=gguf)


def _bytes_of(counts: Mapping[str, int] | None) -> int | None:
    if counts is None or not counts.keys() <= _BYTES_OF.keys():
        return None
    return sum(_BYTES_OF[dtype] * count for dtype, count in counts.items())


def _note(model_id: str, info: ModelInfo) -> str | None:
    if info.fault is not None:
        return f"parameter counts are not known: {info.fault}"
    if info.gated:
        return f"{model_id} is gated: the server that loads it needs a token with access"
    return None
