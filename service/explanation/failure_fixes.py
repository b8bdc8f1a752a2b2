"""Fixes of a failed start, each tested by a dry run before it is named."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from math import ceil
from typing import Final

from service.advisor.dry_run import dry_run
from service.advisor.fix_attempt import FixAttempt
from service.advisor.fix_attempts import plain_refusal_sources
from service.advisor.fixes import fix_of, newer_release, starts, working
from service.advisor.plan_types import Candidate
from service.advisor.refusal import Fix
from service.engines.flags import ServeFlags
from service.explanation.offers import share_left
from service.explanation.planned_start import PlannedStart, available_gib
from service.startup_log.log import StartupLog
from service.units import GIB

MOST: Final = 6
"""Fixes named at most."""
MOST_UTILIZATION: Final = 0.97
"""A higher value leaves too little memory for the driver."""
LEFT_FREE: Final = 0.05
"""Share of the device's memory to leave free beside the cache, after the engine ran out of memory there."""
OUT_OF_MEMORY: Final = frozenset({"out_of_memory", "out_of_memory_warming_up", "graph_capture_failed"})
"""Causes of a start that had memory for a cache, but too little memory beside it."""
SMALL_BATCH: Final = 2048
DOUBLINGS: Final = (2, 4, 8)
"""Factors of --tensor-parallel-size to try, up to one host's GPUs."""
FEW_REQUESTS: Final = 256
SMALLER_DTYPES: Final = ("fp8", "int8_per_token_head", "fp8_per_token_head")


@dataclass(frozen=True, slots=True)
class FailureFixAttempt:
    """A change to try."""

    words: str
    flags: ServeFlags
    pinned: bool = True
    """Whether the logged memory is valid for it too; otherwise it is estimated."""
    more_bytes: int = 0
    """Bytes that it adds to the logged memory."""
    sharding: bool = False
    """It shards the weights over more ranks."""


def memory_fixes(run: PlannedStart, log: StartupLog) -> tuple[Fix, ...]:
    """Return single changes with which the memory suffices, by dry runs with the logged memory."""
    fixes: list[Fix] = []
    sharded = False
    for attempt in _for_memory(run, log):
        # More ranks than the fewest that suffice are no fix of their own.
        fix = None if sharded and attempt.sharding else _tried(run, log, attempt)
        if fix is not None:
            fixes.append(fix)
            sharded = sharded or attempt.sharding
        if len(fixes) == MOST:
            break
    return tuple(fixes)


def beside_others(run: PlannedStart, log: StartupLog) -> tuple[Fix, ...]:
    """Return the largest utilization beside the memory that others use, if the model starts with it."""
    share, flags = share_left(log), run.request.serve
    if share is None or not run.gpu_specified:
        return ()
    words = f"--gpu-memory-utilization {share:.2f}"
    fix = _tried(
        run, log, FailureFixAttempt(words, replace(flags, gpu_memory_utilization=share), pinned=False)
    )
    return () if fix is None else (fix,)


def other_fixes(run: PlannedStart, log: StartupLog) -> tuple[Fix, ...]:
    """Return single changes that get past a refusal before memory is known."""
    request, gpu = run.request, run.request.gpus[0]

    def tried(attempt: FixAttempt) -> Candidate | None:
        pinned = replace(attempt, flags=_with_memory(attempt.flags, log))
        if not starts(request, pinned, gpu):
            return None
        return dry_run(request, pinned.flags, pinned.rules, gpu)

    sources = plain_refusal_sources(request.model, request.serve, run.rules, gpu)
    found = islice(working(request.model, sources, tried), MOST - 1)
    return (*found, *newer_release(request.model, request.serve, run.rules, tried))


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
    elif not run.gpu_specified or run.doubt:
        return None
    candidate = dry_run(run.request, flags, run.rules, run.request.gpus[0])
    if not candidate.may_serve:
        return None
    changed = FixAttempt(attempt.words, attempt.flags, run.rules)
    return fix_of(run.request.model, changed, candidate)


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
        or log.milestone not in {"cache", "capture"}
    ):
        return
    lower = round(run.start.engine_config.gpu_memory_utilization - LEFT_FREE, 4)
    if lower > 0 and flags.kv_cache_memory_bytes is None:
        yield FailureFixAttempt(
            f"--gpu-memory-utilization {lower}",
            replace(flags, gpu_memory_utilization=lower),
            more_bytes=-round(LEFT_FREE * budget.total.bytes),
        )
    if run.start.engine_config.max_num_seqs > FEW_REQUESTS:
        words = f"--max-num-seqs {FEW_REQUESTS}"
        yield FailureFixAttempt(words, replace(flags, max_num_seqs=FEW_REQUESTS), pinned=False)


def _smaller_dtypes(run: PlannedStart) -> Iterator[FailureFixAttempt]:
    flags = run.request.serve
    if flags.kv_cache_dtype not in {None, "auto", "bfloat16"}:
        return
    for dtype in SMALLER_DTYPES:
        if dtype in run.rules.dtypes.accepted:
            yield FailureFixAttempt(f"--kv-cache-dtype {dtype}", replace(flags, kv_cache_dtype=dtype))


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
        yield FailureFixAttempt(words, changed, pinned=False, sharding=True)


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
        )


def _fewer_requests(flags: ServeFlags, log: StartupLog) -> Iterator[FailureFixAttempt]:
    blocks = log.number("mamba_blocks")
    if blocks is not None and blocks >= 1:
        yield FailureFixAttempt(f"--max-num-seqs {int(blocks)}", replace(flags, max_num_seqs=int(blocks)))
