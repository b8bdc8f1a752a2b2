"""Reads the files of a model that was fetched."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from service.advisor.request.plan_request import Model
from service.architecture.config import InvalidConfig, read_document
from service.architecture.model import ModelArchitecture
from service.architecture.model_files import ModelFiles
from service.architecture.pooling import SentenceFiles, SequencePooling
from service.architecture.reading import UnknownArchitecture, read_architecture
from service.engine_config.config_format import read_files
from service.engines.releases import RELEASES, rules_for
from service.engines.rules.checkpoints import CheckpointRules
from service.hub.errors import NotATextModel
from service.hub.model_files.fetched_config import FetchedConfig

LONGEST: Final = 1 << 31
"""Tokens; tokenizers without a limit name a number with thirty digits."""
POOLING_MODES: Final[Mapping[str, SequencePooling]] = {
    "cls": SequencePooling.CLS,
    "lasttoken": SequencePooling.LAST,
    "mean": SequencePooling.MEAN,
    "pooling_mode_cls_token": SequencePooling.CLS,
    "pooling_mode_lasttoken": SequencePooling.LAST,
    "pooling_mode_mean_tokens": SequencePooling.MEAN,
}
"""Names of sentence-transformers, version 5.5 and before."""


def read_model(fetched: FetchedConfig, rules: CheckpointRules | None = None) -> Model:
    """Read a fetched config by the rules of a release, by default the newest.

    Raises:
        InvalidConfig: the config cannot be read as a model.
        UnknownArchitecture: its architecture is not modelled.
        NotATextModel: it is not modelled, and the Hub says that the model is for another task.
    """
    try:
        architecture = _architecture(fetched, rules or rules_for(RELEASES[-1]).checkpoints)
    except (InvalidConfig, UnknownArchitecture) as error:
        if fetched.task is None:
            raise
        raise NotATextModel(fetched.id, fetched.task) from error
    fields = replace(architecture.pooling_fields, files=_sentence_files(fetched))
    architecture = replace(architecture, pooling_fields=fields)
    return Model(
        id=fetched.id,
        revision=fetched.revision,
        source=fetched.source,
        architecture=architecture,
        checkpoint_bytes=fetched.total_parameter_bytes,
        note=fetched.note,
        makers_cache_dtype=makers_cache_dtype(fetched.quantization_config),
        stale=fetched.stale,
    )


def _architecture(fetched: FetchedConfig, rules: CheckpointRules) -> ModelArchitecture:
    if fetched.params is None:
        return read_architecture(read_document(with_quantization(fetched)))
    files = ModelFiles(
        fetched.params, fetched.config or None, fetched.quantization_config, fetched.consolidated
    )
    return read_files(files, rules)


def _sentence_files(fetched: FetchedConfig) -> SentenceFiles:
    """Return what the files of sentence-transformers say; values of another form are left out."""
    sentences = fetched.sentences or {}
    lengths = (
        sentences.get("max_seq_length") if "do_lower_case" in sentences else None,
        (fetched.tokenizer or {}).get("model_max_length"),
    )
    sentence, tokenizer = (each if type(each) is int and 0 < each <= LONGEST else None for each in lengths)
    return SentenceFiles(fetched.pools, _sequence_pooling(fetched.pooling or {}), sentence, tokenizer)


def _sequence_pooling(pooling: Mapping[str, Any]) -> SequencePooling | None:
    """Return how a pooling module makes one vector (vLLM 0.32.0, transformers_utils/config.py)."""
    mode = pooling.get("pooling_mode")
    named = [mode] if isinstance(mode, str) else [name for name, value in pooling.items() if value is True]
    return next((POOLING_MODES[name] for name in named if name in POOLING_MODES), None)


def makers_cache_dtype(document: Mapping[str, Any] | None) -> str | None:
    """Return the cache dtype that a ModelOpt file (``hf_quant_config.json``) asks for.

    The engine reads that file only where config.json has no quantization_config (vLLM 0.33.0, get_config), so
    that ``auto`` may not follow it.
    """
    section = {} if document is None else document.get("quantization")
    name = section.get("kv_cache_quant_algo") if isinstance(section, Mapping) else None
    return name.lower() if isinstance(name, str) else None


def with_quantization(fetched: FetchedConfig) -> Mapping[str, Any]:
    """Return the config with the quantization that ModelOpt writes to a file of its own, if it has none.

    Source: vLLM 0.32.0, get_config.
    """
    if fetched.quantization_config is None or fetched.config.get("quantization_config") is not None:
        return fetched.config
    return {**fetched.config, "quantization_config": fetched.quantization_config}
