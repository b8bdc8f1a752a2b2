"""The logged start, planned: from its flags alone, and with the memory that the log tells."""

from dataclasses import dataclass, replace

from service.advisor.dry_run import dry_run
from service.advisor.engine_start import Start, dry_start
from service.advisor.plan_request import PlanRequest
from service.advisor.plan_types import Candidate
from service.engine_config.speculation import UnmodelledSpeculation
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import rules_for
from service.explanation.comparison import Interval, bytes_within
from service.kv_cache.formats import UnmodelledCacheDtype
from service.startup_log.log import StartupLog


@dataclass(frozen=True, slots=True)
class PlannedStart:
    """One start as it is planned."""

    request: PlanRequest
    gpu_specified: bool
    """The GPU is known; otherwise what depends on its memory is not compared."""
    rules: EngineRules
    free: Candidate
    """From the flags alone."""
    pinned: tuple[Candidate, Candidate, Candidate] | None
    """With the least, the middle and the most memory that the logged figure can stand for."""
    start: Start | None
    """What the flags became, where the start gets as far as asking for memory."""

    @property
    def judged(self) -> Candidate:
        """The candidate that answers for the start: with the logged memory where there is one."""
        return self.free if self.pinned is None else self.pinned[1]

    def interval(self, name: str) -> Interval | None:
        """Return what the logged memory allows a figure of the cache to be."""
        caches = [candidate.kv_cache for candidate in self.pinned or () if candidate.kv_cache is not None]
        if not caches or self.judged.kv_cache is None:
            return None
        value = float(getattr(self.judged.kv_cache, name))
        bounds = [float(getattr(cache, name)) for cache in caches]
        return Interval(min(bounds), value, max(bounds), exact=True)


def planned_start(request: PlanRequest, log: StartupLog, *, gpu_specified: bool) -> PlannedStart:
    """Plan a logged start."""
    rules = rules_for(request.engine.resolve(), request.engine.patches)
    flags, gpu = request.serve, request.gpus[0]
    free = dry_run(request, flags, rules, gpu)
    return PlannedStart(
        request=request,
        gpu_specified=gpu_specified,
        rules=rules,
        free=free,
        pinned=_pinned(request, rules, log),
        start=_start(request, flags, rules),
    )


def available_gib(log: StartupLog) -> float | None:
    """Return the memory for the cache that the log tells of, be it measured or given."""
    measured = log.number("available_kv_gib")
    return log.number("pinned_kv_gib") if measured is None else measured


def _pinned(
    request: PlanRequest, rules: EngineRules, log: StartupLog
) -> tuple[Candidate, Candidate, Candidate] | None:
    flags, gpu = request.serve, request.gpus[0]
    gib = available_gib(log)
    if gib is None or gib <= 0 or flags.pipeline_parallel_size > 1:
        # Of pipeline stages the log does not say whose memory it tells.
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
