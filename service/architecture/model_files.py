"""The files that describe a model in Mistral's format."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, eq=False)
class ModelFiles:
    """The files of a repository with a params.json; the release decides which one counts."""

    params: Mapping[str, Any]
    """``params.json``."""
    config: Mapping[str, Any] | None = None
    """``config.json``, where the repository has one."""
    quantization: Mapping[str, Any] | None = None
    """ModelOpt's ``hf_quant_config.json``."""
    consolidated: bool = True
    """Whether weights are in Mistral's own files (``consolidated*.safetensors``)."""


def is_params(document: Mapping[str, Any]) -> bool:
    """Whether a document given without its file's name is a params.json.

    Some config.json spell ``dim`` and ``n_layers`` the same (DistilBERT), but all name their class.
    """
    return "architectures" not in document and "dim" in document and "n_layers" in document
