"""Which files of a repository may be asked for; no other name, whoever states it, enters an address."""

import re
from fnmatch import fnmatchcase
from typing import Final

from service.hub.fetched import (
    CONFIG,
    CONSOLIDATED_INDEX,
    HF_QUANT_CONFIG,
    PARAMS,
    WEIGHTS_INDEX,
)

PIPELINE_INDEX: Final = "model_index.json"
"""What the diffusers library keeps in place of a config.json. Looked for, never asked for."""

SMALL_FILES: Final = frozenset({CONFIG, PARAMS, HF_QUANT_CONFIG, WEIGHTS_INDEX, CONSOLIDATED_INDEX})
MOST_WEIGHT_FILES: Final = 512

_PART: Final = r"[A-Za-z0-9](?:[\w-]|\.(?!\.)){0,200}"
_SAFETENSORS: Final = re.compile(rf"{_PART}\.safetensors", re.ASCII)
_GGUF: Final = re.compile(rf"(?:{_PART}/)?{_PART}\.gguf", re.ASCII)
_CONSOLIDATED: Final = "consolidated*.safetensors"


def is_safetensors(file: str) -> bool:
    """Whether this names a file of safetensors at the top of a repository."""
    return _SAFETENSORS.fullmatch(file) is not None


def is_gguf(file: str) -> bool:
    """Whether this names a GGUF file, at the top of a repository or one folder below."""
    return _GGUF.fullmatch(file) is not None


def is_consolidated(file: str) -> bool:
    """Whether this names weights in Mistral's own format, in any folder."""
    return fnmatchcase(file.rpartition("/")[2], _CONSOLIDATED)


def is_allowed(file: str) -> bool:
    """Whether a file may be asked for at all."""
    return file in SMALL_FILES or is_safetensors(file) or is_gguf(file)
