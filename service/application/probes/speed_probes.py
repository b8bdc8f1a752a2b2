"""What a speed probe times, and what a plan says of it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from service.advisor.candidates.plan_types import Candidate
from service.advisor.dry_runs.workload_admission import admission_of
from service.advisor.ranking.speed_of_start import clock_of
from service.advisor.request.plan_request import Workload
from service.application.errors import InputFault, NotProbeable
from service.application.schemas.answers.speed import rounded
from service.gpus.gpu_type import GpuType
from service.probes.job_spec import Engine, TimingPoint

BATCHES: Final = (1, 8, 32, 128)
CONTEXTS: Final = (256, 2048, 8192)
PROMPTS: Final = (512, 2048, 8192)
"""Of decode steps requests and tokens, and tokens of prompts alone: fifteen points, a dozen on most GPUs."""
ANSWER: Final = 256
"""Tokens that a request gets at most until all requests of a point were timed."""
MILLI: Final = 1e3


def speed_points(candidate: Candidate) -> tuple[TimingPoint, ...]:
    """Return the points that the planned start has room for.

    Raises:
        InputFault: there is none.
    """
    points = (
        *(TimingPoint(batch=batch, context=context) for context in CONTEXTS for batch in BATCHES),
        *(TimingPoint(prefill=tokens) for tokens in PROMPTS),
    )
    found = tuple(point for point in points if _fits(candidate, point))
    if not found:
        raise InputFault("/plan", NotProbeable("the planned start has no room for a request to time"))
    return found


def with_points(engine: Engine, candidate: Candidate, points: tuple[TimingPoint, ...]) -> Engine:
    """Return an engine probe that times points too, with the blocks that the largest of them takes."""
    if candidate.kv_cache is None:
        raise ValueError("a candidate without a cache is not probed")
    blocks = max(engine.blocks, *(_blocks(candidate, point) + 2 for point in points))
    more = (blocks - engine.blocks) * candidate.kv_cache.largest_bytes_per_block
    return replace(engine, points=points, blocks=blocks, bytes=engine.bytes + more)


def planned_times(
    candidate: Candidate, gpu: GpuType, points: tuple[TimingPoint, ...]
) -> Iterator[dict[str, Any]]:
    """Yield the planned time of each point; nothing on a GPU type whose peaks are not known."""
    clock = clock_of(candidate, gpu)
    if clock is None:
        return
    _, factor = clock.constants.band(str(gpu.compute_capability))
    for point in points:
        step = (
            clock.step_time(point.batch, point.context) if point.batch else clock.prompt_time(point.prefill)
        )
        yield {
            "batch": point.batch,
            "context": point.context,
            "prefill": point.prefill,
            "milliseconds": rounded(step.seconds * MILLI),
            "low": rounded(max(step.floor, step.seconds / factor) * MILLI),
            "high": rounded(step.seconds * factor * MILLI),
        }


def _fits(candidate: Candidate, point: TimingPoint) -> bool:
    if candidate.start is None or candidate.kv_cache is None:
        return False
    config = candidate.start.engine_config
    short = _tokens(point) + ANSWER <= config.max_model_len
    return (
        short
        and max(1, point.batch) <= config.max_num_seqs
        and _blocks(candidate, point) < candidate.kv_cache.num_blocks
    )


def _blocks(candidate: Candidate, point: TimingPoint) -> int:
    """Return the blocks that all requests of a point hold together."""
    if candidate.start is None or candidate.kv_cache is None:
        raise ValueError("a candidate without a cache is not probed")
    requests = max(1, point.batch)
    admission = admission_of(candidate.start, candidate.kv_cache, Workload(_tokens(point), ANSWER, requests))
    return requests * max(admission.peak_decode_blocks, admission.peak_prefill_blocks, admission.blocks)


def _tokens(point: TimingPoint) -> int:
    return point.context or point.prefill
