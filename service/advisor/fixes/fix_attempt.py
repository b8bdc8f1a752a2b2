"""A change that may get past a refusal, and the commonest of them: a shorter context."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from service.advisor.dry_runs.budget_inputs import calibrated
from service.advisor.dry_runs.engine_steps import EngineSteps, FailedStart, StartedEngine
from service.advisor.request.checkpoint_layouts import QuantizedSibling
from service.advisor.request.plan_request import Model, PlanRequest
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.gpus.gpu_type import GpuType
from service.memory.budget_types import Estimate
from service.memory.profile_run import reads_length

LENGTH_STEP: Final = 1024
"""Tokens to a multiple of which a search rounds a shorter context down, and between lengths that are tried
where the profile run depends on the length."""
ROUND_STEPS: Final = (LENGTH_STEP, 256)
"""Tokens to a multiple of which a proposed context is rounded down, where that takes less than an eighth."""
LEAST_STEPS: Final = 8
SizeOf: TypeAlias = Callable[[Estimate], int]
"""Returns one of the bytes of an estimate."""


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
    for length in shorter_lengths(request, flags, steps, gpu):
        yield FixAttempt(f"--max-model-len {length}", flags.of_length(length), steps.rules)


def shorter_lengths(
    request: PlanRequest, flags: ServeFlags, steps: EngineSteps, gpu: GpuType
) -> Iterator[int]:
    """Yield in tokens the longest context that is sure to fit, then the longest that is expected to, rounded.

    Nothing where the whole one fits, or none does.
    """
    started = steps.start(flags, gpu)
    if isinstance(started, FailedStart):
        return
    whole = started.start.engine_config.max_model_len
    lengths = (longest_length(request, flags, steps, gpu, size) for size in (sure, expected))
    yield from dict.fromkeys(rounded_down(length) for length in lengths if 0 < length < whole)


def rounded_down(length: int) -> int:
    """Return a length to propose: estimates of memory tell no more of it than its first digits."""
    step = next((each for each in ROUND_STEPS if length >= LEAST_STEPS * each), 1)
    return length // step * step


def longest_length(
    request: PlanRequest, flags: ServeFlags, steps: EngineSteps, gpu: GpuType, size: SizeOf
) -> int:
    """Return the tokens of the longest context that fits the memory; 0 if none does.

    The cache of a shorter context takes less. Where the profile run depends on the length, its peak does too:
    the engine profiles a video with as many frames as a request has room for.
    """

    def held(length: int | None) -> int:
        """Return how many tokens of a request fit the memory that a start of some length leaves."""
        started = steps.start(flags if length is None else flags.of_length(length), gpu)
        if isinstance(started, FailedStart):
            return 0
        try:
            return started.sizing.fitting().longest_held(size(available_kv(request, started, steps, gpu)))
        except EngineRefusal:
            return 0

    whole, first = steps.start(flags, gpu), held(None)
    if (
        isinstance(whole, FailedStart)
        or flags.kv_cache_memory_bytes is not None
        or not reads_length(whole.start.architecture)
    ):
        return first
    next_step = (first // LENGTH_STEP + 1) * LENGTH_STEP
    longer = range(next_step, whole.start.engine_config.max_model_len, LENGTH_STEP)
    # A longer context needs more and leaves no more: those that fit are all below those that do not.
    if not longer or held(longer[0]) < longer[0]:
        return first
    return longer[bisect_left(longer, x=True, lo=1, key=lambda length: held(length) < length) - 1]


def sure(available: Estimate) -> int:
    """Return the least bytes of an estimate."""
    return available.low


def expected(available: Estimate) -> int:
    """Return the bytes that are expected."""
    return available.bytes


def available_kv(request: PlanRequest, started: StartedEngine, steps: EngineSteps, gpu: GpuType) -> Estimate:
    """Return the memory that is left for the cache."""
    budget = steps.budget(started, gpu, request.free_memory_bytes)
    return calibrated(request, budget, started.start, started.flags, gpu).available_kv
