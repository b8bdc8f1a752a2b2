"""One candidate: a dry run up to its verdict."""

from dataclasses import dataclass, replace

from service.advisor.admission import admission_of
from service.advisor.answer import Admission, Candidate, Refusal, Verdict
from service.advisor.free_memory import hardly_free, too_little_free
from service.advisor.memory import calibrated
from service.advisor.request import PlanRequest
from service.advisor.shared_work import Begun, SharedWork
from service.advisor.standing import beyond_memory, no_room_for_graphs
from service.advisor.start import Start
from service.architecture.model import ModelArchitecture
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules import EngineRules
from service.gpus.gpu_type import GpuType
from service.kv_cache.answer import KvCache
from service.kv_cache.capture import capture_failure
from service.launch.offloading import check_groups
from service.memory.budget import MemoryBudget
from service.units import gib_text


def dry_run(
    request: PlanRequest, flags: ServeFlags, rules: EngineRules, gpu: GpuType, work: SharedWork | None = None
) -> Candidate:
    """Return what the engine would do with these very flags on this GPU type.

    ``work`` is what candidates of the same model under the same rules have in common.
    """
    work = work or SharedWork(request.model, rules)
    device = work.device(gpu)
    begun = work.begin(flags, device)
    if isinstance(begun, Candidate):
        return begun
    start = begun.start
    budget = work.budget(start, flags, device, request.free_memory_bytes)
    budget = calibrated(request, budget, start, flags, gpu)
    outcome = _told(_outcome(request, flags, begun, budget), request.model.architecture)
    return Candidate(
        model=request.model,
        rules=rules,
        flags=flags,
        kv_cache_dtype=flags.kv_cache_dtype or "auto",
        resolved_kv_cache_dtype=start.stored_dtype,
        tensor_parallel_size=flags.tensor_parallel_size or 1,
        pipeline_parallel_size=flags.pipeline_parallel_size,
        block_size=start.layout.block_size,
        attention_backends=begun.backends,
        verdict=outcome.verdict,
        error=outcome.error,
        memory=budget,
        kv_cache=outcome.cache,
        admission=outcome.admission,
        doubts=outcome.doubts,
        start=start,
    )


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What becomes of a start once its memory is known."""

    verdict: Verdict
    error: Refusal | None = None
    cache: KvCache | None = None
    admission: Admission | None = None
    doubts: tuple[str, ...] = ()


def _outcome(request: PlanRequest, flags: ServeFlags, begun: Begun, budget: MemoryBudget) -> _Outcome:
    start, sizing, available = begun.start, begun.sizing, budget.available_kv
    refused = too_little_free(budget, start.serving.rules, start.serving.gpu_memory_utilization)
    if refused is not None:
        return _Outcome(Verdict.REFUSED, refused)
    if flags.kv_cache_memory_bytes is None and budget.weights.low > budget.total.high:
        return _Outcome(Verdict.REFUSED, _weights_do_not_fit(budget))
    try:
        check_groups(flags, start.serving.rules, [group.spec.block_size for group in start.layout.groups])
    except EngineRefusal as refusal:
        return _Outcome(Verdict.REFUSED, Refusal.of(refusal))
    try:
        cache = sizing.size(available.bytes)
    except EngineRefusal as refusal:
        verdict = Verdict.UNCERTAIN if sizing.fits(available.high) else Verdict.REFUSED
        return _Outcome(verdict, Refusal.of(refusal), doubts=_doubt(verdict, budget))
    sure = available.low == available.bytes or sizing.fits(available.low)
    verdict = Verdict.STARTS if sure else Verdict.UNCERTAIN
    doubt = (
        *begun.doubts,
        *_when_captured(start, sizing.num_blocks(available.low) if sure else cache.num_blocks),
        *(beyond_memory(cache, budget) or no_room_for_graphs(cache, budget)),
        *hardly_free(budget),
        *_doubt(verdict, budget),
    )
    admission = None if request.workload is None else admission_of(start, cache, request.workload)
    hazards = () if admission is None else admission.hazards
    return _Outcome(Verdict.UNCERTAIN if doubt else verdict, None, cache, admission, (*doubt, *hazards))


def _told(outcome: _Outcome, architecture: ModelArchitecture) -> _Outcome:
    """Warn of weights whose quantization the engine does not heed."""
    algorithm = architecture.unnamed_quantization
    if algorithm is None:
        return outcome
    words = (
        f"The checkpoint's quant_algo is {algorithm}, but its quantization_config names no quant_method and "
        'no producer {"name": "modelopt"}. vLLM then takes the weights for unquantized: it reserves memory '
        f"for weights in {architecture.dtype}, and fails if it finds {algorithm} weights. This copy of the "
        "config may lack a part of the original."
    )
    return replace(outcome, doubts=(words, *outcome.doubts))


def _when_captured(start: Start, num_blocks: int) -> tuple[str, ...]:
    """Say what fails with the least cache that there may be."""
    failure = capture_failure(start.layout, start.serving, num_blocks)
    if failure is None:
        return ()
    words = (
        "The engine sets up this cache, then fails when it captures CUDA graphs: "
        f"ValueError: {failure} --enforce-eager captures none."
    )
    return (words,)


def _doubt(verdict: Verdict, budget: MemoryBudget) -> tuple[str, ...]:
    if verdict is not Verdict.UNCERTAIN:
        return ()
    available = budget.available_kv
    words = (
        "Whether it starts depends on memory that only a start can measure: between "
        f"{gib_text(available.low)} and {gib_text(available.high)} GiB are left for the cache."
    )
    return (words,)


def _weights_do_not_fit(budget: MemoryBudget) -> Refusal:
    return Refusal(
        type="OutOfMemoryError",
        message="CUDA out of memory.",
        stage=Stage.MEMORY,
        detail=f"The weights of one rank take {gib_text(budget.weights.low)} GiB or more, "
        f"the device has {gib_text(budget.total.high)} GiB or less.",
        fix=(),
    )
