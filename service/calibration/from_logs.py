"""From an explained startup log to a measurement of the weaker class, or why it is none."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from service.advisor.dry_run import dry_start
from service.advisor.plan_request import PlanRequest
from service.calibration.measurement import (
    MeasuredDevice,
    MeasuredModel,
    Measurement,
    Origin,
    RankReadings,
    TermReading,
)
from service.calibration.plausibility import implausible
from service.calibration.prediction import NotPredicted, predict
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.explanation.explanation_types import Explanation
from service.gpus.gpu_type import GpuType
from service.kv_cache.formats import UnmodelledCacheDtype
from service.memory.budget import MemoryBudget
from service.startup_log.log import StartupLog
from service.units import GIB, gib_text

FARTHEST_WEIGHTS: Final = 0.25
"""Weights that are further by share from the planned ones are those of another model, or of other flags."""
FOREIGN_BYTES: Final = 2 * GIB
"""More than that taken before the engine began, its own context included, is another's."""
FIGURES: Final[Mapping[str, str]] = {
    "free_before": "initial_free_gib",
    "weights": "model_loading_gib",
    "activation": "peak_activation_gib",
    "non_torch": "non_torch_gib",
    "graphs_estimated": "cuda_graph_estimate_gib",
    "graphs": "cuda_graph_gib",
    "available_kv": "available_kv_gib",
}
"""A rank's readings by what the log calls them."""
CROWDED: Final = "something else was on the GPU when it started: it is kept, and nothing is learned from it"
NEEDED: Final[Mapping[str, str]] = {
    "weights": "Model loading took",
    "available_kv": "Available KV cache memory",
}
"""Readings without which a log teaches nothing, by the engine's words."""


class LogNotStored(Exception):
    """The log is no evidence, and why."""


@dataclass(frozen=True, slots=True)
class StoredLog:
    """What became of a log as evidence."""

    digest: str | None
    """Of its figures and of the start that they are of; ``None`` if it is not kept."""
    new: bool
    why: str
    """Why it is not kept, or why nothing is learned from it; empty otherwise."""


def measurement_of_log(
    explanation: Explanation, model: MeasuredModel, *, reporter: str, now: float
) -> Measurement:
    """Return what a log measured; of its text nothing is in it but numbers and flags that plans know.

    ``witness``: who sent it, whose logs of one day are one voice.
    ``now``: seconds since the epoch; logs tell no year.

    Raises:
        NotKept: it tells too little, or what it tells cannot be, or is not what was planned.
    """
    request = known_start(explanation)
    _check_flags(explanation, request)
    utilization = _utilization(request)
    measurement = Measurement(
        node=reporter,
        measured_at=now,
        device=_device(request.gpus[0]),
        release=request.engine.version,
        flags=_flags(request),
        utilization=utilization,
        model=model,
        ranks=(RankReadings(**_readings(explanation.log)),),
        origin=Origin.LOG,
    )
    return _checked(measurement)


def known_start(explanation: Explanation) -> PlanRequest:
    """Return the start that was logged.

    Raises:
        NotKept: it is not known well enough to be told from others.
    """
    if explanation.request is None:
        raise LogNotStored("; ".join(f"{each.field}: {each.why}" for each in explanation.missing))
    if doubted := [each for each in explanation.assumptions if not each.certain]:
        fields = ", ".join(each.field for each in doubted)
        raise LogNotStored(f"tell {fields} beside it: {'; '.join(each.why for each in doubted)}")
    return explanation.request


def _check_flags(explanation: Explanation, request: PlanRequest) -> None:
    flags = request.serve
    if explanation.unmodelled:
        raise LogNotStored(
            f"no plan heeds flags that it was started with: {'; '.join(explanation.unmodelled)}"
        )
    if request.engine.doubt is not None:
        raise LogNotStored(request.engine.doubt)
    if request.engine.patches:
        raise LogNotStored("it is of a patched engine, and not of a release")
    if flags.pipeline_parallel_size > 1:
        raise LogNotStored("it does not say of which pipeline stage its numbers are")
    if flags.kv_cache_memory_bytes is not None:
        raise LogNotStored("--kv-cache-memory-bytes gives the memory that is to be learned")
    if flags.speculative_config is not None:
        raise LogNotStored("starts that guess tokens are not learned from")
    if not explanation.log.flags_logged and flags.gpu_memory_utilization is None:
        raise LogNotStored(
            "tell serve.gpu_memory_utilization beside it: it holds neither command nor arguments"
        )


def _utilization(request: PlanRequest) -> float:
    rules = request.engine.rules
    try:
        start = dry_start(request.model.architecture, request.serve, rules, request.gpus[0])
    except (EngineRefusal, UnmodelledCacheDtype) as refusal:
        raise LogNotStored(f"by the plan it does not start: {refusal}") from refusal
    return start.engine_config.gpu_memory_utilization


def _device(gpu: GpuType) -> MeasuredDevice:
    if gpu.compute_capability is None:
        raise LogNotStored(f"{gpu.id} has no compute capability")
    return MeasuredDevice(gpu.name, str(gpu.compute_capability), gpu.memory_bytes)


def _flags(request: PlanRequest) -> dict[str, Any]:
    defaults = asdict(ServeFlags())
    return {name: value for name, value in asdict(request.serve).items() if value != defaults[name]}


def _readings(log: StartupLog) -> dict[str, TermReading]:
    specified = {name: log.number(figure) for name, figure in FIGURES.items()}
    if missing := [words for name, words in NEEDED.items() if specified[name] is None]:
        raise LogNotStored(f"it does not tell: {', '.join(missing)}")
    return {
        name: TermReading(round(gib * GIB), "parsed") for name, gib in specified.items() if gib is not None
    }


def _checked(measurement: Measurement) -> Measurement:
    """Return a measurement that agrees with its plan as far as it must."""
    if (reason := implausible(measurement)) is not None:
        raise LogNotStored(f"its numbers cannot be: {reason}")
    try:
        budget = predict(measurement).budget
    except NotPredicted as reason:
        raise LogNotStored(f"the start cannot be planned: {reason}") from reason
    rank = measurement.fullest
    weights = rank.weights
    if weights is None or abs(weights.bytes - budget.weights.bytes) > FARTHEST_WEIGHTS * budget.weights.bytes:
        raise LogNotStored(
            f"it loaded {gib_text(weights.bytes if weights else 0)} GiB of weights where the plan has "
            f"{gib_text(budget.weights.bytes)}: another model, or flags that it does not tell"
        )
    crowded = rank.free_before is not None and _taken_before(measurement, rank.free_before) > FOREIGN_BYTES
    return replace(measurement, ranks=(_set_aside(rank, budget),), contaminated=crowded)


def _taken_before(measurement: Measurement, free: TermReading) -> int:
    return measurement.device.total_bytes - free.bytes


def _set_aside(rank: RankReadings, budget: MemoryBudget) -> RankReadings:
    """Return the readings with graphs as the release counts them: some estimate and set none aside."""
    if budget.cuda_graphs.high:
        return rank
    return replace(rank, graphs_estimated=TermReading(0, "derived"))
