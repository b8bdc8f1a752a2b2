"""A change that may get past a refusal, and the commonest of them: a shorter context."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from service.advisor.budget_inputs import calibrated
from service.advisor.checkpoint_layouts import QuantizedSibling
from service.advisor.engine_steps import EngineSteps, FailedStart, StartedEngine
from service.advisor.plan_request import Model, PlanRequest
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.gpus.gpu_type import GpuType
from service.memory.budget_types import Estimate


@dataclass(frozen=True, slots=True)
class FixAttempt:
    """A single change in words, and the start that it leads to."""

    words: str
    flags: ServeFlags
    rules: EngineRules
    model: Model | None = None
    """The model that the change makes of the requested one; ``None`` where it leaves the config as it is."""
    patch: str | None = None
    """The pull request that the change lays over the release, if it is one."""
    checkpoint: QuantizedSibling | None = None
    """The checkpoint that the change is to, if it is one; its model is ``model``."""


def shorter_attempts(
    request: PlanRequest, flags: ServeFlags, steps: EngineSteps, gpu: GpuType
) -> Iterator[FixAttempt]:
    """Yield the longest context that is sure to fit the memory, then the longest that is expected to."""
    started = steps.start(flags, gpu)
    if isinstance(started, FailedStart):
        return
    available = available_kv(request, started, steps, gpu)
    for size in dict.fromkeys((available.low, available.bytes)):
        try:
            length = started.sizing.fitting().longest_held(size)
        except EngineRefusal:
            continue
        if 0 < length < started.start.engine_config.max_model_len:
            yield FixAttempt(f"--max-model-len {length}", replace(flags, max_model_len=length), steps.rules)


def available_kv(request: PlanRequest, started: StartedEngine, steps: EngineSteps, gpu: GpuType) -> Estimate:
    """Return the memory that is left for the cache."""
    budget = steps.budget(started, gpu, request.free_memory_bytes)
    return calibrated(request, budget, started.start, started.flags, gpu).available_kv
