"""Shares of a GPU with which all its engines start, and what each of them can then serve."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import floor
from typing import Final

from service.advisor.candidates.advice import LIMITS
from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.verdict import Verdict
from service.advisor.colocation import Colocation, PlanOne, SharedEngine, SharedStart, colocated, overfull
from service.advisor.ranking.service_level import completed_of
from service.units import gib_text

TOGETHER: Final = (0.92, 0.88, 0.84, 0.8)
"""Shares of a GPU that its engines may take together, tried from the most: each has a CUDA context beside."""
NONE_FOUND: Final = (
    "No shares were found with which all of these engines start: a shorter --max-model-len, a denser cache "
    "or smaller weights leave more."
)
LAST_BIT: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Sharer:
    """One engine of a GPU that others use too, with what it needs of it."""

    place: int
    """Among all engines, counted from 0."""
    alone: Candidate
    """Planned on a GPU of its own, with its own share if that starts."""
    fails: bool
    """It does not surely start, or run at full load, beside the others with the shares that are given."""

    @property
    def least_requests(self) -> float:
        """Requests of the maximum length that it should hold: as many as advice asks for, or has alone."""
        cache = self.alone.kv_cache
        return LIMITS.requests if cache is None else min(float(LIMITS.requests), cache.max_concurrency)

    @property
    def asked(self) -> float:
        """The share that it takes on a GPU of its own; 0 where that is not planned."""
        memory = self.alone.memory
        return 0.0 if memory is None else memory.requested.bytes / memory.total.bytes

    @property
    def beside_cache(self) -> float:
        """The share that it takes beside its cache; 0 where that is not planned."""
        memory = self.alone.memory
        if memory is None:
            return 0.0
        terms = (memory.weights, memory.activation, memory.non_torch, memory.cuda_graphs)
        return sum(term.bytes for term in terms) / memory.total.bytes

    @property
    def needed(self) -> float:
        """The share with which it holds the least that it should; 0 where that is not planned."""
        memory, cache = self.alone.memory, self.alone.kv_cache
        if memory is None or cache is None or not cache.max_concurrency:
            return self.beside_cache
        of_need = self.least_requests / cache.max_concurrency
        return self.beside_cache + of_need * memory.available_kv.bytes / memory.total.bytes


@dataclass(frozen=True, slots=True)
class SplitOfShares:
    """Shares with which all engines start, by their places, and what each of them then serves."""

    shares: dict[int, float]
    served: tuple[tuple[Sharer, SharedEngine], ...]

    @property
    def least(self) -> float:
        """How much of its need the engine gets that gets least of it; 1: all get what they need."""
        return min(_part_of_need(sharer, engine) for sharer, engine in self.served)

    def words(self) -> str:
        """Name the shares, what each engine can then serve, and which of them gets too little."""
        named = ", ".join(f"{share} for engine {place + 1}" for place, share in self.shares.items())
        held = [f"Engine {sharer.place + 1} then {_served(engine)}" for sharer, engine in self.served]
        short = [
            f"That is too little for engine {sharer.place + 1}: {_needs(sharer, engine)}"
            for sharer, engine in self.served
            if _part_of_need(sharer, engine) < 1
        ]
        return f"{named}: all engines start{{within}}. {'. '.join((*held, *short))}."


def with_joint_shares(starts: Sequence[SharedStart], found: Colocation, plan: PlanOne) -> Colocation:
    """Return engines with the shares with which all start and stay within the GPU; each offer was planned."""
    return replace(found, remedy=_remedy(starts, found, plan))


def _remedy(starts: Sequence[SharedStart], found: Colocation, plan: PlanOne) -> str:
    engines = found.engines
    full = {device for device, _, _ in overfull(engines)}
    failing = {
        place
        for place, each in enumerate(engines)
        if each.candidate.verdict is not Verdict.STARTS or not full.isdisjoint(each.devices)
    }
    sharing = sorted({place for each in failing for place in _meeting(engines[each], engines)})
    if not sharing:
        return ""
    if weights := _too_heavy([engines[place] for place in sharing]):
        return weights
    sharers = [Sharer(place, _alone(starts[place], plan), place in failing) for place in sharing]
    best = _best(starts, sharers, plan)
    if best is None:
        return NONE_FOUND
    within = ", and stay within the GPU at full load" if full else ""
    return f"Fix: --gpu-memory-utilization {best.words().format(within=within)}"


def _best(starts: Sequence[SharedStart], sharers: Sequence[Sharer], plan: PlanOne) -> SplitOfShares | None:
    """Return the first split that gives every engine what it needs, or else the one that is nearest to it."""
    best: SplitOfShares | None = None
    for shares in dict.fromkeys(_splits(sharers)):
        given = {sharer.place: share for sharer, share in zip(sharers, shares, strict=True)}
        tried = colocated([_with_share(start, given.get(place)) for place, start in enumerate(starts)], plan)
        if tried.verdict is not Verdict.STARTS or any(overfull(tried.engines)):
            continue
        split = SplitOfShares(given, tuple((sharer, tried.engines[sharer.place]) for sharer in sharers))
        if best is None or split.least > best.least:
            best = split
        if best.least >= 1:
            return best
    return best


def _alone(start: SharedStart, plan: PlanOne) -> Candidate:
    """Return an engine on a GPU of its own: as it is given, or with most of the GPU where that fails."""
    given = plan(start.request)
    return given if given.kv_cache is not None else plan(_with_share(start, TOGETHER[0]).request)


def _splits(sharers: Sequence[Sharer]) -> Iterator[tuple[float, ...]]:
    """Yield shares to try, for each whole that they may take together.

    Those that start keep what they have; then each gets what it needs, and alike of the rest; then shares as
    they are asked for; at last all alike.
    """
    count = len(sharers)
    for whole in TOGETHER:
        kept = sum(each.asked for each in sharers if not each.fails)
        rest = whole - kept
        lacking = [each.needed for each in sharers if each.fails]
        if kept and lacking and rest >= sum(lacking) > 0:
            more = (rest - sum(lacking)) / len(lacking)
            yield _rounded(each.needed + more if each.fails else each.asked for each in sharers)
        for needs in ([each.needed for each in sharers], [each.beside_cache for each in sharers]):
            if all(needs) and whole > sum(needs):
                yield _rounded(need + (whole - sum(needs)) / count for need in needs)
        if all(each.asked for each in sharers):
            yield _rounded(each.asked * whole / sum(every.asked for every in sharers) for each in sharers)
        yield _rounded(whole / count for _ in sharers)


def _rounded(shares: Iterable[float]) -> tuple[float, ...]:
    """Return shares rounded down to whole percents; a share that is one but for its last bit stays."""
    return tuple(floor(100 * share + LAST_BIT) / 100 for share in shares)


def _part_of_need(sharer: Sharer, engine: SharedEngine) -> float:
    """Return how much of what it needs an engine gets: 1 for all of it."""
    candidate, workload = engine.candidate, engine.request.workload
    if candidate.caches_nothing:
        return 1.0
    if workload is not None and candidate.admission is not None:
        return min(1.0, completed_of(candidate) / workload.concurrent_requests)
    cache = candidate.kv_cache
    return 0.0 if cache is None else min(1.0, cache.max_concurrency / sharer.least_requests)


def _served(engine: SharedEngine) -> str:
    candidate, workload = engine.candidate, engine.request.workload
    if candidate.caches_nothing or candidate.kv_cache is None:
        return "needs no cache"
    if workload is not None and candidate.admission is not None:
        return (
            f"finishes {min(completed_of(candidate), workload.concurrent_requests):,} of "
            f"{workload.concurrent_requests:,} requests without preemption"
        )
    cache = candidate.kv_cache
    return f"holds {cache.max_concurrency:.2f} requests of {cache.max_model_len:,} tokens"


def _needs(sharer: Sharer, engine: SharedEngine) -> str:
    workload = engine.request.workload
    if workload is not None and engine.candidate.admission is not None:
        return f"its workload is {workload.concurrent_requests:,} requests"
    least = f"{sharer.least_requests:.2f}".removesuffix(".00")
    return f"it should hold {least} (a shorter --max-model-len or a denser cache lets it)"


def _meeting(engine: SharedEngine, engines: Sequence[SharedEngine]) -> tuple[int, ...]:
    """Return the places of engines that take a GPU of one of them, itself too; none where it is alone."""
    places = tuple(
        place for place, each in enumerate(engines) if not {*each.devices}.isdisjoint(engine.devices)
    )
    return places if len(places) > 1 else ()


def _too_heavy(engines: Sequence[SharedEngine]) -> str:
    """Say that no shares help where the weights alone are more than a GPU has."""
    for device in dict.fromkeys(each for engine in engines for each in engine.devices):
        known = [engine.candidate.memory for engine in engines if device in engine.devices]
        memories = [memory for memory in known if memory is not None]
        weights = sum(memory.weights.low for memory in memories)
        if memories and weights > memories[0].total.high:
            return (
                f"No shares let these engines start together: their weights alone take {gib_text(weights)} "
                f"of the {gib_text(memories[0].total.bytes)} GiB of GPU {device}."
            )
    return ""


def _with_share(start: SharedStart, share: float | None) -> SharedStart:
    if share is None:
        return start
    serve = replace(start.request.serve, gpu_memory_utilization=share)
    return replace(start, request=replace(start.request, serve=serve))
