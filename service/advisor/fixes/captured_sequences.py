"""How many sequences CUDA graphs are captured with, where there are fewer recurrent states than sequences."""

from service.advisor.dry_runs.engine_steps import EngineSteps, FailedStart, StartedEngine
from service.advisor.fixes.fix_attempt import available_kv
from service.advisor.request.plan_request import PlanRequest
from service.engines.flags import ServeFlags
from service.gpus.gpu_type import GpuType
from service.kv_cache.capture import capture_failure


def states_of(started: StartedEngine, num_bytes: int) -> int | None:
    """Return how many recurrent states a cache has, where CUDA graphs of all sequences need more."""
    start, blocks = started.start, started.sizing.num_blocks(num_bytes)
    failure = capture_failure(start.layout, start.engine_config, blocks)
    return None if failure is None else max(0, blocks)


def power_of_two(number: int) -> int:
    """Return the largest power of two up to a number; of such sizes CUDA graphs are captured."""
    return 1 << (number.bit_length() - 1)


def captured_sequences(
    request: PlanRequest, flags: ServeFlags, steps: EngineSteps, gpu: GpuType
) -> int | None:
    """Return how many sequences are sure to have a recurrent state each when CUDA graphs are captured.

    ``None`` where the engine can capture CUDA graphs as it is; 0 where it has no state at all.
    """
    started = steps.start(flags, gpu)
    if isinstance(started, FailedStart):
        return None
    least = states_of(started, available_kv(request, started, steps, gpu).low)
    return least and power_of_two(least)
