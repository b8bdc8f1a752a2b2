"""Converts an explained startup log to a measurement, or says why it cannot be one."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from service.advisor.dry_runs.dry_run import dry_start
from service.advisor.request.plan_request import PlanRequest
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
from service.memory.budget_types import MemoryBudget
from service.startup_log.log import StartupLog
from service.units import GIB, gib_text

MAX_WEIGHTS_DEVIATION: Final = 0.25
"""If the logged weights differ from the planned ones by more than this share, the start is another one."""
FOREIGN_BYTES: Final = 2 * GIB
"""If more was in use before the engine began (its own context included), another process used the GPU."""
FIGURES: Final[Mapping[str, str]] = {
    "free_before": "initial_free_gib",
    "weights": "model_loading_gib",
    "activation": "peak_activation_gib",
    "non_torch": "non_torch_gib",
    "graphs_estimated": "cuda_graph_estimate_gib",
    "graphs": "cuda_graph_gib",
    "available_kv": "available_kv_gib",
}
"""Names of the log's figures for a rank's readings."""
CONTAMINATED: Final = (
    "another process used the GPU at the start: the log is stored, but nothing is learned from it"
)
NEEDED: Final[Mapping[str, str]] = {
    "weights": "Model loading took",
    "available_kv": "Available KV cache memory",
}
"""Readings that a log must have, with the engine's words for them."""


class LogNotStored(Exception):
    """The log cannot be stored as evidence; the message says why."""


@dataclass(frozen=True, slots=True)
class StoredLog:
    """Whether a log was stored as evidence."""

    digest: str | None
    """Digest of its figures and of the start; ``None`` if it was not stored."""
    new: bool
    """Whether the same log was not stored before."""
    why: str
    """Why it was not stored, or why nothing is learned from it; empty otherwise."""


def measurement_of_log(
    explanation: Explanation, model: MeasuredModel, *, reporter: str, now: float
) -> Measurement:
    """Return the measurement in a log. It contains only numbers and known flags, no other text of the log.

    ``reporter``: who sent it; all logs of one reporter and day count as one observation.
    ``now``: seconds since the epoch, used as the time of the start because logs state no year.

    Raises:
        LogNotStored: the log has too few facts, its numbers are impossible, or they contradict the plan.
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
        LogNotStored: the log does not state enough to identify the start.
    """
    if explanation.request is None:
        raise LogNotStored("; ".join(f"{each.field}: {each.why}" for each in explanation.missing))
    if doubted := [each for each in explanation.assumptions if not each.certain]:
        fields = ", ".join(each.field for each in doubted)
        raise LogNotStored(f"give {fields} in the request: {'; '.join(each.why for each in doubted)}")
    return explanation.request


def _check_flags(explanation: Explanation, request: PlanRequest) -> None:
    flags = request.serve
    if explanation.unmodelled:
        raise LogNotStored(f"a plan does not model flags of this start: {'; '.join(explanation.unmodelled)}")
    if request.engine.doubt is not None:
        raise LogNotStored(request.engine.doubt)
    if request.engine.patches:
        raise LogNotStored("the engine was patched, so the log is not evidence for the release")
    if flags.pipeline_parallel_size > 1:
        raise LogNotStored("the log does not say to which pipeline stage its numbers belong")
    if flags.kv_cache_memory_bytes is not None:
        raise LogNotStored("--kv-cache-memory-bytes sets the memory that would have to be measured")
    if flags.speculative_config is not None:
        raise LogNotStored("starts with speculative decoding are not learned from")
    if not explanation.log.flags_logged and flags.gpu_memory_utilization is None:
        raise LogNotStored(
            "give serve.gpu_memory_utilization in the request: the log has neither command nor arguments"
        )


def _utilization(request: PlanRequest) -> float:
    rules = request.engine.rules
    try:
        start = dry_start(request.model.architecture, request.serve, rules, request.gpus[0])
    except (EngineRefusal, UnmodelledCacheDtype) as refusal:
        raise LogNotStored(f"according to the plan the engine does not start: {refusal}") from refusal
    return start.engine_config.gpu_memory_utilization


def _device(gpu: GpuType) -> MeasuredDevice:
    if gpu.compute_capability is None:
        raise LogNotStored(f"{gpu.id} has no compute capability")
    return MeasuredDevice(gpu.name, str(gpu.compute_capability), gpu.memory_bytes)


def _flags(request: PlanRequest) -> dict[str, Any]:
    defaults = asdict(ServeFlags())
    return {name: value for name, value in asdict(request.serve).items() if value != defaults[name]}


def _readings(log: StartupLog) -> dict[str, TermReading]:
    sizes = {name: log.number(figure) for name, figure in FIGURES.items()}
    if missing := [words for name, words in NEEDED.items() if sizes[name] is None]:
        raise LogNotStored(f"the log does not contain: {', '.join(missing)}")
    return {name: TermReading(round(gib * GIB), "parsed") for name, gib in sizes.items() if gib is not None}


def _checked(measurement: Measurement) -> Measurement:
    """Return the measurement if its numbers are possible and fit the plan, else raise LogNotStored."""
    if (reason := implausible(measurement)) is not None:
        raise LogNotStored(f"the numbers are impossible: {reason}")
    try:
        budget = predict(measurement).budget
    except NotPredicted as reason:
        raise LogNotStored(f"the start cannot be planned: {reason}") from reason
    rank = measurement.fullest
    weights = rank.weights
    if (
        weights is None
        or abs(weights.bytes - budget.weights.bytes) > MAX_WEIGHTS_DEVIATION * budget.weights.bytes
    ):
        raise LogNotStored(
            f"the log has {gib_text(weights.bytes if weights else 0)} GiB of weights where the plan has "
            f"{gib_text(budget.weights.bytes)} GiB: it is another model, or the log omits flags"
        )
    contaminated = (
        rank.free_before is not None and _used_before(measurement, rank.free_before) > FOREIGN_BYTES
    )
    return replace(measurement, ranks=(_with_graphs(rank, budget),), contaminated=contaminated)


def _used_before(measurement: Measurement, free: TermReading) -> int:
    return measurement.device.total_bytes - free.bytes


def _with_graphs(rank: RankReadings, budget: MemoryBudget) -> RankReadings:
    """Return the readings with the graphs as the release counts them.

    Some releases log an estimate of the graphs but do not subtract it; for these the term is zero.
    """
    if budget.cuda_graphs.high:
        return rank
    return replace(rank, graphs_estimated=TermReading(0, "derived"))
