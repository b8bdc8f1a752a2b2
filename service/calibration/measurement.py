"""What was measured, with everything that it depends on."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal

SCHEMA_VERSION: Final = 1
SECONDS_PER_DAY: Final = 86_400


class Origin(StrEnum):
    """Who says so."""

    PROBE = "probe"
    LOG = "log"
    """A log that a person sent; a weaker witness, since what ran beside it is not known."""


class MeasurementOutcome(StrEnum):
    """How a probe ended."""

    MEASURED = "measured"
    OUT_OF_MEMORY = "out_of_memory"
    REFUSED = "refused"
    FAILED = "failed"
    CANCELLED = "cancelled"


How = Literal["measured", "parsed", "derived"]


@dataclass(frozen=True, slots=True)
class TermReading:
    """A number of bytes, and how it was had."""

    bytes: int
    how: How = "measured"


@dataclass(frozen=True, slots=True)
class RankReadings:
    """What one rank of the engine said of its memory; ``None`` where the release does not tell."""

    free_before: TermReading | None = None
    """Free memory when the engine took its first look, CUDA's context already there."""
    requested: TermReading | None = None
    weights: TermReading | None = None
    activation: TermReading | None = None
    non_torch: TermReading | None = None
    graphs_estimated: TermReading | None = None
    """What the release set aside for CUDA graphs before it sized the cache."""
    graphs: TermReading | None = None
    """What the graphs took."""
    available_kv: TermReading | None = None


@dataclass(frozen=True, slots=True)
class MeasuredDevice:
    """The GPU that it was measured on."""

    name: str
    compute_capability: str
    total_bytes: int
    """CUDA's total."""
    uuid: str | None = None


@dataclass(frozen=True, slots=True)
class Stack:
    """The software below the engine; ``None`` where it is not known."""

    driver: str | None = None
    cuda: str | None = None
    torch: str | None = None
    nccl: str | None = None

    @property
    def branch(self) -> tuple[str | None, str | None, str | None]:
        """What a change of makes older measurements void: driver branch, CUDA and torch."""
        return (self.driver.partition(".")[0] if self.driver else None, self.cuda, self.torch)


@dataclass(frozen=True, slots=True)
class MeasuredModel:
    """The model that was started."""

    id: str
    config: Mapping[str, Any]
    """Its config.json, so that what was expected can be computed again by later rules."""
    checkpoint_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class MeasuredCache:
    """The cache that the engine made of the memory."""

    num_blocks: int
    """Before any override."""
    bytes_per_block: int
    groups: int


@dataclass(frozen=True, slots=True)
class Measurement:
    """One start of an engine, measured."""

    node: str
    measured_at: float
    """Seconds since the epoch."""
    device: MeasuredDevice
    release: str
    flags: Mapping[str, Any]
    """Flags by the engine's own names; a flag left out had the release's default."""
    utilization: float
    """``gpu_memory_utilization`` that it ran with."""
    model: MeasuredModel
    ranks: tuple[RankReadings, ...]
    stack: Stack = Stack()
    cache: MeasuredCache | None = None
    origin: Origin = Origin.PROBE
    contaminated: bool = False
    """Something else used the GPU meanwhile: kept, and never learned from."""
    timings: Mapping[str, float] = field(default_factory=dict)
    """Seconds by phase."""
    reporter: str = ""
    """The token that it was handed in with, which the service itself writes down; empty if that is not known.
    A worker chooses the name of its node, but not its token."""
    schema_version: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        if not self.ranks:
            raise ValueError("a measurement has at least one rank")

    @property
    def fullest(self) -> RankReadings:
        """The rank with the least room, by which the engine sizes every cache."""
        specified = [rank for rank in self.ranks if rank.available_kv is not None]
        return min(specified, key=_room) if specified else self.ranks[0]

    @property
    def speaker(self) -> str:
        """Who answers for it: a token, or else a node."""
        return self.reporter or self.node

    @property
    def day(self) -> int:
        """Days since the epoch."""
        return int(self.measured_at // SECONDS_PER_DAY)

    @property
    def key(self) -> str:
        """Digest of everything that the numbers depend on, the utilization aside."""
        return digest(
            {
                "config": self.model.config,
                "flags": {k: v for k, v in self.flags.items() if k != "gpu_memory_utilization"},
                "release": self.release,
                "gpu": [self.device.name, self.device.total_bytes],
                "stack": self.stack.branch,
            }
        )


def _room(rank: RankReadings) -> int:
    return 0 if rank.available_kv is None else rank.available_kv.bytes


def digest(document: object) -> str:
    """Return the SHA-256 of a JSON document, however its keys are ordered."""
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=dict)
    return hashlib.sha256(canonical.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Result:
    """What a worker hands in."""

    outcome: MeasurementOutcome
    detail: str = ""
    """Why, where nothing was measured."""
    measurement: Measurement | None = None
    inventory: tuple[Mapping[str, Any], ...] = ()
    allocation: Mapping[str, Any] = field(default_factory=dict)
    """What the allocation probe took, in bytes by name."""
    log_excerpt: str = ""
