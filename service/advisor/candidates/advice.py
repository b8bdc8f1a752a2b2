"""The order in which an expert tries ways to serve a model: data with sources, from ``advice.toml``."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from service.bundled_toml import read_toml


class Step(StrEnum):
    """A way to serve a model; the file of the order says when it is taken and why."""

    FULL_LENGTH = "full_length"
    FEWER_SEQUENCES = "fewer_sequences"
    SHORTER_LENGTH = "shorter_length"
    FP8_CACHE = "fp8_cache"
    QUANTIZED_WEIGHTS_ON_ONE = "quantized_weights_on_one"
    QUANTIZED_WEIGHTS_WITHOUT_NVLINK = "quantized_weights_without_nvlink"
    LITTLE_ROOM = "little_room"
    FEWER_SEQUENCES_ON_SEVERAL = "fewer_sequences_on_several"
    FP8_CACHE_ON_SEVERAL = "fp8_cache_on_several"
    EXPERT_PARALLEL = "expert_parallel"
    NEXT_NODE = "next_node"
    FP8_CACHE_AT_LAST = "fp8_cache_at_last"
    MUCH_SHORTER_LENGTH = "much_shorter_length"
    QUANTIZED_WEIGHTS = "quantized_weights"
    SEVERAL_NODES = "several_nodes"
    ANY_LENGTH = "any_length"
    PART_OF_A_REQUEST = "part_of_a_request"
    OTHER_CACHE = "other_cache"


@dataclass(frozen=True, slots=True)
class StepOfAdvice:
    """One step of the order."""

    group: int
    """Steps of one group compete by their number of GPUs."""
    words: str
    """The reason that an answer gives, with ``{length}``, ``{cache}`` and ``{fits}``: the longest what."""
    source: str
    words_without_stages: str = ""
    """The same for a candidate whose pipeline stages do not take a node each; empty where the stages do not
    matter."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Figures at which one step ends and the next begins."""

    requests: int
    """Requests of the maximum length that the cache of several GPUs should hold."""
    requests_of_half_a_board: int
    """The same for half the GPUs of a board with NVLink."""
    tokens: int
    """Tokens of context that one GPU should keep."""
    percent: int
    """Percent of the full length that several GPUs should keep."""
    node: int
    """GPUs of one node."""


def _read() -> Mapping[str, Any]:
    return read_toml("service.advisor.candidates", "advice.toml")


_TABLE: Final = _read()
LIMITS: Final = Limits(**_TABLE["limits"])
NODES: Final[Mapping[str, int]] = _TABLE["nodes"]
"""GPUs of one node by id of the GPU type, where that is not ``LIMITS.node``."""
MACHINES: Final[Mapping[str, int]] = _TABLE["machines"]
"""Machines that one model is spread over at most, by id of the GPU type, where that is not usual."""
STEPS: Final[Mapping[Step, StepOfAdvice]] = {
    Step(name): StepOfAdvice(**table) for name, table in _TABLE["steps"].items()
}
"""By step, in the order in which they are preferred."""
PLACES: Final[Mapping[Step, int]] = {step: place for place, step in enumerate(STEPS)}
FALLBACK_BACKENDS: Final = frozenset(_TABLE["backends"]["fallback"])
NARROW_ACTIVATIONS: Final[Mapping[str, str]] = _TABLE["activations"]
"""By method of a checkpoint: the compute capability from which activations have 8 bits or fewer."""
