"""Which weights in GGUF's format a release loads."""

from dataclasses import dataclass
from typing import Final

GGUF: Final = "gguf"
"""The method of such weights."""


@dataclass(frozen=True, slots=True)
class GgufRules:
    """Which weights in GGUF's format a release loads."""

    loads_files: bool
    """Whether it loads GGUF files without a package beside it."""
    by_quantization: bool
    """Whether a file of the Hub may be named by its quantization: org/name:Q4_K_M."""
    least_major_without_bfloat16: int | None
    """Least major compute capability on which such weights do not run in bfloat16; none: they run on any."""
