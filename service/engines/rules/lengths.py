"""How long a context a release derives from a config."""

from dataclasses import dataclass
from enum import StrEnum


class YarnLength(StrEnum):
    """Which length a YaRN config allows."""

    ORIGINAL_TIMES_FACTOR = "original_times_factor"
    AS_WRITTEN = "as_written"


class LongRopeDefault(StrEnum):
    """Default length of a LongRoPE config."""

    STRETCHED = "stretched"
    ORIGINAL = "original"


@dataclass(frozen=True, slots=True)
class LengthRules:
    """How long a context a release derives from a config."""

    yarn: YarnLength
    """Which length a YaRN config allows."""
    yarn_needs_original: bool
    """Whether a YaRN config must say how long a context the model was trained at."""
    long_rope_default: LongRopeDefault
    """Default length of a LongRoPE config: what it was stretched to, or trained at."""
    fits: bool
    """Whether --max-model-len -1 shortens the context to what fits."""
    draft_limits: bool
    """Whether a draft with a shorter context shortens the model's."""
