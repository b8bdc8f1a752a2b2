"""What is computed for a start that was measured, so that the two can be held against each other."""

from dataclasses import dataclass, fields, replace
from typing import Any

from service.advisor.budget_inputs import budget_inputs, circumstances_of
from service.advisor.dry_run import dry_start
from service.advisor.plan_request import Model, PlanRequest
from service.architecture.config import InvalidConfig, read_document
from service.architecture.reading import UnknownArchitecture, read_architecture
from service.calibration.measurement import MeasuredDevice, Measurement
from service.engine_config.speculation import UnmodelledSpeculation
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import UnknownRelease, find_release, rules_for
from service.gpus.catalog import gpu_catalog
from service.gpus.gpu_type import (
    GpuType,
    InvalidGpu,
    MemoryBasis,
    inline_gpu,
)
from service.memory.budget import MemoryBudget
from service.memory.budget_estimator import estimate_budget
from service.memory.calibration import Circumstances


class NotPredicted(Exception):
    """The start that was measured is none that can be planned."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What is computed for one start."""

    circumstances: Circumstances
    budget: MemoryBudget
    """Without any calibration."""


def predict(measurement: Measurement) -> Prediction:
    """Plan the start that was measured.

    Raises:
        NotPredicted: by our rules the engine would not have started, or they do not know it.
    """
    if measurement.flags.get("speculative_config") is not None:
        raise NotPredicted("what guesses tokens is not told by the model's config alone")
    try:
        rules = rules_for(find_release(measurement.release))
        specified = measurement.model
        architecture = read_architecture(read_document(dict(specified.config)))
        model = Model(specified.id, None, "measured", architecture, specified.checkpoint_bytes)
        flags, gpu = _flags(measurement), _gpu(measurement.device)
        request = PlanRequest(model, (gpu,), serve=flags)
        start = dry_start(architecture, flags, rules, gpu)
    except _UNPLANNED as error:
        raise NotPredicted(str(error)) from error
    circumstances = circumstances_of(request, start, flags, gpu)
    budget = estimate_budget(
        start.architecture, budget_inputs(request.model, start, flags, gpu, request.free_memory_bytes)
    )
    return Prediction(circumstances, budget)


_UNPLANNED = (
    UnknownRelease,
    InvalidConfig,
    UnknownArchitecture,
    EngineRefusal,
    UnmodelledSpeculation,
    InvalidGpu,
    LookupError,
)


def _flags(measurement: Measurement) -> ServeFlags:
    known = {field.name for field in fields(ServeFlags)}
    given = {name: _frozen(value) for name, value in measurement.flags.items() if name in known}
    return replace(
        ServeFlags(**given),
        gpu_memory_utilization=measurement.utilization,
        kv_cache_memory_bytes=None,
        num_gpu_blocks_override=None,
    )


def _frozen(value: Any) -> Any:  # noqa: ANN401 - any flag's value
    return tuple(value) if isinstance(value, list) else value


def _gpu(device: MeasuredDevice) -> GpuType:
    """Return the GPU type with the memory that this very device has."""
    known = next((gpu for gpu in gpu_catalog() if gpu.name == device.name and gpu.modelled), None)
    if known is None:
        return inline_gpu(device.name, device.total_bytes, device.compute_capability)
    total = device.total_bytes
    return replace(
        known,
        memory_bytes=total,
        memory_low_bytes=total,
        memory_high_bytes=total,
        memory_basis=MemoryBasis.PRINTED,
    )
