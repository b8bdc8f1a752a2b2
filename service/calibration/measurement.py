"""Measurement: the memory figures of one engine start, with everything that they depend on."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal

SCHEMA_VERSION: Final = 1
SECONDS_PER_DAY: Final = 86_400


class Origin(StrEnum):
    """The source of a measurement."""

    PROBE = "probe"
    LOG = "log"
    """A log that a person sent. It is weaker evidence, since other processes on the GPU are not known."""


class MeasurementOutcome(StrEnum):
    """The outcome of a probe."""

    MEASURED = "measured"
    OUT_OF_MEMORY = "out_of_memory"
    REFUSED = "refused"
    FAILED = "failed"
    CANCELLED = "cancelled"


How = Literal["measured", "parsed", "derived"]


@dataclass(frozen=True, slots=True)
class TermReading:
    """A number of bytes and how it was obtained: measured, parsed from a log, or derived from others."""

    bytes: int
    how: How = "measured"


@dataclass(frozen=True, slots=True)
class RankReadings:
    """The memory figures of one rank; ``None`` where the release does not report a figure."""

    free_before: TermReading | None = None
    """Free memory at the engine's first snapshot, when the CUDA context already exists."""
    requested: TermReading | None = None
    """Total memory times the utilization."""
    weights: TermReading | None = None
    activation: TermReading | None = None
    non_torch: TermReading | None = None
    graphs_estimated: TermReading | None = None
    """Memory that the release subtracts for CUDA graphs before it sizes the cache."""
    graphs: TermReading | None = None
    """Memory that the captured graphs use."""
    available_kv: TermReading | None = None
    """Memory left for the cache."""


@dataclass(frozen=True, slots=True)
class MeasuredDevice:
    """The GPU of the measurement."""

    name: str
    compute_capability: str
    total_bytes: int
    """Total memory as CUDA reports it (cudaMemGetInfo)."""
    uuid: str | None = None


@dataclass(frozen=True, slots=True)
class Stack:
    """The versions of the software below the engine; ``None`` where unknown."""

    driver: str | None = None
    cuda: str | None = None
    torch: str | None = None
    nccl: str | None = None

    @property
    def branch(self) -> tuple[str | None, str | None, str | None]:
        """Driver branch, CUDA and torch. If one of them changes, older measurements are not used any more."""
        return (self.driver.partition(".")[0] if self.driver else None, self.cuda, self.torch)


@dataclass(frozen=True, slots=True)
class MeasuredModel:
    """The model that was started."""

    id: str
    config: Mapping[str, Any]
    """Its config.json, so that later rules can compute the prediction again."""
    checkpoint_bytes: int | None = None
    """Bytes of all tensors of the checkpoint; None where unknown."""


@dataclass(frozen=True, slots=True)
class MeasuredCache:
    """The cache that the engine allocated."""

    num_blocks: int
    """Number of blocks before an override."""
    bytes_per_block: int
    groups: int


@dataclass(frozen=True, slots=True)
class Measurement:
    """The memory figures of one engine start."""

    node: str
    measured_at: float
    """Seconds since the epoch."""
    device: MeasuredDevice
    release: str
    flags: Mapping[str, Any]
    """Flags by the engine's own names; a missing flag had the release's default."""
    utilization: float
    """The effective ``gpu_memory_utilization``."""
    model: MeasuredModel
    ranks: tuple[RankReadings, ...]
    stack: Stack = Stack()
    cache: MeasuredCache | None = None
    origin: Origin = Origin.PROBE
    contaminated: bool = False
    """Another process used the GPU meanwhile: the measurement is stored but never learned from."""
    timings: Mapping[str, float] = field(default_factory=dict)
    """Seconds by phase."""
    reporter: str = ""
    """Id of the token that reported it, set by the service; empty if unknown.

    A worker chooses the name of its node, but not its token.
    """
    schema_version: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        if not self.ranks:
            raise ValueError("a measurement has at least one rank")

    @property
    def fullest(self) -> RankReadings:
        """The rank with the least memory for the cache; the engine sizes the caches of all ranks by it."""
        reported = [rank for rank in self.ranks if rank.available_kv is not None]
        return min(reported, key=_room) if reported else self.ranks[0]

    @property
    def day(self) -> int:
        """Days since the epoch."""
        return int(self.measured_at // SECONDS_PER_DAY)

    @property
    def key(self) -> str:
        """Digest of everything that the figures depend on, except the utilization."""
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
    """Return the SHA-256 of a JSON document in hexadecimal; the order of its keys does not matter."""
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=dict)
    return hashlib.sha256(canonical.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class TimedPoint:
    """The time of one step of an engine, or of one prompt up to its first token."""

    batch: int
    """Requests that each get one token in the step; 0 for a prompt alone."""
    context: int
    """Tokens that each of them has."""
    prefill: int
    """Tokens of the prompt alone; 0 for a decode step."""
    milliseconds: float
    """Median of the steps, or prompts, that were timed."""
    timed: int
    """How many were timed."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result that a worker reports."""

    outcome: MeasurementOutcome
    detail: str = ""
    """Why nothing was measured; empty if something was."""
    measurement: Measurement | None = None
    inventory: tuple[Mapping[str, Any], ...] = ()
    allocation: Mapping[str, Any] = field(default_factory=dict)
    """Figures of an allocation probe in bytes, by name."""
    steps: tuple[TimedPoint, ...] = ()
    """What a speed probe timed."""
    log_excerpt: str = ""
