"""What a plan says of a measured row, beside what one efficiency per GPU type says."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

from service.advisor.candidates.plan_types import Candidate
from service.advisor.dry_runs.dry_run import dry_run
from service.advisor.ranking.speed_of_start import clock_of, speed_of
from service.advisor.request.plan_request import EngineChoice, PlanRequest, Workload
from service.engines.flags import ServeFlags
from service.gpus.catalog import gpu_catalog
from service.gpus.gpu_type import GpuType
from service.speed.serving_speed import Speed
from service.speed.speed_constants import SpeedConstants
from tests.accuracy.startups_models import NoConfig, find_model
from tests.speed.rows import Row

_GPUS = {gpu.id: gpu for gpu in gpu_catalog()}
T = TypeVar("T", int, float)
NAIVE_SHARE = 0.8
"""Share of the bandwidth that calculators on the web assume: 0.7 to 0.9."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """One row, and the speed that a plan of it states."""

    row: Row
    candidate: Candidate
    gpu: GpuType
    workload: Workload
    speed: Speed
    naive_tpot_ms: float

    @property
    def tpot_ms(self) -> float:
        """Milliseconds between two tokens."""
        return self.speed.tpot_ms.middle

    @property
    def throughput(self) -> float:
        """Output tokens per second at the concurrency of the row, while all requests run."""
        return self.speed.running_requests * self.row.instances / self.tpot_ms * 1e3

    @property
    def error(self) -> float:
        """Relative error of the time per token."""
        return abs(self.tpot_ms / self.row.tpot_ms - 1)

    @property
    def naive_error(self) -> float:
        """The same of one efficiency."""
        return abs(self.naive_tpot_ms / self.row.tpot_ms - 1)

    @property
    def holds(self) -> bool:
        """Whether the measured figure is in the interval."""
        return self.speed.tpot_ms.low <= self.row.tpot_ms <= self.speed.tpot_ms.high

    @property
    def is_above_floor(self) -> bool:
        """Whether no end of the interval is faster than the hardware."""
        return self.speed.tpot_ms.low >= self.speed.floor_tpot_ms * (1 - 1e-9)

    def with_constants(self, constants: SpeedConstants) -> Speed | None:
        """Return the speed with other constants."""
        clock = clock_of(self.candidate, self.gpu)
        assert clock is not None
        changed = replace(clock, constants=constants)
        return speed_of(self.candidate, self.gpu, self.workload, clock=changed)


def predict(row: Row) -> Prediction | None:
    """Return what is said of a row; ``None`` where its model, GPU type or layout is not planned."""
    candidate, gpu = _candidate(row), _GPUS[row.gpu]
    if candidate is None:
        return None
    workload = _workload(row)
    speed = speed_of(candidate, gpu, workload)
    clock = clock_of(candidate, gpu)
    if speed is None or clock is None:
        return None
    work = clock.work
    batch = speed.running_requests / candidate.engines
    size = work.dense_bytes + work.head_bytes + work.expert_bytes(batch)
    size += batch * (work.cache_bytes(row.prompt_tokens + row.output_tokens / 2) + work.state_bytes)
    naive = size / (clock.gpu.bandwidth * NAIVE_SHARE) * 1e3
    return Prediction(row, candidate, gpu, workload, speed, naive)


def _workload(row: Row) -> Workload:
    requests = max(1, round(row.concurrency / row.instances))
    return Workload(round(row.prompt_tokens), max(1, round(row.output_tokens)), requests)


def _candidate(row: Row) -> Candidate | None:
    gpu = _GPUS[row.gpu]
    try:
        model = find_model(row.checkpoint).model
    except NoConfig:
        return None
    if gpu.compute_capability is None:
        return None
    flags = ServeFlags(
        tensor_parallel_size=row.tensor_parallel_size,
        pipeline_parallel_size=row.pipeline_parallel_size,
        data_parallel_size=row.data_parallel_size,
        enable_expert_parallel=row.expert_parallel,
        kv_cache_dtype=row.kv_cache_dtype or "auto",
        max_model_len=_number(row.flags, "max-model-len", int),
        max_num_seqs=_number(row.flags, "max-num-seqs", int),
        gpu_memory_utilization=_number(row.flags, "gpu-memory-utilization", float),
    )
    request = PlanRequest(model, (gpu,), _engine(row.version), flags, _workload(row), search=False)
    if flags.max_model_len is None:
        needed = round(row.prompt_tokens + row.output_tokens) + 256
        fitting = _dry_run(replace(request, serve=replace(flags, max_model_len=needed)))
        whole = _dry_run(request)
        return whole if whole is not None and whole.kv_cache is not None else fitting
    return _dry_run(request)


def _dry_run(request: PlanRequest) -> Candidate | None:
    return dry_run(request, request.serve, request.engine.rules, request.gpus[0])


@cache
def _engine(version: str | None) -> EngineChoice:
    return EngineChoice.of(version or "0.19.0")


def _number(flags: str, name: str, kind: Callable[[str], T]) -> T | None:
    found = re.search(rf"--{name}[= ]+([0-9.]+)", flags)
    return None if found is None else kind(found[1])
