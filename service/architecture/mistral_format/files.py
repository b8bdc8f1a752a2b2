"""The files that say what a model in Mistral's format is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, eq=False)
class ModelFiles:
    """What a repository that has a params.json holds; which file counts is for the release to say."""

    params: Mapping[str, Any]
    """``params.json``."""
    config: Mapping[str, Any] | None = None
    """``config.json``, where there is one beside it."""
    quantization: Mapping[str, Any] | None = None
    """ModelOpt's ``hf_quant_config.json``."""
    consolidated: bool = True
    """Whether weights lie in Mistral's own files (``consolidated*.safetensors``)."""


def is_params(document: Mapping[str, Any]) -> bool:
    """Whether a document given without its file's name is a params.json.

    Some config.json spell ``dim`` and ``n_layers`` the same (DistilBERT), but all name their class.
    """
    return "architectures" not in document and "dim" in document and "n_layers" in document
