"""One candidate: a dry run up to its verdict."""

from dataclasses import dataclass, replace
from typing import Final

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
from service.architecture.model import ModelArchitecture
from service.engine_config.offload_checks import check_groups
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.gpus.gpu_type import GpuType
from service.kv_cache.capture import capture_failure
from service.kv_cache.kv_cache import KvCache
from service.memory.budget import Basis, MemoryBudget
from service.units import gib_text

FAILS_IN_CAPTURE: Final = "The engine sets up this cache, then fails when it captures CUDA graphs:"


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
    outcome = _failing(_outcome(request, flags, started, budget), started, budget)
    outcome = _with_quantization_warning(outcome, request.model.architecture)
    return Candidate(
        model=request.model,
        rules=rules,
        flags=flags,
        kv_cache_dtype=flags.kv_cache_dtype or "auto",
        resolved_kv_cache_dtype=start.stored_format,
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
        fails=outcome.fails,
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
    fails: bool = False


def _outcome(
    request: PlanRequest, flags: ServeFlags, started: StartedCandidate, budget: MemoryBudget
) -> _Outcome:
    start, sizing, available = started.start, started.sizing, budget.available_kv
    refused = too_little_free(budget, start.engine_config.rules, start.engine_config.gpu_memory_utilization)
    if refused is not None:
        return _Outcome(Verdict.REFUSED, refused)
    if flags.kv_cache_memory_bytes is None and budget.weights.low > budget.total.high:
        return _Outcome(Verdict.REFUSED, _weights_do_not_fit(budget))
    failure = start.failure_at_setup
    if failure is not None and sizing.fits(available.high):
        refused = Refusal(failure.type, failure.message, Stage.CACHE_SETUP, detail="", fix=())
        return _Outcome(Verdict.REFUSED, refused)
    try:
        check_groups(
            flags, start.engine_config.rules, [group.spec.block_size for group in start.layout.groups]
        )
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
        *started.doubts,
        *_when_captured(start, sizing.num_blocks(available.low) if sure else cache.num_blocks),
        *(beyond_memory(cache, budget) or no_room_for_graphs(cache, budget)),
        *hardly_free(budget),
        *_doubt(verdict, budget),
    )
    admission = None if request.workload is None else admission_of(start, cache, request.workload)
    hazards = () if admission is None else admission.hazards
    return _Outcome(Verdict.UNCERTAIN if doubt else verdict, None, cache, admission, (*doubt, *hazards))


def _failing(outcome: _Outcome, started: StartedCandidate, budget: MemoryBudget) -> _Outcome:
    """Return the outcome with what the engine surely ends in once its cache is set up.

    An engine that cannot capture CUDA graphs does not start. One whose attention fails may start with
    --enforce-eager and fail at the first request, so that its start stays uncertain; so does that of a cache
    given in bytes or blocks, which is a question of what such a cache holds.
    """
    if outcome.verdict is Verdict.REFUSED:
        return outcome
    if started.failures:
        return replace(outcome, verdict=Verdict.UNCERTAIN, fails=True)
    failure = _capture_refusal(outcome, started, budget)
    if failure is None:
        return outcome
    if (
        budget.available_kv.basis is Basis.GIVEN
        or started.start.engine_config.num_gpu_blocks_override is not None
    ):
        return replace(outcome, fails=True)
    return _Outcome(Verdict.REFUSED, Refusal.of(failure))


def _capture_refusal(
    outcome: _Outcome, started: StartedCandidate, budget: MemoryBudget
) -> EngineRefusal | None:
    """Return the engine's refusal to capture CUDA graphs, where even the most cache there may be is short."""
    start, sizing, available = started.start, started.sizing, budget.available_kv
    most = sizing.num_blocks(available.high)
    if capture_failure(start.layout, start.engine_config, most) is None:
        return None
    expected = most if outcome.cache is None else outcome.cache.num_blocks
    message = capture_failure(start.layout, start.engine_config, expected)
    least = sizing.num_blocks(available.low)
    span = f"{most:,}" if least == most else f"between {least:,} and {most:,}"
    return (
        None
        if message is None
        else EngineRefusal(
            Stage.RUN,
            message,
            detail=f"{FAILS_IN_CAPTURE} it will have {span} blocks, and needs one for each of "
            f"{start.engine_config.max_num_seqs:,} sequences. --enforce-eager captures none.",
        )
    )


def _with_quantization_warning(outcome: _Outcome, architecture: ModelArchitecture) -> _Outcome:
    """Warn of weights that the engine takes for unquantized."""
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
    failure = capture_failure(start.layout, start.engine_config, num_blocks)
    if failure is None:
        return ()
    words = f"{FAILS_IN_CAPTURE} ValueError: {failure} --enforce-eager captures none."
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
