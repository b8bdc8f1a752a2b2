"""What to know beside the fixes of a refusal, in sentences."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.refusal import Fix
from service.advisor.dry_runs.engine_steps import EngineSteps
from service.advisor.fixes.four_bit_checkpoint import Started, four_bit_notes
from service.advisor.fixes.memory_changes import BITSANDBYTES, FOUR_BITS_ONLINE, OFFLOAD
from service.advisor.request.checkpoint_layouts import named_with_sizes
from service.advisor.request.longer_context import SCALED, stretched
from service.advisor.request.plan_request import PlanRequest
from service.advisor.request.siblings import is_denser_than_8_bits
from service.engines.refusal import Stage
from service.gpus.gpu_type import GpuType

SIXTEEN_BITS, EIGHT_BITS, FOUR_BITS = 16, 8, 4
COUNTED_BITS: Final[Mapping[str | None, int]] = {
    None: SIXTEEN_BITS,
    "fp8": EIGHT_BITS,
    "fp8_per_tensor": EIGHT_BITS,
    FOUR_BITS_ONLINE: FOUR_BITS,
    BITSANDBYTES: FOUR_BITS,
}
"""Bits of most weights by ``--quantization``; other methods leave many in 16 bits."""
SLOW_OFFLOAD: Final = (
    "Weights in the host's memory cross the bus to the GPU at every step, which is many times slower."
)
"""Source: vLLM docs, engine arguments, --cpu-offload-gb: loaded from the CPU in each forward pass."""
ROUGH_FOUR_BITS: Final = (
    "mxfp4 rounds weights to 4 bits while they load, without calibration, and answers suffer. A published "
    "4-bit checkpoint of the model (AWQ, GPTQ, QAT) takes as much memory and loses less."
)
NO_LEVERS: Final = (
    "There are no levers (--include levers): they change a start that works, such as one with a fix above."
)
TOO_LONG: Final = "is greater than the derived max_model_len"
"""Words of the engine's refusal (vLLM 0.32.0, config/model.py _get_and_verify_max_len)."""


@dataclass(frozen=True, slots=True)
class RefusedStart:
    """A candidate that is refused, and what its fixes are tried with."""

    request: PlanRequest
    candidate: Candidate
    base: Candidate
    """The candidate with the flags that were asked for."""
    gpu: GpuType
    steps: EngineSteps

    @property
    def lacks_memory(self) -> bool:
        """Whether the engine found too little memory."""
        error = self.candidate.error
        return error is not None and error.stage is Stage.MEMORY


def notes_of(refused: RefusedStart, fixes: Sequence[Fix], started: Started) -> Iterator[str]:
    """Yield what to know beside the fixes; ``started``: what a change leads to."""
    request, base = refused.request, refused.base
    yield from _notes(request, refused.candidate)
    named = any(fix.checkpoint is not None and is_denser_than_8_bits(fix.checkpoint) for fix in fixes)
    if refused.lacks_memory and not named:
        yield from four_bit_notes(request, base, refused.gpu, refused.steps, started)
    yield from _length_notes(request, base, fixes)
    if request.with_levers:
        yield NO_LEVERS
    yield from cost_notes(fixes)


def cost_notes(fixes: Iterable[Fix]) -> Iterator[str]:
    """Yield what fixes cost beside memory."""
    changes = [fix.change for fix in fixes]
    if any(OFFLOAD in each for each in changes):
        yield SLOW_OFFLOAD
    if any(FOUR_BITS_ONLINE in each for each in changes):
        yield ROUGH_FOUR_BITS


def is_too_long(candidate: Candidate) -> bool:
    """Whether the start is refused because the requested context is longer than the config allows."""
    return candidate.error is not None and TOO_LONG in candidate.error.message


def _notes(request: PlanRequest, candidate: Candidate) -> tuple[str, ...]:
    """Return what else gets past a lack of memory: checkpoints with quantized weights."""
    error, memory = candidate.error, candidate.memory
    if error is None or error.stage is not Stage.MEMORY or memory is None:
        return ()
    siblings: tuple[str, ...] = request.siblings
    words: tuple[str, ...] = ()
    if request.model.architecture.stores_16_bits and _exceeds(candidate, EIGHT_BITS):
        gpus = "one GPU" if candidate.gpus == 1 else f"{candidate.gpus} GPUs"
        way = (
            "more GPUs are needed"
            if _exceeds(candidate, FOUR_BITS)
            else "4-bit weights are needed, or more GPUs"
        )
        words = (f"Even weights quantized to fp8 do not fit {gpus} of this type: {way}.",)
        siblings = () if _exceeds(candidate, FOUR_BITS) else tuple(filter(is_denser_than_8_bits, siblings))
    if not siblings:
        return words
    return (*words, f"Quantized checkpoints of this model: {named_with_sizes(request, siblings)}")


def _length_notes(request: PlanRequest, candidate: Candidate, fixes: Iterable[Fix]) -> tuple[str, ...]:
    """Return what to know about a context longer than the config allows: the cost, or why there is no way."""
    if not is_too_long(candidate):
        return ()
    if any(fix.change.startswith("--hf-overrides") for fix in fixes):
        return (SCALED,)
    found = stretched(request.model, candidate.flags, candidate.rules.lengths)
    return (found,) if isinstance(found, str) else ()


def _exceeds(candidate: Candidate, bits: int) -> bool:
    """Whether weights of so many bits are sure not to fit the device, from those that the dry run counted.

    Some tensors keep 16 bits, so weights of fewer bits take at least their share of what 16 bits take.
    """
    memory, counted = candidate.memory, COUNTED_BITS.get(candidate.flags.quantization)
    if memory is None or counted is None:
        return False
    return memory.weights.low * bits > memory.total.high * counted
