"""Compares the measured speed of a running engine with the plan of its start."""

from collections.abc import Iterator
from dataclasses import replace

from service.advisor.dry_runs.dry_run import dry_run
from service.advisor.ranking.speed_of_start import speed_of
from service.advisor.request.plan_request import Workload
from service.explanation.comparison import Interval, compare, not_compared
from service.explanation.explanation_types import Finding
from service.explanation.planned_start import PlannedStart
from service.speed.serving_speed import Between
from service.startup_log.environment.measured_service import MeasuredService, ServedCache
from service.startup_log.log import LogReading, StartupLog

WITHOUT_GPU = "the GPU type is not known: give `gpu`"
WITHOUT_CACHE = "the planned start gets no cache"
UNKNOWN = (
    "the speed of this start is not known: it gets no cache or has draft tokens, or the GPU type has no peaks"
)
TPOT_WORDS = "bytes and operations of a step with {running} requests at once; the floor is {floor:.3g} ms"
TOKENS_WORDS = "requests at once by the time of a token, less the time of their prompts"
FIRST_WORDS = "the prompt alone, and up to what nine of ten measurements stay below"
BLOCKS_WORDS = "the planned memory by the bytes of a block"
HALF_BLOCK = 0.5


def speed_findings(log: StartupLog, run: PlannedStart) -> Iterator[Finding]:
    """Yield measured figures beside planned ones, for each benchmark and for the metrics of an engine."""
    for measured in log.measured:
        yield from _of_service(measured, run)
    if log.served_cache is not None:
        yield from _of_cache(log.served_cache, run)


def _of_service(measured: MeasuredService, run: PlannedStart) -> Iterator[Finding]:
    reading = LogReading("tpot_ms", measured.tpot_ms, measured.line)
    if not run.gpu_specified:
        yield not_compared(reading, WITHOUT_GPU)
        return
    workload = Workload(
        max(1, round(measured.prompt_tokens)),
        max(1, round(measured.output_tokens)),
        max(1, round(measured.concurrency)),
    )
    request = replace(run.request, workload=workload)
    candidate = dry_run(request, request.serve, run.rules, request.gpus[0])
    speed = speed_of(candidate, request.gpus[0], workload)
    if speed is None:
        yield not_compared(reading, UNKNOWN)
        return
    words = TPOT_WORDS.format(running=speed.running_requests, floor=speed.floor_tpot_ms)
    yield compare(reading, _interval(speed.tpot_ms), words)
    if measured.output_tokens_per_second is not None:
        tokens = LogReading("output_tokens_per_second", measured.output_tokens_per_second, measured.line)
        yield compare(tokens, _interval(speed.output_tokens_per_second), TOKENS_WORDS)
    if measured.ttft_ms is not None:
        first = LogReading("ttft_ms", measured.ttft_ms, measured.line)
        yield compare(first, _interval(speed.ttft_ms), FIRST_WORDS)


def _of_cache(cache: ServedCache, run: PlannedStart) -> Iterator[Finding]:
    reading = LogReading("num_gpu_blocks", float(cache.num_gpu_blocks), cache.line)
    planned, memory = run.free.kv_cache, run.free.memory
    if not run.gpu_specified or planned is None or memory is None:
        yield not_compared(reading, WITHOUT_CACHE if run.gpu_specified else WITHOUT_GPU)
        return
    size, available = planned.largest_bytes_per_block, memory.available_kv
    blocks = Interval(available.low // size, planned.num_blocks, available.high // size, exact=False)
    yield compare(reading, blocks, BLOCKS_WORDS, HALF_BLOCK)


def _interval(figure: Between) -> Interval:
    return Interval(figure.low, figure.middle, figure.high, exact=False)
