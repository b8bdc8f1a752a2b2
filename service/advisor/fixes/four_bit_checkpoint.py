"""What a checkpoint of the requested model with 4-bit weights would do, planned as any start is."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Final, TypeAlias

from service.advisor.candidates.plan_types import Candidate
from service.advisor.dry_runs.engine_steps import EngineSteps
from service.advisor.fixes.combined_changes import combined
from service.advisor.fixes.fix_attempt import FixAttempt
from service.advisor.request.checkpoint_layouts import sibling_named
from service.advisor.request.plan_request import Model, PlanRequest
from service.gpus.gpu_type import GpuType
from service.units import gib_text

Started: TypeAlias = Callable[[PlanRequest, FixAttempt, GpuType, EngineSteps], Candidate | None]
"""Returns the start that a change leads to, or ``None`` where it fails too."""
FOUR_BITS: Final = "-w4a16"
"""What the names of most such checkpoints end with, which stands for their layout."""
MODELS: Final = 4
"""Models whose form in 4 bits is stored."""


@lru_cache(maxsize=MODELS)
def four_bit_model(model: Model) -> Model | None:
    """Return the model with the linear layers of its decoder in 4 bits; ``None`` if it stores no 16 bits."""
    found = sibling_named(model, FOUR_BITS)
    return None if found is None else replace(found.model, id=model.id)


def four_bit_notes(
    request: PlanRequest,
    base: Candidate,
    gpu: GpuType,
    steps: EngineSteps,
    started: Started,
) -> Iterator[str]:
    """Yield what a checkpoint with 4-bit weights gives; nothing where such a start is refused too.

    ``base``: the refused start with the flags that were asked for. ``started``: what a change leads to.
    """
    model = four_bit_model(request.model)
    if model is None:
        return
    request = replace(request, model=model)
    steps = steps.under(base.rules).of(request.model)
    for attempt in _attempts(request, base, gpu, steps):
        candidate = started(request, attempt, gpu, steps)
        if candidate is not None and candidate.memory is not None and candidate.kv_cache is not None:
            cache = candidate.kv_cache
            yield (
                f"A checkpoint of this model with 4-bit weights (W4A16, groups of 128 inputs) takes about "
                f"{gib_text(candidate.memory.weights.bytes)} GiB of a rank and fits {gpu.id}"
                f"{f' with {attempt.words}' if attempt.words else ''}: context {cache.max_model_len:,}, "
                f"{cache.max_concurrency:.2f}x."
            )
            return


def _attempts(
    request: PlanRequest, base: Candidate, gpu: GpuType, steps: EngineSteps
) -> Iterator[FixAttempt]:
    """Yield the start of the request's model with what makes its context fit, then as asked for."""
    first = FixAttempt("", base.flags, base.rules)
    yield from combined(request, first, steps, gpu)
    yield first
