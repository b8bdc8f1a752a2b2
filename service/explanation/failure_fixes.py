"""Fixes of a failed start, each tested by a dry run before it is named.

Where the model, the GPU and the release are known, they contain those that a plan of the same start names.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from math import ceil
from typing import Final

from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.refusal import Fix
from service.advisor.candidates.verdict import Verdict
from service.advisor.dry_runs.dry_run import dry_run
from service.advisor.dry_runs.plan_cache import CachedSteps
from service.advisor.fixes.fix_attempt import FixAttempt
from service.advisor.fixes.fix_attempts import plain_refusal_sources
from service.advisor.fixes.fixes import Worked, changes_that_work, fix_of, newer_release, starts, working
from service.advisor.fixes.memory_changes import OFFLOAD
from service.engines.flags import ServeFlags
from service.engines.refusal import Stage
from service.explanation.comparison import bytes_within
from service.explanation.planned_start import PlannedStart, available_gib
from service.startup_log.log import StartupLog
from service.units import GIB

MOST: Final = 7
"""Fixes named at most: one more than a plan names."""
MOST_OTHERS: Final = 5
"""Fixes named at most where the GPU is not known, without a newer release."""
MOST_UTILIZATION: Final = 0.97
"""A higher value leaves too little memory for the driver."""
LEFT_FREE: Final = 0.05
"""Share of the device's memory to leave free beside the cache, after the engine ran out of memory there."""
WARMING_UP: Final = "out_of_memory_warming_up"
OUT_OF_MEMORY: Final = frozenset({"out_of_memory", WARMING_UP, "graph_capture_failed"})
"""Causes of a start that had memory for a cache, but too little memory beside it."""
SMALL_BATCH: Final = 2048
DOUBLINGS: Final = (2, 4, 8)
"""Factors of --tensor-parallel-size to try, up to one host's GPUs."""
FEW_REQUESTS: Final = 256
"""Most sequences to propose; half of what a start has, where that is less."""
LEAST_REQUESTS: Final = 8
SMALLER_DTYPES: Final = ("fp8", "int8_per_token_head", "fp8_per_token_head")


class FixKind(StrEnum):
    """What changes have in common of which one is enough."""

    RANKS = "more ranks"
    DTYPE = "a smaller dtype of the cache"


@dataclass(frozen=True, slots=True)
class FailureFixAttempt:
    """A change to try."""

    words: str
    flags: ServeFlags
    pinned: bool = True
    """Whether the logged memory is valid for it too; otherwise it is estimated."""
    more_bytes: int = 0
    """Bytes that it adds to the logged memory."""
    kind: FixKind | None = None
    """Of the changes of a kind only the first that works is named."""
    larger: bool = False
    """It gives the cache memory that the engine needs later, so that it must leave enough of it."""


def memory_fixes(run: PlannedStart, log: StartupLog) -> tuple[Fix, ...]:
    """Return changes with which the memory suffices: those of a plan, then those that the log makes possible.

    The safest are first. Each has the verdict of a plan of its own command.
    """
    fixes = list(_fixes_of_plan(run, log))
    named = set(_kinds(fixes, run))
    for attempt in _for_memory(run, log):
        if len(fixes) >= MOST:
            break
        known = attempt.kind in named or any(attempt.words == fix.change for fix in fixes)
        fix = None if known else _tried(run, log, attempt)
        if fix is not None:
            fixes.append(fix)
            named.update(() if attempt.kind is None else (attempt.kind,))
    # Weights in the host's memory slow every step: whatever else there is comes before them.
    return tuple(sorted(fixes, key=lambda fix: (OFFLOAD in fix.change, fix.risk)))


def _kinds(fixes: Iterable[Fix], run: PlannedStart) -> Iterator[FixKind]:
    """Yield the kinds of fixes that a plan names."""
    for fix in fixes:
        if fix.gpus > run.free.gpus:
            yield FixKind.RANKS
        if fix.change.startswith("--kv-cache-dtype"):
            yield FixKind.DTYPE


def _fixes_of_plan(run: PlannedStart, log: StartupLog) -> Iterator[Fix]:
    """Yield the fixes that a plan of the same start names, but those that the logged memory refutes.

    Where only the logged memory shows the refusal, they are those of a plan that has it.
    """
    refused = run.free
    if refused.error is None and not refused.fails:
        refused = replace(run.judged, flags=run.free.flags)
    error = refused.error
    of_memory = refused.fails if error is None else error.stage is Stage.MEMORY
    for attempt, start in changes_of_plan(run, refused) if of_memory else ():
        verdict = _with_logged(run, log, attempt, start)
        if verdict is not Verdict.REFUSED:
            yield replace(fix_of(run.request.model, attempt, start), verdict=verdict)


def _with_logged(run: PlannedStart, log: StartupLog, attempt: FixAttempt, start: Candidate) -> Verdict:
    """Return the verdict of a planned change beside the logged memory.

    What the change leaves more for the cache is the difference of two plans. Where it is nothing, the logged
    memory decides; otherwise it casts doubt.
    """
    gib, memory, before = available_gib(log), start.memory, run.free.memory
    if gib is None or memory is None or before is None or run.request.serve.kv_cache_memory_bytes is not None:
        return start.verdict
    gain = memory.available_kv.bytes - before.available_kv.bytes
    size = bytes_within(gib)[-1] + gain
    request = run.request if attempt.model is None else replace(run.request, model=attempt.model)
    flags = replace(attempt.flags, kv_cache_memory_bytes=size)
    if size > 0 and dry_run(request, flags, attempt.rules, request.gpus[0]).may_serve:
        return start.verdict
    return Verdict.UNCERTAIN if gain else Verdict.REFUSED


def changes_of_plan(run: PlannedStart, refused: Candidate) -> tuple[Worked, ...]:
    """Return what gets past the refusal of a start, by the function that a plan finds it with."""
    if not run.is_of_the_log:
        return ()
    steps = CachedSteps(run.request.model, run.rules)
    return changes_that_work(run.request, refused, run.request.gpus[0], steps)


def fixes_of(run: PlannedStart, refused: Candidate) -> tuple[Fix, ...]:
    """Return the fixes of a refused start as a plan names them, the safest first."""
    found = (fix_of(run.request.model, *each) for each in changes_of_plan(run, refused))
    return tuple(sorted(found, key=lambda fix: fix.risk))


def other_fixes(run: PlannedStart, log: StartupLog) -> tuple[Fix, ...]:
    """Return changes that get past a refusal before memory is known."""
    if run.is_of_the_log and run.free.error is not None:
        return fixes_of(run, run.free)
    request, gpu = run.request, run.request.gpus[0]

    def tried(attempt: FixAttempt) -> Candidate | None:
        pinned = replace(attempt, flags=_with_memory(attempt.flags, log))
        if not starts(request, pinned, gpu):
            return None
        return dry_run(request, pinned.flags, pinned.rules, gpu)

    sources = plain_refusal_sources(request.model, request.serve, run.rules, gpu)
    found = (
        *islice(working(sources, tried), MOST_OTHERS),
        *newer_release(request.serve, run.rules, tried),
    )
    return tuple(fix_of(request.model, *each) for each in found)


def _with_memory(flags: ServeFlags, log: StartupLog) -> ServeFlags:
    gib = available_gib(log)
    return flags if gib is None or gib <= 0 else replace(flags, kv_cache_memory_bytes=round(gib * GIB))


def _tried(run: PlannedStart, log: StartupLog, attempt: FailureFixAttempt) -> Fix | None:
    gib, flags = available_gib(log), attempt.flags
    if attempt.pinned and gib is not None and run.request.serve.kv_cache_memory_bytes is None:
        size = round(gib * GIB) + attempt.more_bytes
        if size <= 0:
            return None
        flags = replace(flags, kv_cache_memory_bytes=size)
    elif not run.is_of_the_log:
        return None
    candidate = dry_run(run.request, flags, run.rules, run.request.gpus[0])
    if not candidate.may_serve:
        return None
    changed = FixAttempt(attempt.words, attempt.flags, run.rules)
    fix = fix_of(run.request.model, changed, candidate)
    if flags == attempt.flags:
        verdict = _with_logged(run, log, changed, candidate)
        return None if verdict is Verdict.REFUSED else replace(fix, verdict=verdict)
    fix = replace(fix, logged_cache_bytes=flags.kv_cache_memory_bytes)
    if run.doubt:
        return replace(fix, verdict=Verdict.UNCERTAIN)
    return _as_planned(run, attempt, fix) if run.gpu_specified else fix


def _as_planned(run: PlannedStart, attempt: FailureFixAttempt, fix: Fix) -> Fix | None:
    """Return a fix that was tried with the logged memory, no surer than a plan of its command is.

    The next start measures its memory anew, and what it has beside the cache is not in the log.
    """
    planned = dry_run(run.request, attempt.flags, run.rules, run.request.gpus[0])
    short = next(iter(planned.short_of_memory), None)
    if not planned.may_serve or (attempt.larger and short is not None):
        return None
    sure = fix.verdict is planned.verdict is Verdict.STARTS
    return replace(fix, verdict=Verdict.STARTS if sure else Verdict.UNCERTAIN, warning=short)


def _for_memory(run: PlannedStart, log: StartupLog) -> Iterator[FailureFixAttempt]:
    """Yield changes that need less memory or leave more of it, the least costly first."""
    if _out_of_memory(log):
        yield from _less_cache(run, log)
    else:
        yield from _shorter(run.request.serve, log)
        yield from _more_memory(run, log)
        yield from _fewer_requests(run.request.serve, log)
        yield from _smaller_dtypes(run)
    yield from _lighter(run, log)


def _less_cache(run: PlannedStart, log: StartupLog) -> Iterator[FailureFixAttempt]:
    """Yield changes that leave more memory beside the cache, if the start got as far as setting it up."""
    flags, budget = run.request.serve, run.free.memory
    if (
        run.start is None
        or budget is None
        or not run.gpu_specified
        or (log.milestone not in {"cache", "capture"} and not _warmed_up(log))
    ):
        return
    lower = round(run.start.engine_config.gpu_memory_utilization - LEFT_FREE, 4)
    if lower > 0 and flags.kv_cache_memory_bytes is None:
        yield FailureFixAttempt(
            f"--gpu-memory-utilization {lower}",
            replace(flags, gpu_memory_utilization=lower),
            more_bytes=-round(LEFT_FREE * budget.total.bytes),
        )
    few = min(FEW_REQUESTS, run.start.engine_config.max_num_seqs // 2)
    if few >= LEAST_REQUESTS:
        yield FailureFixAttempt(f"--max-num-seqs {few}", replace(flags, max_num_seqs=few), pinned=False)


def _warmed_up(log: StartupLog) -> bool:
    """Whether the start ended at the sampler's warm-up, which comes after the cache."""
    failure = log.failure
    return failure is not None and failure.cause is not None and failure.cause.name == WARMING_UP


def _smaller_dtypes(run: PlannedStart) -> Iterator[FailureFixAttempt]:
    flags = run.request.serve
    if flags.kv_cache_dtype not in {None, "auto", "bfloat16"}:
        return
    for dtype in SMALLER_DTYPES:
        if dtype in run.rules.dtypes.accepted:
            words = f"--kv-cache-dtype {dtype}"
            yield FailureFixAttempt(words, replace(flags, kv_cache_dtype=dtype), kind=FixKind.DTYPE)


def _lighter(run: PlannedStart, log: StartupLog) -> Iterator[FailureFixAttempt]:
    """Yield changes that need less memory beside the cache. It is estimated: the log does not contain it."""
    flags = run.request.serve
    loading = log.failed_after == "loading" and _out_of_memory(log)
    batched = None if run.start is None else run.start.engine_config.max_num_batched_tokens
    if batched is not None and batched > SMALL_BATCH and not loading:
        words = f"--max-num-batched-tokens {SMALL_BATCH}"
        yield FailureFixAttempt(words, replace(flags, max_num_batched_tokens=SMALL_BATCH), pinned=False)
    for factor in DOUBLINGS:
        ranks = factor * (flags.tensor_parallel_size or 1)
        words = f"--tensor-parallel-size {ranks}"
        changed = replace(flags, tensor_parallel_size=ranks)
        yield FailureFixAttempt(words, changed, pinned=False, kind=FixKind.RANKS)


def _out_of_memory(log: StartupLog) -> bool:
    failure = log.failure
    return failure is not None and failure.cause is not None and failure.cause.name in OUT_OF_MEMORY


def _shorter(flags: ServeFlags, log: StartupLog) -> Iterator[FailureFixAttempt]:
    estimated = log.number("est_max_model_len")
    if estimated is not None and estimated >= 1:
        length = int(estimated)
        yield FailureFixAttempt(f"--max-model-len {length}", replace(flags, max_model_len=length))
    yield FailureFixAttempt("--max-model-len -1 (the engine fits it)", replace(flags, max_model_len=-1))


def _more_memory(run: PlannedStart, log: StartupLog) -> Iterator[FailureFixAttempt]:
    """Yield a utilization that adds the missing memory, rounded up to hundredths, if it is not too high."""
    needed, available = log.number("kv_needed_gib"), available_gib(log)
    if (
        needed is None
        or available is None
        or not run.gpu_specified
        or run.free.memory is None
        or run.start is None
    ):
        return
    total, old = run.free.memory.total.bytes, run.start.engine_config.gpu_memory_utilization
    new = ceil(100 * (old + (needed - available) * GIB / total) + 0.5) / 100
    if new <= MOST_UTILIZATION:
        yield FailureFixAttempt(
            f"--gpu-memory-utilization {new:.2f}",
            replace(run.request.serve, gpu_memory_utilization=new),
            more_bytes=int((new - old) * total),
            larger=True,
        )


def _fewer_requests(flags: ServeFlags, log: StartupLog) -> Iterator[FailureFixAttempt]:
    blocks = log.number("mamba_blocks")
    if blocks is not None and blocks >= 1:
        yield FailureFixAttempt(f"--max-num-seqs {int(blocks)}", replace(flags, max_num_seqs=int(blocks)))
