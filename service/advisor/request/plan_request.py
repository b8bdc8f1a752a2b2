"""A resolved request for a plan: which model, which engine, which GPU types, which flags."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, Self

from service.architecture.model import ModelArchitecture
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.releases import resolve_release, rules_for
from service.gpus.gpu_type import GpuType
from service.launch_command.command_reading import CommandReading
from service.memory.calibration import NOTHING_LEARNED, Calibration
from service.speed.prices import BUNDLED, PriceList

FEW_GPUS: Final = 4
"""Requests for more GPU types than this are surveys."""


class Objective(StrEnum):
    """By what candidates are ranked."""

    ACCURACY = "accuracy"
    """Never a lossy cache if a lossless one starts."""
    TOKENS = "tokens"
    """The most capacity."""
    BALANCED = "balanced"
    """The least lossy cache that serves the workload."""
    COST = "cost"
    """The cheapest tokens, of what serves the workload within its limits."""


@dataclass(frozen=True, slots=True)
class MeasuredTpot:
    """The time of a token that was measured on the planned layout with the workload's prompts and answers."""

    concurrent_requests: int
    tpot_ms: float


@dataclass(frozen=True, slots=True)
class Workload:
    """The requests that the engine is to serve."""

    prompt_tokens: int
    output_tokens: int = 0
    concurrent_requests: int = 1
    request_rate: float | None = None
    """Requests that arrive per second; ``None``: a new one arrives when another ends."""
    max_tpot_ms: float | None = None
    """Milliseconds that two tokens of an answer may lie apart at most."""
    max_ttft_ms: float | None = None
    """Milliseconds in which the first token must come."""
    shared_prefix_tokens: int = 0
    """Tokens at the start of all prompts that are alike, and found in the cache."""
    measured: tuple[MeasuredTpot, ...] = ()
    """What was measured of the one start that is planned."""


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """An engine release with patches on top, and its rules: nothing behind it parses a version again."""

    rules: EngineRules = field(repr=False)
    """Rules of the release, with the patches laid over it."""
    patches: tuple[str, ...] = ()
    """Names of the patches, in the order in which they are laid over the release."""
    name: str = "vllm"
    compared: tuple[EngineRules, ...] = field(default=(), repr=False)
    """Rules of the releases to compare, in this order, with the same patches laid over each."""

    @classmethod
    def of(
        cls, version: str | None = None, patches: Iterable[str] = (), compared: Iterable[str] = ()
    ) -> Self:
        """Resolve versions and patches; without a version the newest release that is modelled.

        Raises:
            UnknownRelease: a version names no release that is modelled.
            UnknownPatch: no patch has such a name.
        """
        patches = tuple(patches)
        rules, *others = (rules_for(resolve_release(each), patches) for each in (version, *compared))
        return cls(rules, patches, compared=tuple(others))

    @property
    def version(self) -> str:
        """The release, such as ``0.19.0``."""
        return str(self.rules.release)

    @property
    def doubt(self) -> str | None:
        """Why the plan may not hold for the version that was given; ``None`` where there is no doubt."""
        return self.rules.doubt or None


@dataclass(frozen=True, slots=True)
class Model:
    """A model, read."""

    id: str
    revision: str | None
    """Commit sha, where known."""
    source: str
    """``hub``, ``bundled`` or ``inline``."""
    architecture: ModelArchitecture
    checkpoint_bytes: int | None = None
    """Bytes of all tensors of the checkpoint, if the Hub or the snapshot gives them."""
    note: str | None = None
    requested_revision: str | None = None
    """The branch, tag or commit of the request; ``None`` for the engine's default."""
    makers_cache_dtype: str | None = None
    """The cache dtype that the makers' hf_quant_config.json names, which the engine reads only where
    config.json has no quantization_config; ``None`` where it names none."""
    stale: bool = False
    """Whether the Hub did not answer, so that an earlier answer of the Hub is used."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """One dry run."""

    model: Model
    gpus: tuple[GpuType, ...]
    engine: EngineChoice = field(default_factory=EngineChoice.of)
    serve: ServeFlags = field(default_factory=ServeFlags)
    """Flags that the release has; whoever reads a request checks that (``flag_faults``)."""
    workload: Workload | None = None
    objective: Objective = Objective.BALANCED
    free_memory_bytes: int | None = None
    """Bytes free on every GPU when the engine starts; ``None`` for all memory except the CUDA context."""
    compiled_before: bool = False
    """The compiled model is in the cache, as a log says; otherwise that is not known."""
    with_levers: bool = False
    """Whether to find levers, which takes about thirty dry runs for each GPU type."""
    counts: tuple[int | None, ...] = ()
    """How many GPUs of each type there are, in the order of ``gpus``; ``None`` where that is not
    given. Empty where it is given of none."""
    whole_catalog: bool = False
    """No GPU types are named, so that all are planned."""
    prices: PriceList = BUNDLED
    """What an hour of a GPU costs."""
    siblings: tuple[str, ...] = ()
    """Ids of checkpoints of the same model with quantized weights, as far as they are known."""
    unbundled: frozenset[str] = frozenset()
    """Those of them whose configs are not bundled."""
    bundled_siblings: tuple[Model, ...] = ()
    """The others, read."""
    calibration: Calibration = NOTHING_LEARNED
    """What real GPUs measured, to correct estimates."""
    command: CommandReading | None = field(default=None, compare=False)
    """The start that the flags come from, where the caller sent a command."""
    search: bool = True
    """Whether to try several values of the cache dtype and of the parallel sizes where they are left out.

    Otherwise one start is planned on each GPU type: the flags as given, with the engine's defaults.
    """

    @property
    def is_survey(self) -> bool:
        """Whether so many GPU types are asked for that each is answered in short: no fixes, short reasons."""
        return len(self.gpus) > FEW_GPUS

    def count_of(self, gpu: GpuType) -> int | None:
        """Return how many GPUs of one of its types there are; ``None`` where that is not given."""
        if not self.counts:
            return None
        counted = zip(self.gpus, self.counts, strict=True)
        return next((count for each, count in counted if each.id == gpu.id and each == gpu), None)

    def with_count(self, count: int | None) -> Self:
        """Return the request for a GPU type of which there are so many: it may be listed with several."""
        counts = () if count is None else (count,) * len(self.gpus)
        return self if counts == self.counts else replace(self, counts=counts)
