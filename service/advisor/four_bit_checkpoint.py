"""What a checkpoint of the requested model with 4-bit weights would do, planned as any start is."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Final

from service.advisor.engine_steps import EngineSteps
from service.advisor.fix_attempts import FixAttempt, shorter_attempts
from service.advisor.plan_request import Model, PlanRequest
from service.advisor.plan_types import Candidate
from service.architecture.quantization import Quantization
from service.architecture.weight_schemes import Granularity, SchemeGroup, WeightFormat, WeightScheme
from service.gpus.gpu_type import GpuType
from service.units import gib_text

FOUR_BITS: Final = WeightScheme(
    WeightFormat.PACKED, Granularity.GROUP, bits=4, group_size=128, weight_only=True
)
"""Source: compressed-tensors 0.12.2, quantization/quant_scheme.py W4A16: what most such checkpoints are."""
UNQUANTIZED: Final = ("lm_head", "re:.*vis.*", "re:.*audio.*", "re:.*projector.*")
"""What checkpoints with 4-bit weights leave in 16 bits: the output layer, encoders and what joins them."""

MODELS: Final = 4
"""Models whose form in 4 bits is stored."""


@lru_cache(maxsize=MODELS)
def four_bit_model(model: Model) -> Model:
    """Return the model with the linear layers of its decoder in 4 bits, a scale for each 128 inputs."""
    stored = Quantization("compressed-tensors", schemes=(SchemeGroup(FOUR_BITS),), ignored=UNQUANTIZED)
    architecture = replace(model.architecture, quantization=stored)
    return replace(model, architecture=architecture, checkpoint_bytes=None)


def four_bit_notes(
    request: PlanRequest,
    base: Candidate,
    gpu: GpuType,
    steps: EngineSteps,
    started: Callable[[PlanRequest, FixAttempt, GpuType, EngineSteps], Candidate | None],
) -> Iterator[str]:
    """Yield what a checkpoint with 4-bit weights gives; nothing where such a start is refused too.

    ``base``: the refused start with the flags that were asked for. ``started``: what a change leads to.
    """
    if not request.model.architecture.stores_16_bits:
        return
    request = replace(request, model=four_bit_model(request.model))
    steps = steps.under(base.rules).of(request.model)
    for attempt in _attempts(request, base, gpu, steps):
        candidate = started(request, attempt, gpu, steps)
        if candidate is not None and candidate.memory is not None and candidate.kv_cache is not None:
            cache = candidate.kv_cache
            yield (
                f"A checkpoint of this model with 4-bit weights (W4A16, groups of 128 inputs) takes about "
                f"{gib_text(candidate.memory.weights.bytes)} GiB of a rank and fits {gpu.id}: context "
                f"{cache.max_model_len:,}, {cache.max_concurrency:.2f}x."
            )
            return


def _attempts(
    request: PlanRequest, base: Candidate, gpu: GpuType, steps: EngineSteps
) -> Iterator[FixAttempt]:
    """Yield the start of the request's model as asked for, then with the longest context that fits."""
    yield FixAttempt("", base.flags, base.rules)
    yield from shorter_attempts(request, base.flags, steps, gpu)
