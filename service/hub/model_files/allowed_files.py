"""The names of files that the client may request. No other name is ever put into a URL.

Names come from callers and from the Hub's own file list; both are checked here.
"""

import re
from fnmatch import fnmatchcase
from typing import Final

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
)

PIPELINE_INDEX: Final = "model_index.json"
"""The file that a diffusers pipeline has in place of a config.json. Only its name matters; it is not read."""

SMALL_FILES: Final = frozenset(
    {
        CONFIG,
        PARAMS,
        HF_QUANT_CONFIG,
        WEIGHTS_INDEX,
        CONSOLIDATED_INDEX,
        MODULES,
        POOLING,
        SENTENCES,
        TOKENIZER,
    }
)
MOST_WEIGHT_FILES: Final = 512

_PART: Final = r"[A-Za-z0-9](?:[\w-]|\.(?!\.)){0,200}"
_SAFETENSORS: Final = re.compile(rf"{_PART}\.safetensors", re.ASCII)
_GGUF: Final = re.compile(rf"(?:{_PART}/)?{_PART}\.gguf", re.ASCII)
_CONSOLIDATED: Final = "consolidated*.safetensors"


def is_safetensors(file: str) -> bool:
    """Whether this names a safetensors file in a repository's top folder."""
    return _SAFETENSORS.fullmatch(file) is not None


def is_gguf(file: str) -> bool:
    """Whether this names a GGUF file in a repository's top folder or one folder below it."""
    return _GGUF.fullmatch(file) is not None


def is_consolidated(file: str) -> bool:
    """Whether this names weights in Mistral's own format (`consolidated*.safetensors`), in any folder."""
    return fnmatchcase(file.rpartition("/")[2], _CONSOLIDATED)


def is_allowed(file: str) -> bool:
    """Whether the client may request a file of this name."""
    return file in SMALL_FILES or is_safetensors(file) or is_gguf(file)
