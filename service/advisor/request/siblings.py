"""Checkpoints of one model with other weights, by their names alone."""

import re
from functools import lru_cache
from typing import Final

QUANTIZED: Final = (
    r"fp8(?:[-_.]dynamic|[-_.]block|[-_.]static(?:[-_.]pertensor)?)?",
    r"nvfp4(?:a16)?",
    "fp4",
    "mxfp4",
    "mxfp8",
    r"awq(?:[-_.](?:int4|4bit))?",
    r"gptq(?:[-_.](?:int[48]|4bit|4b[-_.]128g))?",
    r"qat[-_.]w4a16[-_.]ct",
    r"quantized\.w\d+a\d+",
    r"w\d+a\d+",
    "int4",
    "int8",
    r"bnb[-_.]4bit",
)
"""What names of quantized checkpoints end with, as publishers on the Hub write it."""
PLAIN: Final = ("bf16", "fp16")
"""What names of 16-bit checkpoints may end with."""
_SUFFIX: Final = re.compile(rf"[-_.](?P<format>{'|'.join((*QUANTIZED, *PLAIN))})", re.IGNORECASE | re.ASCII)


@lru_cache(maxsize=4096)
def base_name(model_id: str) -> tuple[str, str]:
    """Return a model's name without its organization and formats, and the formats, both in lower case."""
    name, formats = model_id.rpartition("/")[2].lower(), ""
    while (match := re.search(rf"{_SUFFIX.pattern}$", name, re.IGNORECASE | re.ASCII)) is not None:
        name, formats = name[: match.start()], match["format"]
    return name, formats


def is_denser_than_8_bits(model_id: str) -> bool:
    """Whether the name of a quantized checkpoint tells weights of fewer than 8 bits."""
    return re.search(r"fp8|int8|w8a\d", base_name(model_id)[1]) is None


@lru_cache(maxsize=256)
def siblings_of(model_id: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Return the known quantized checkpoints of a model, those of its own organization first."""
    base, _ = base_name(model_id)
    own = model_id.partition("/")[0].lower()
    found = [each for each in known if each.lower() != model_id.lower() and _is_quantized(each, base)]
    return tuple(sorted(found, key=lambda each: (each.partition("/")[0].lower() != own, each.lower())))


def _is_quantized(model_id: str, base: str) -> bool:
    name, formats = base_name(model_id)
    return name == base and bool(formats) and formats not in PLAIN
