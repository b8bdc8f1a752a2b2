"""One candidate: a dry run up to its verdict."""

from dataclasses import replace

from service.advisor.answer import Admission, Candidate, Refusal, Verdict
from service.advisor.command import serve_command
from service.advisor.free_memory import hardly_free, too_little_free
from service.advisor.memory import budget_of
from service.advisor.request import PlanRequest, Workload
from service.advisor.start import Start, dry_start
from service.advisor.warnings import beyond_memory, warnings
from service.backends.assignment import count_backends
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules import EngineRules
from service.gpus.gpu_type import GpuType
from service.kv_cache.admission import admission_blocks
from service.kv_cache.answer import KvCache
from service.kv_cache.capacity import size_cache
from service.kv_cache.capture import capture_failure
from service.kv_cache.formats import UnmodelledCacheDtype
from service.launch.speculation import UnmodelledSpeculation
from service.memory.budget import MemoryBudget
from service.units import gib_text


def dry_run(request: PlanRequest, flags: ServeFlags, rules: EngineRules, gpu: GpuType) -> Candidate:
    """Return what the engine would do with these very flags on this GPU type."""
    blank = Candidate(
        kv_cache_dtype=flags.kv_cache_dtype or "auto",
        resolved_kv_cache_dtype=None,
        tensor_parallel_size=flags.tensor_parallel_size or 1,
        pipeline_parallel_size=flags.pipeline_parallel_size,
        block_size=None,
        attention_backends=(),
        verdict=Verdict.REFUSED,
        error=None,
        memory=None,
        kv_cache=None,
        admission=None,
        warnings=(),
        command=serve_command(request.model.id, flags, rules, request.model.asked_revision),
    )
    try:
        start = dry_start(request.model.architecture, flags, rules, gpu)
    except EngineRefusal as refusal:
        return replace(blank, error=_refusal(refusal))
    except (UnmodelledCacheDtype, UnmodelledSpeculation) as unknown:
        return replace(blank, verdict=Verdict.UNCERTAIN, warnings=(str(unknown),))
    started = replace(
        blank,
        resolved_kv_cache_dtype=start.stored_dtype,
        block_size=start.layout.block_size,
        attention_backends=count_backends(start.backends),
    )
    return _with_memory(started, request, flags, start, gpu)


def _with_memory(
    candidate: Candidate, request: PlanRequest, flags: ServeFlags, start: Start, gpu: GpuType
) -> Candidate:
    budget = budget_of(request, start, flags, gpu)
    candidate = replace(candidate, memory=budget)
    refused = too_little_free(budget, start.serving.rules, start.serving.gpu_memory_utilization)
    if refused is not None:
        return replace(candidate, error=refused)
    if flags.kv_cache_memory_bytes is None and budget.weights.low > budget.total.high:
        return replace(candidate, error=_weights_do_not_fit(budget))
    try:
        cache = size_cache(start.layout, start.serving, budget.available_kv.bytes)
    except EngineRefusal as refusal:
        most = _sized(start, budget.available_kv.high)
        verdict = Verdict.REFUSED if most is None else Verdict.UNCERTAIN
        error = _refusal(refusal)
        return replace(candidate, verdict=verdict, error=error, warnings=_doubt(verdict, budget))
    least = _sized(start, budget.available_kv.low)
    verdict = Verdict.UNCERTAIN if least is None else Verdict.STARTS
    doubt = (
        *start.miscounts(start.architecture),
        *start.fails_when_run,
        *_when_captured(start, least or cache),
        *beyond_memory(cache, budget),
        *hardly_free(budget),
        *_doubt(verdict, budget),
    )
    return replace(
        candidate,
        verdict=Verdict.UNCERTAIN if doubt else verdict,
        kv_cache=cache,
        admission=_admission(start, cache, request.workload),
        warnings=(*doubt, *warnings(start, cache)),
    )


def _sized(start: Start, available_bytes: int) -> KvCache | None:
    try:
        return size_cache(start.layout, start.serving, available_bytes)
    except EngineRefusal:
        return None


def _when_captured(start: Start, cache: KvCache) -> tuple[str, ...]:
    """Say what fails with the least cache that there may be."""
    failure = capture_failure(start.layout, start.serving, cache.num_blocks)
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


def _refusal(refusal: EngineRefusal) -> Refusal:
    return Refusal(
        type=refusal.type, message=refusal.message, stage=refusal.stage, detail=refusal.detail, fix=()
    )


def _weights_do_not_fit(budget: MemoryBudget) -> Refusal:
    return Refusal(
        type="OutOfMemoryError",
        message="CUDA out of memory.",
        stage=Stage.MEMORY,
        detail=f"The weights of one rank take {gib_text(budget.weights.low)} GiB or more, "
        f"the device has {gib_text(budget.total.high)} GiB or less.",
        fix=(),
    )


def _admission(start: Start, cache: KvCache, workload: Workload | None) -> Admission | None:
    if workload is None:
        return None
    groups = admission_blocks(start.layout.groups, start.serving, workload.prompt_tokens)
    blocks = sum(group.blocks for group in groups)
    sliding = sum(group.blocks for group in groups if group.kind == "sliding_window")
    free = cache.num_blocks - 1
    at_once = min(free // blocks, start.serving.max_num_seqs)
    return Admission(
        groups=groups,
        blocks=blocks,
        sliding_window_blocks=sliding,
        free_blocks=free,
        admitted_at_once=at_once,
        explanation=(
            f"A prompt of {workload.prompt_tokens:,} tokens must find {blocks:,} of {free:,} blocks free "
            f"({', '.join(f'{group.blocks:,} {group.kind}' for group in groups)}): {at_once:,} such prompts "
            f"fit at once, {workload.concurrent_requests:,} are wanted."
        ),
    )
