"""Fixes of a failed start, each tested by a dry run before it is named."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from math import ceil
from typing import Final

from service.advisor.command import serve_command
from service.advisor.dry_run import dry_run
from service.advisor.fixes import FixAttempt, attempts, starts
from service.advisor.plan_types import Candidate
from service.engines.flags import ServeFlags
from service.explanation.explanation_types import Fix
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
FEW_REQUESTS: Final = 256
SMALLER_DTYPES: Final = ("fp8", "fp8_e4m3", "int8_per_token_head", "fp8_per_token_head")


@dataclass(frozen=True, slots=True)
class FailureFixAttempt:
    """A change to try."""

    words: str
    flags: ServeFlags
    pinned: bool = True
    """Whether the logged memory is valid for it too; otherwise it is estimated."""
    more_bytes: int = 0
    """Bytes that it adds to the logged memory."""


def memory_fixes(run: PlannedStart, log: StartupLog) -> tuple[Fix, ...]:
    """Return single changes with which the memory suffices, by dry runs with the logged memory."""
    fixes = (fix for attempt in _for_memory(run, log) if (fix := _tried(run, log, attempt)) is not None)
    return tuple(islice(fixes, MOST))


def other_fixes(run: PlannedStart, log: StartupLog) -> tuple[Fix, ...]:
    """Return single changes that get past a refusal before memory is known."""
    found: list[Fix] = []
    gpu = run.request.gpus[0]
    for attempt in attempts(run.request.serve, run.rules):
        pinned = replace(attempt, flags=_with_memory(attempt.flags, log))
        if starts(run.request, pinned, gpu):
            candidate = dry_run(run.request, pinned.flags, pinned.rules, gpu)
            found.append(_fix(run, attempt, candidate))
        if len(found) == MOST:
            break
    return tuple(found)


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
    elif not run.gpu_specified:
        return None
    candidate = dry_run(run.request, flags, run.rules, run.request.gpus[0])
    if not candidate.may_serve:
        return None
    return _fix(run, attempt, candidate)


def _fix(run: PlannedStart, attempt: FailureFixAttempt | FixAttempt, candidate: Candidate) -> Fix:
    cache, model = candidate.kv_cache, run.request.model
    rules = attempt.rules if isinstance(attempt, FixAttempt) else run.rules
    return Fix(
        words=attempt.words,
        verdict=candidate.verdict,
        tokens=None if cache is None else cache.tokens,
        max_concurrency=None if cache is None else cache.max_concurrency,
        command=serve_command(model.id, attempt.flags, rules, model.requested_revision),
    )


def _for_memory(run: PlannedStart, log: StartupLog) -> Iterator[FailureFixAttempt]:
    """Yield changes that need less memory or leave more of it, the least costly first."""
    if log.failure is not None and log.failure.cause is not None and log.failure.cause.name in OUT_OF_MEMORY:
        yield from _less_cache(run, log)
    else:
        yield from _shorter(run.request.serve, log)
        yield from _more_memory(run, log)
        yield from _fewer_requests(run.request.serve, log)
        yield from _smaller_dtypes(run)
    yield from _lighter(run)


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


def _lighter(run: PlannedStart) -> Iterator[FailureFixAttempt]:
    """Yield changes that need less memory beside the cache. It is estimated: the log does not contain it."""
    flags = run.request.serve
    if run.start is not None and run.start.engine_config.max_num_batched_tokens > SMALL_BATCH:
        words = f"--max-num-batched-tokens {SMALL_BATCH}"
        yield FailureFixAttempt(words, replace(flags, max_num_batched_tokens=SMALL_BATCH), pinned=False)
    ranks = 2 * (flags.tensor_parallel_size or 1)
    words = f"--tensor-parallel-size {ranks}"
    yield FailureFixAttempt(words, replace(flags, tensor_parallel_size=ranks), pinned=False)


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
