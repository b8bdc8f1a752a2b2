"""Computes the memory budget of a start that was measured, so that the two can be compared."""

from dataclasses import dataclass, fields, replace
from typing import Any

from service.advisor.dry_runs.budget_inputs import budget_inputs, circumstances_of
from service.advisor.dry_runs.dry_run import dry_start
from service.advisor.request.plan_request import Model, PlanRequest
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
from service.memory.budget_estimator import estimate_budget
from service.memory.budget_types import MemoryBudget
from service.memory.calibration import Circumstances


class NotPredicted(Exception):
    """The measured start cannot be planned; the message says why."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The computed budget of one start."""

    circumstances: Circumstances
    budget: MemoryBudget
    """The budget without calibration."""


def predict(measurement: Measurement) -> Prediction:
    """Plan the start that was measured.

    Raises:
        NotPredicted: according to the rules the engine does not start, or the rules do not cover the start.
    """
    if measurement.flags.get("speculative_config") is not None:
        raise NotPredicted("the model's config alone does not describe the draft model")
    try:
        rules = rules_for(find_release(measurement.release))
        measured = measurement.model
        architecture = read_architecture(read_document(dict(measured.config)))
        model = Model(measured.id, None, "measured", architecture, measured.checkpoint_bytes)
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
    """Return the GPU type of a device, with the memory that was measured on this device."""
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
