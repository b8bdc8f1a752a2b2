"""Dry runs of the logged start: from its flags alone, and with the logged memory."""

from dataclasses import dataclass, replace

from service.advisor.candidates.engine_start import Start
from service.advisor.candidates.plan_types import Candidate
from service.advisor.dry_runs.dry_run import dry_run, dry_start
from service.advisor.request.plan_request import PlanRequest
from service.engine_config.speculation import UnmodelledSpeculation
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.explanation.comparison import Interval, bytes_within
from service.kv_cache.formats import UnmodelledCacheDtype
from service.startup_log.log import StartupLog


@dataclass(frozen=True, slots=True)
class PlannedStart:
    """The logged start with its dry runs."""

    request: PlanRequest
    gpu_specified: bool
    """Whether the GPU type is known; if not, figures that depend on its memory are not compared."""
    rules: EngineRules
    free: Candidate
    """From the flags alone."""
    pinned: tuple[Candidate, Candidate, Candidate] | None
    """With the least, the middle and the most memory that the logged figure can mean."""
    start: Start | None
    """The start up to its cache layout, if it gets that far."""
    doubt: str = ""
    """Why the plan is of another release or model than the log; empty where it is of the same."""

    @property
    def is_of_the_log(self) -> bool:
        """Whether model, release and GPU are those of the log, so that its memory can be estimated."""
        return self.gpu_specified and not self.doubt

    @property
    def judged(self) -> Candidate:
        """The candidate to compare: with the logged memory, if there is any."""
        return self.free if self.pinned is None else self.pinned[1]

    def interval(self, name: str) -> Interval | None:
        """Return the values that the logged memory allows for a figure of the cache."""
        caches = [candidate.kv_cache for candidate in self.pinned or () if candidate.kv_cache is not None]
        if not caches or self.judged.kv_cache is None:
            return None
        value = float(getattr(self.judged.kv_cache, name))
        bounds = [float(getattr(cache, name)) for cache in caches]
        return Interval(min(bounds), value, max(bounds), exact=True)


def planned_start(
    request: PlanRequest, log: StartupLog, *, gpu_specified: bool, doubt: str = ""
) -> PlannedStart:
    """Return the dry runs of a logged start."""
    rules = request.engine.rules
    flags, gpu = request.serve, request.gpus[0]
    free = dry_run(request, flags, rules, gpu)
    return PlannedStart(
        request=request,
        gpu_specified=gpu_specified,
        rules=rules,
        free=free,
        pinned=_pinned(request, rules, log),
        start=_start(request, flags, rules),
        doubt=doubt,
    )


def available_gib(log: StartupLog) -> float | None:
    """Return the logged memory for the cache in GiB, measured or given; ``None`` without any."""
    measured = log.number("available_kv_gib")
    return log.number("pinned_kv_gib") if measured is None else measured


def _pinned(
    request: PlanRequest, rules: EngineRules, log: StartupLog
) -> tuple[Candidate, Candidate, Candidate] | None:
    flags, gpu = request.serve, request.gpus[0]
    gib = available_gib(log)
    if gib is None or gib <= 0 or flags.pipeline_parallel_size > 1:
        # The log does not say which pipeline stage its memory belongs to.
        return None
    specified = flags.kv_cache_memory_bytes
    exact = specified is not None and log.number("pinned_kv_gib") is None
    sizes = (specified, specified, specified) if exact else bytes_within(gib)
    least, middle, most = (
        dry_run(request, replace(flags, kv_cache_memory_bytes=max(1, size or 1)), rules, gpu)
        for size in sizes
    )
    return least, middle, most


def _start(request: PlanRequest, flags: ServeFlags, rules: EngineRules) -> Start | None:
    try:
        return dry_start(request.model.architecture, flags, rules, request.gpus[0])
    except (EngineRefusal, UnmodelledCacheDtype, UnmodelledSpeculation):
        return None
