"""What a change to a working start costs, and in which order such changes are tried: ``levers.toml``."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from service.bundled_toml import read_toml


class LeverCost(StrEnum):
    """What a change costs, in one word group."""

    FREE = "free"
    MEDIA = "media"
    """Images, video and audio."""
    PREFILL = "prefill"
    """Prompts take longer, so the first token comes later."""
    ACCURACY = "accuracy"
    SPEED = "speed"
    START_TIME = "start_time"
    RISK = "risk"
    """Memory may run out, or the start is uncertain."""
    REQUESTS = "requests"
    """Fewer requests at once, or shorter ones."""
    GPUS = "gpus"
    RELEASE = "release"
    BUILD = "build"
    """A build from source."""
    MUCH_ACCURACY = "much_accuracy"


@dataclass(frozen=True, slots=True)
class LeverLimits:
    """Figures of the order."""

    part: float
    """Part of what a start has that a change must add to be no detail."""
    much_loss: int
    """Place in the order of published loss from which on a change comes after all others."""
    one_model: int
    """Places by which figures of one model come later."""
    start_time: float
    """Part by which a change that also costs start time must give more."""


@dataclass(frozen=True, slots=True)
class CostOfChange:
    """What one kind of change costs, and how."""

    costs: tuple[LeverCost, ...]
    words: str
    words_enough: str = ""
    """The words where the workload of the request does not notice it."""
    words_on: str = ""
    """The words where a switch is turned on."""
    words_bundled: str = ""
    """The words of a checkpoint whose own config was planned."""


def _cost(table: Mapping[str, Any]) -> CostOfChange:
    return CostOfChange(**{**table, "costs": tuple(map(LeverCost, table["costs"]))})


_TABLE: Final = read_toml("service.advisor.candidates", "levers.toml")
LIMITS_OF_LEVERS: Final = LeverLimits(**_TABLE["limits"])
PLACES_OF_COSTS: Final[Mapping[LeverCost, int]] = {
    LeverCost(each): place for place, each in enumerate(_TABLE["order"])
}
"""By what is tried first."""
FLAG_COSTS: Final[Mapping[str, CostOfChange]] = {
    name: _cost(table) for name, table in _TABLE["flags"].items()
}
CHECKPOINT_COST: Final = _cost(_TABLE["checkpoint"])
LAYOUT_COST: Final = _cost(_TABLE["layout"])
RELEASE_COST: Final = _cost(_TABLE["release"])
PATCH_COST: Final = _cost(_TABLE["patch"])
SLOWER_BACKEND: Final[str] = _TABLE["backend"]["words"]
UNPACKED: Final[str] = _TABLE["unpacked"]["words"]
UNPACKED_FROM: Final[str] = _TABLE["unpacked"]["words_from"]
"""The words where it is known from which number of tokens a step is slower."""
RISK_WORDS: Final[str] = _TABLE["risk"]["words"]
