"""How fast a start serves the workload of the request."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from service.advisor.candidates.admission import Admission
from service.advisor.candidates.advice import FALLBACK_BACKENDS
from service.advisor.candidates.plan_types import Candidate
from service.advisor.request.plan_request import MeasuredTpot, Workload
from service.engine_config.graph_modes import GraphMode
from service.gpus.gpu_type import GpuType
from service.memory.parallelism import Parallelism
from service.speed.gpu_speed import gpu_speed
from service.speed.measured_points import LayoutPoint, ratio_at
from service.speed.serving_speed import Load, Speed, serving_speed
from service.speed.speed_constants import speed_constants
from service.speed.step_time import StepClock
from service.speed.step_work import step_work

HALF: Final = 2
"""An answer is half written on average."""
HALVINGS: Final = 12
"""Steps of a bisection: a figure within 0.03 %."""


def speed_of(
    candidate: Candidate, gpu: GpuType, workload: Workload | None, clock: StepClock | None = None
) -> Speed | None:
    """Return how fast all replicas of a candidate serve a workload together, or ``None`` if not known.

    It is not known without a workload, without a cache, with draft tokens, which are accepted at an unknown
    rate, for layers that wait for weights in the host's memory, and for GPU types without published peaks.
    ``clock`` times the steps; without it, the candidate's own.
    """
    start, cache, admission = candidate.start, candidate.kv_cache, candidate.admission
    if workload is None or start is None or cache is None or admission is None or not workload.output_tokens:
        return None
    flags, running = candidate.flags, running_requests(candidate, admission, workload)
    if not running or start.engine_config.speculation is not None or flags.cpu_offload_gb:
        return None
    clock = clock or clock_of(candidate, gpu)
    if clock is None:
        return None

    def speed_at(requests: float, ratio: float | None = None) -> Speed:
        load = Load(
            prompt_tokens=max(1, workload.prompt_tokens - workload.shared_prefix_tokens),
            context_tokens=workload.prompt_tokens + workload.output_tokens / HALF,
            output_tokens=workload.output_tokens,
            running=requests,
            saturated=requests == running,
        )
        return serving_speed(
            clock, load, capability=str(gpu.compute_capability), engines=candidate.engines, ratio=ratio
        )

    points = tuple(
        _point(speed_at, running_requests(candidate, admission, _alone(workload, measured)), measured)
        for measured in workload.measured
    )

    def moved(requests: float) -> Speed:
        return speed_at(requests, ratio_at(points, requests) if points else None)

    if workload.request_rate is None:
        return moved(running)
    return _at_rate(moved, running, workload.request_rate)


def _alone(workload: Workload, measured: MeasuredTpot) -> Workload:
    """Return the workload of a measurement."""
    return replace(workload, concurrent_requests=measured.concurrent_requests, request_rate=None)


def _point(speed_at: Callable[[float], Speed], running: float, measured: MeasuredTpot) -> LayoutPoint:
    """Return a measurement beside what is predicted for it."""
    return LayoutPoint(running, measured.tpot_ms / speed_at(running).tpot_ms.middle)


def _at_rate(speed_at: Callable[[float], Speed], most: float, rate: float) -> Speed:
    """Return the speed with as few running requests as finish at this rate; with ``most`` if none do.

    By Little's law so many requests run as arrive during the life of one.
    """
    low, high = 0.0, most
    best = speed_at(most)
    if best.requests_per_second.middle <= rate:
        return best
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        found = speed_at(middle)
        if found.requests_per_second.middle < rate:
            low = middle
        else:
            high, best = middle, found
    return best


def running_requests(candidate: Candidate, admission: Admission, workload: Workload) -> float:
    """Return the requests that one engine runs at once: those asked for, as far as they are admitted.

    Where some are preempted while the answers grow, as many run as the cache holds with half their answers.
    """
    asked = workload.concurrent_requests / candidate.engines
    if workload.request_rate is not None:
        asked = float(admission.admitted_at_once)
    admitted, completed = admission.admitted_at_once, admission.completed_without_preemption
    steady = completed if completed >= min(asked, admitted) else (admitted + completed) / 2
    return min(asked, float(admitted), max(steady, float(bool(admitted))))


def clock_of(candidate: Candidate, gpu: GpuType) -> StepClock | None:
    """Return what times the steps of a start; ``None`` without one or on a GPU type of unknown peaks."""
    peaks, start = gpu_speed(gpu), candidate.start
    if peaks is None or start is None:
        return None
    config = start.engine_config
    capability = config.compute_capability
    parallelism = Parallelism(
        tensor_parallel_size=config.tensor_parallel_size,
        pipeline_parallel_size=config.pipeline_parallel_size,
        data_parallel_size=candidate.data_parallel_size,
        enable_expert_parallel=config.enable_expert_parallel,
        compute_capability=(capability.major, capability.minor),
        dtype=config.dtype,
    )
    work = step_work(start.architecture, parallelism, config.release, start.layout.layers)
    backends = candidate.attention_backends
    return StepClock(
        work=work,
        gpu=peaks,
        constants=speed_constants(config.release),
        max_num_batched_tokens=config.max_num_batched_tokens,
        eager=config.graph_mode is GraphMode.NONE,
        slow_cache=bool(backends) and backends[0] in FALLBACK_BACKENDS,
        unpacks_in_prompts=start.unpacked_in_prompts is not None,
    )
