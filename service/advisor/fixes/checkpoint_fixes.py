"""Published checkpoints with quantized weights as fixes of a lack of memory, untried."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from service.advisor.dry_runs.engine_steps import EngineSteps
from service.advisor.fixes.combined_changes import combined
from service.advisor.fixes.fix_attempt import FixAttempt
from service.advisor.request.checkpoint_layouts import QuantizedSibling, runnable_siblings, with_size
from service.advisor.request.plan_request import PlanRequest
from service.advisor.request.siblings import is_denser_than_8_bits
from service.engines.flags import ServeFlags
from service.gpus.gpu_type import GpuType


def checkpoint_sources(
    request: PlanRequest, flags: ServeFlags, steps: EngineSteps, gpu: GpuType
) -> Iterator[Iterable[FixAttempt]]:
    """Yield the least lossy published checkpoint of the model, and the least lossy of fewer than 8 bits.

    Each with what makes the context fit, where it does not as asked for.
    """
    if flags.quantization is not None:
        return
    runnable = tuple(runnable_siblings(request, gpu))
    denser = next((each for each in runnable if is_denser_than_8_bits(each.model.id)), None)
    for sibling in runnable[:1]:
        yield _checkpoint_attempts(request, sibling, flags, steps, gpu)
    if denser is not None and denser is not runnable[0]:
        yield _checkpoint_attempts(request, denser, flags, steps, gpu)


def _checkpoint_attempts(
    request: PlanRequest, sibling: QuantizedSibling, flags: ServeFlags, steps: EngineSteps, gpu: GpuType
) -> Iterator[FixAttempt]:
    model = sibling.model
    words = f"checkpoint {with_size(sibling, steps.rules.release)}"
    first = FixAttempt(words, flags, steps.rules, model, checkpoint=sibling)
    yield from combined(replace(request, model=model), first, steps.of(model), gpu)
    yield first
