"""How far the advisor is from what one start logged, term by term.

A term counts only where it is the same under everything that the row leaves open (releases, GPU types).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from math import ceil, floor

from packaging.version import Version

from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.verdict import Verdict
from service.advisor.dry_runs.dry_run import dry_run
from service.advisor.dry_runs.plan_cache import CachedSteps
from service.advisor.request.plan_request import Model, PlanRequest
from service.engines.flags import ServeFlags
from service.engines.refusal import Stage
from service.engines.releases import rules_for
from service.gpus.gpu_type import GpuType
from service.units import GIB
from tests.accuracy.startups_naive import naive_available, naive_tokens, naive_weights
from tests.accuracy.startups_told import HALF_DIGIT, Startup, foreseeable

SAME = 0.001
"""Share by which answers may differ and still be one."""

SAME_WEIGHTS = 0.02
SAME_MEMORY = 0.03
SAME_GRAPHS_GIB = 0.3


class Term(StrEnum):
    """What is compared."""

    WEIGHTS = "weights"
    """"Model loading took", in percent of itself."""
    AVAILABLE = "available KV"
    """"Available KV cache memory", in percent of the requested memory."""
    GRAPHS = "CUDA graphs"
    """"Graph capturing finished ... took", in percent of a GiB."""
    GIVEN = "tokens, memory given"
    """"GPU KV cache size" from the logged available memory."""
    GIVEN_CONCURRENCY = "concurrency, memory given"
    GIVEN_REFUSAL = "verdict, memory given"
    TOKENS = "tokens"
    """The same from the flags alone."""
    CONCURRENCY = "concurrency"
    VERDICT = "verdict"


@dataclass(frozen=True, slots=True)
class Score:
    """One term of one start."""

    startup: Startup
    term: Term
    logged: float
    low: float
    predicted: float
    high: float
    percent: float
    """Error with its sign; of verdicts 0 or 100."""
    hit: bool
    """Logged and predicted agree within rounding and the prediction's own interval."""
    naive_percent: float | None
    """The error of the formula of bytes per token."""
    said: str = ""

    @property
    def gib(self) -> float:
        """Error in GiB, of terms that are memory."""
        return self.predicted - self.logged


@dataclass(frozen=True, slots=True)
class Omitted:
    """A term of a row that is not scored, and why."""

    id: str
    term: Term | None
    """``None`` for the whole row."""
    reason: str
    source: str


class NotComparable(Exception):
    """The term depends on what was not told."""


@dataclass(frozen=True, slots=True)
class Run:
    release: Version
    gpu: GpuType
    candidate: Candidate


def score(startup: Startup) -> Iterator[Score | Omitted]:
    """Compare one start."""
    logged = startup.logged
    steps: list[tuple[Term, object, Callable[[Startup], Score]]] = [
        (Term.WEIGHTS, logged.weights_gib, _weights),
        (Term.AVAILABLE, logged.available_gib, _available),
        (Term.GRAPHS, logged.graphs_gib, compare_graphs),
        (Term.GIVEN, logged.available_gib and logged.tokens, _given_tokens),
        (Term.GIVEN_CONCURRENCY, logged.available_gib and logged.concurrency, _given_concurrency),
        (Term.GIVEN_REFUSAL, logged.available_gib, _given_refusal),
        (Term.TOKENS, logged.tokens, _tokens),
        (Term.CONCURRENCY, logged.concurrency, _concurrency),
        (Term.VERDICT, True, _verdict),
    ]
    for term, specified, compare in steps:
        if not specified:
            continue
        try:
            yield compare(startup)
        except NotComparable as error:
            yield Omitted(startup.id, term, str(error), startup.source)


@lru_cache(maxsize=16)
def runs_of(startup: Startup, flags: ServeFlags) -> Sequence[Run]:
    """Plan a start under every release and GPU type that it may have had; the terms of one start share it."""
    runs = []
    for release in startup.releases:
        for gpu in startup.gpus:
            try:
                runs.append(Run(release, gpu, _planned(startup, flags, release, gpu)))
            except LookupError as error:
                raise NotComparable("the release's rules are not dated") from error
    return runs


def _planned(startup: Startup, flags: ServeFlags, release: Version, gpu: GpuType) -> Candidate:
    steps = _steps(startup.known.model, release)
    return dry_run(_request(startup, gpu, flags), flags, steps.rules, gpu, steps)


@lru_cache(maxsize=32)
def _steps(model: Model, release: Version) -> CachedSteps:
    """Return the steps of a model's plans: one start asks for many, of other sizes and GPU types."""
    return CachedSteps(model, rules_for(release))


def _request(startup: Startup, gpu: GpuType, flags: ServeFlags) -> PlanRequest:
    return PlanRequest(
        startup.known.model,
        (gpu,),
        serve=flags,
        free_memory_bytes=startup.free_bytes,
        compiled_before=startup.compiled_before,
    )


def _one(values: list[tuple[float, float, float]], scale: float | None = None) -> tuple[float, float, float]:
    """Return the answer that all have in common."""
    if not values:
        raise NotComparable("refused before memory is known")
    middles = [middle for _, middle, _ in values]
    if max(middles) - min(middles) > SAME * (scale or max(map(abs, middles)) or 1):
        raise NotComparable("depends on what was not told")
    return min(low for low, _, _ in values), middles[0], max(high for _, _, high in values)


def _weights(startup: Startup) -> Score:
    budgets = [b for run in runs_of(startup, startup.flags) if (b := run.candidate.memory)]
    logged = startup.logged.weights_gib or 0.0
    values = [(b.weights.low / GIB, b.weights.bytes / GIB, b.weights.high / GIB) for b in budgets]
    # Releases keep a little more or less beside the weights: what is left open counts at its worst.
    values.sort(key=lambda value: -abs(value[1] - logged))
    naive = naive_weights(startup)
    value = _one(values, SAME_WEIGHTS / SAME * logged)
    return _score(startup, Term.WEIGHTS, logged, value, whole=logged, naive=naive and naive / GIB)


def _needs_budget(startup: Startup) -> None:
    if not startup.release_told:
        raise NotComparable("release not told")
    if not startup.gpu_specified:
        raise NotComparable("GPU not told, or not in the catalog")
    if not startup.utilization_told:
        raise NotComparable("utilization not told")
    if startup.flags.kv_cache_memory_bytes is not None:
        raise NotComparable("cache memory was pinned")


def _needs_stage(startup: Startup) -> None:
    if startup.flags.pipeline_parallel_size > 1:
        raise NotComparable("the log does not say of which pipeline stage the memory is")


def _available(startup: Startup) -> Score:
    _needs_budget(startup)
    _needs_stage(startup)
    budgets = [b for run in runs_of(startup, startup.flags) if (b := run.candidate.memory)]
    if not budgets:
        raise NotComparable("refused before memory is known")
    requested = budgets[0].requested.bytes / GIB
    values = [
        (b.available_kv.low / GIB, b.available_kv.bytes / GIB, b.available_kv.high / GIB) for b in budgets
    ]
    logged = startup.logged.available_gib or 0.0
    values.sort(key=lambda value: -abs(value[1] - logged))
    naive = naive_available(startup, budgets[0].requested.bytes)
    return _score(
        startup,
        Term.AVAILABLE,
        logged,
        _one(values, SAME_MEMORY / SAME * requested),
        whole=requested,
        naive=naive and naive / GIB,
    )


def compare_graphs(startup: Startup) -> Score:
    """Compare what capturing took; a log states less than nothing where other processes freed memory.

    Raises:
        NotComparable: the term depends on what was not told.
    """
    logged = startup.logged.graphs_gib or 0.0
    if logged < 0:
        raise NotComparable("the free memory grew while graphs were captured")
    _needs_stage(startup)
    budgets = [b for run in runs_of(startup, startup.flags) if (b := run.candidate.memory)]
    graphs = [b.captured_graphs for b in budgets]
    values = [(each.low / GIB, each.bytes / GIB, each.high / GIB) for each in graphs]
    values.sort(key=lambda value: -abs(value[1] - logged))
    value = _one(values, SAME_GRAPHS_GIB / SAME)
    return _score(startup, Term.GRAPHS, logged, value, whole=1.0, naive=None)


def _pinned(startup: Startup) -> list[tuple[Run, Run, Run]]:
    """Plan with the logged memory: the least, the middle and the most that it can stand for."""
    _needs_stage(startup)
    gib = startup.logged.available_gib or 0.0
    specified = startup.flags.kv_cache_memory_bytes
    half = startup.half_digit_gib
    sizes = (ceil((gib - half) * GIB), round(gib * GIB), floor((gib + half) * GIB))
    if specified is not None:
        sizes = (specified, specified, specified)
    least, middle, most = (
        runs_of(startup, replace(startup.flags, kv_cache_memory_bytes=max(1, size))) for size in sizes
    )
    return list(zip(least, middle, most, strict=True))


def _given(startup: Startup, read: Callable[[Candidate], float | None]) -> tuple[float, float, float]:
    values = []
    for runs in _pinned(startup):
        low, middle, high = (read(run.candidate) for run in runs)
        if not startup.release_told and runs[1].candidate.memory is None:
            continue  # what ran got so far: another release
        if middle is None or high is None:
            raise NotComparable("refused with the logged memory")
        values.append((middle if low is None else low, middle, high))
    return _one(values)


def _given_tokens(startup: Startup) -> Score:
    value = _given(startup, lambda c: c.kv_cache.tokens if c.kv_cache else None)
    logged = float(startup.logged.tokens or 0)
    naive = naive_tokens(startup, (startup.logged.available_gib or 0.0) * GIB)
    return _score(startup, Term.GIVEN, logged, value, whole=logged, naive=naive, slack=0.5)


def _given_concurrency(startup: Startup) -> Score:
    value = _given(startup, lambda c: c.kv_cache.max_concurrency if c.kv_cache else None)
    logged = startup.logged.concurrency or 0.0
    return _score(startup, Term.GIVEN_CONCURRENCY, logged, value, whole=logged, naive=None, slack=HALF_DIGIT)


def _given_refusal(startup: Startup) -> Score:
    failure = startup.logged.failure
    if failure is not None and failure != "kv_needed_gt_available":
        raise NotComparable("failed for another reason than too little cache")
    if not startup.length_told:
        raise NotComparable("length not told")
    verdicts = {run.candidate.verdict for runs in _pinned(startup) for run in runs}
    return _judged(startup, Term.GIVEN_REFUSAL, verdicts)


def _free(startup: Startup, read: Callable[[Candidate], float | None]) -> tuple[float, float, float]:
    _needs_budget(startup)
    values = []
    for run in runs_of(startup, startup.flags):
        middle, budget = read(run.candidate), run.candidate.memory
        if middle is None or budget is None:
            raise NotComparable("refused from the flags alone")
        ends = (budget.available_kv.low, budget.available_kv.high)
        low, high = (read(_pinned_run(startup, run, size)) for size in ends)
        values.append((low or 0.0, middle, middle if high is None else high))
    return _one(values)


@lru_cache(maxsize=16)
def _pinned_run(startup: Startup, run: Run, size: int) -> Candidate:
    flags = replace(startup.flags, kv_cache_memory_bytes=max(1, size))
    return _planned(startup, flags, run.release, run.gpu)


def _tokens(startup: Startup) -> Score:
    value = _free(startup, lambda c: c.kv_cache.tokens if c.kv_cache else None)
    logged = float(startup.logged.tokens or 0)
    budget = next(run.candidate.memory for run in runs_of(startup, startup.flags))
    available = naive_available(startup, budget.requested.bytes) if budget else None
    naive = naive_tokens(startup, available) if available is not None else None
    return _score(startup, Term.TOKENS, logged, value, whole=logged, naive=naive)


def _concurrency(startup: Startup) -> Score:
    value = _free(startup, lambda c: c.kv_cache.max_concurrency if c.kv_cache else None)
    logged = startup.logged.concurrency or 0.0
    return _score(startup, Term.CONCURRENCY, logged, value, whole=logged, naive=None)


def _verdict(startup: Startup) -> Score:
    failure = startup.logged.failure
    if failure is not None and not foreseeable(failure):
        raise NotComparable(f"failed for a reason that no plan can foresee: {failure}")
    runs = runs_of(startup, startup.flags)
    if not startup.gpu_specified and not _before_memory(runs):
        raise NotComparable("GPU not told, or not in the catalog")
    if not startup.utilization_told and not _before_memory(runs):
        raise NotComparable("utilization not told")
    if not startup.length_told and not _before_memory(runs):
        raise NotComparable("length not told")
    if (
        startup.logged.failure is None
        and startup.flags.max_num_seqs is None
        and any(map(_for_requests, runs))
    ):
        raise NotComparable("max_num_seqs not told, and refused with the default")
    return _judged(startup, Term.VERDICT, {run.candidate.verdict for run in runs})


def _for_requests(run: Run) -> bool:
    """Whether a run is refused because as many requests as the default would run at once."""
    error = run.candidate.error
    return error is not None and error.stage is Stage.RUN and error.message.startswith("max_num_seqs")


def _before_memory(runs: Sequence[Run]) -> bool:
    return all(run.candidate.memory is None and run.candidate.error is not None for run in runs)


def _judged(startup: Startup, term: Term, verdicts: set[Verdict]) -> Score:
    if startup.logged.failure is None:
        right = {verdict is not Verdict.REFUSED for verdict in verdicts}
    else:
        right = {verdict is not Verdict.STARTS for verdict in verdicts}
    if len(right) > 1:
        raise NotComparable("depends on what was not told")
    hit = right == {True}
    logged = float(startup.logged.failure is None)
    said = "/".join(sorted(verdicts))
    return Score(
        startup, term, logged, 0, float(Verdict.STARTS in verdicts), 1, 0 if hit else 100, hit, None, said
    )


def _score(
    startup: Startup,
    term: Term,
    logged: float,
    value: tuple[float, float, float],
    *,
    whole: float,
    naive: float | None,
    slack: float = HALF_DIGIT,
) -> Score:
    low, middle, high = value
    return Score(
        startup=startup,
        term=term,
        logged=logged,
        low=low,
        predicted=middle,
        high=high,
        percent=100 * (middle - logged) / whole,
        hit=low - slack <= logged <= high + slack,
        naive_percent=None if naive is None else 100 * (naive - logged) / whole,
    )
