"""One candidate: a dry run up to its verdict."""

from dataclasses import dataclass, replace

from service.advisor.budget_inputs import calibrated
from service.advisor.engine_start import Start
from service.advisor.free_memory import hardly_free, too_little_free
from service.advisor.plan_cache import SharedWork, StartedCandidate
from service.advisor.plan_request import PlanRequest
from service.advisor.plan_types import (
    Admission,
    Candidate,
    Refusal,
    Verdict,
)
from service.advisor.runtime_headroom import beyond_memory, no_room_for_graphs
from service.advisor.workload_admission import admission_of
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.gpus.gpu_type import GpuType
from service.kv_cache.capture import capture_failure
from service.kv_cache.kv_cache import KvCache
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
    started = work.begin(flags, device)
    if isinstance(started, Candidate):
        return started
    start = started.start
    budget = work.budget(start, flags, device, request.free_memory_bytes)
    budget = calibrated(request, budget, start, flags, gpu)
    outcome = _doubted(_outcome(request, flags, started, budget), rules)
    return Candidate(
        model=request.model,
        rules=rules,
        flags=flags,
        kv_cache_dtype=flags.kv_cache_dtype or "auto",
        resolved_kv_cache_dtype=start.stored_dtype,
        tensor_parallel_size=flags.tensor_parallel_size or 1,
        pipeline_parallel_size=flags.pipeline_parallel_size,
        block_size=start.layout.block_size,
        attention_backends=started.backends,
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


def _outcome(
    request: PlanRequest, flags: ServeFlags, started: StartedCandidate, budget: MemoryBudget
) -> _Outcome:
    start, sizing, available = started.start, started.sizing, budget.available_kv
    refused = too_little_free(budget, start.engine_config.rules, start.engine_config.gpu_memory_utilization)
    if refused is not None:
        return _Outcome(Verdict.REFUSED, refused)
    if flags.kv_cache_memory_bytes is None and budget.weights.low > budget.total.high:
        return _Outcome(Verdict.REFUSED, _weights_do_not_fit(budget))
    try:
        cache = sizing.size(available.bytes)
    except EngineRefusal as refusal:
        verdict = Verdict.UNCERTAIN if sizing.fits(available.high) else Verdict.REFUSED
        return _Outcome(verdict, Refusal.of(refusal), doubts=_doubt(verdict, budget))
    sure = available.low == available.bytes or sizing.fits(available.low)
    verdict = Verdict.STARTS if sure else Verdict.UNCERTAIN
    doubt = (
        *started.doubts,
        *_when_captured(start, sizing.num_blocks(available.low) if sure else cache.num_blocks),
        *(beyond_memory(cache, budget) or no_room_for_graphs(cache, budget)),
        *hardly_free(budget),
        *_doubt(verdict, budget),
    )
    admission = None if request.workload is None else admission_of(start, cache, request.workload)
    hazards = () if admission is None else admission.hazards
    return _Outcome(Verdict.UNCERTAIN if doubt else verdict, None, cache, admission, (*doubt, *hazards))


def _doubted(outcome: _Outcome, rules: EngineRules) -> _Outcome:
    """Return an outcome with the doubt about the release: nothing starts for sure on one in doubt."""
    if not rules.doubt:
        return outcome
    verdict = Verdict.UNCERTAIN if outcome.verdict is Verdict.STARTS else outcome.verdict
    return replace(outcome, verdict=verdict, doubts=(*rules.doubts, *outcome.doubts))


def _when_captured(start: Start, num_blocks: int) -> tuple[str, ...]:
    """Say what fails with the least cache that there may be."""
    failure = capture_failure(start.layout, start.engine_config, num_blocks)
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
