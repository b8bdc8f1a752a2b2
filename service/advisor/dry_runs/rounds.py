"""A round: starts of several cache dtypes and parallel sizes, planned together on one GPU type.

Candidates that differ in their length alone mostly differ in their requests alone. So what was planned with
one length gives the candidates of any other, at a fraction of the time of a dry run of each.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from service.advisor.candidates.engine_start import Start
from service.advisor.candidates.plan_types import Candidate
from service.advisor.dry_runs.aliases import places_offered
from service.advisor.dry_runs.engine_steps import BareRun, FailedStart
from service.advisor.dry_runs.grid import GridOfLength
from service.advisor.dry_runs.outcome import is_sure_to_fit, refused_for_memory
from service.changed import changed
from service.engine_config.request_limits import RequestLimits
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.kv_cache.capacity import CacheSizing

Limits: TypeAlias = Callable[[int | None], RequestLimits]
"""Returns the limits of a start by the length of its flags."""


@dataclass(frozen=True, slots=True, eq=False)
class StartOfAnyLength:
    """What starts have in common whose flags differ in the length alone. An instance can be a key."""

    limits: Limits | None
    """Returns their limits by the length of the flags; ``None`` where more than limits depends on it."""
    takes_alike: bool
    """Whether the memory that they take does not depend on the length."""


@dataclass(frozen=True, slots=True)
class RunOfOneLength:
    """A run with one length, and how the runs with others follow from it."""

    run: BareRun
    limits: Limits | None
    """``None`` where more than limits depends on the length."""
    decides: tuple[bool, int, int] | None = None
    """The limits beside the length; with others the start is another one."""
    reads_requests: bool = False
    """Whether requests decide about it: it fits them for sure. Otherwise it ends before it sees any."""

    @classmethod
    def of(cls, run: BareRun, alike: StartOfAnyLength) -> "RunOfOneLength":
        """Return what is known of other lengths."""
        started, memory = run.started, run.candidate.memory
        if alike.limits is None:
            return cls(run, None)
        decides = alike.limits(run.candidate.flags.max_model_len).but_length
        if isinstance(started, FailedStart) or memory is None:
            return cls(run, alike.limits, decides)
        sure = is_sure_to_fit(started, memory)
        if alike.takes_alike and (sure or refused_for_memory(started, memory)):
            return cls(run, alike.limits, decides, reads_requests=sure)
        return cls(run, None)

    def follows(self, allowed: "Allowed") -> RequestLimits | None:
        """Return the limits with another length; ``None`` where its run does not follow from this one."""
        limits = None if self.limits is None else allowed[self.limits]
        if limits is None or limits.but_length != self.decides:
            return None
        if not self.reads_requests or isinstance(self.run.started, FailedStart):
            return limits
        memory, sizing = self.run.candidate.memory, self.run.started.sizing
        fits = memory is not None and sizing.holds(memory.available_kv.low, limits.max_model_len)
        return limits if fits else None

    def of_length(self, flags: ServeFlags, allowed: "Allowed") -> BareRun | None:
        """Return the run of flags with another length; ``None`` where it does not follow from this one."""
        candidate, started = self.run.candidate, self.run.started
        limits = self.follows(allowed)
        if limits is None:
            return None
        if isinstance(started, FailedStart):
            return BareRun(changed(candidate, flags=flags), started)
        start = started.start.with_length(limits.max_model_len)
        if not self.reads_requests:
            return BareRun(changed(candidate, flags=flags, start=start), started)
        return BareRun(of_length(candidate, flags, start, started.sizing), started)

    def with_length(self, flags: ServeFlags, allowed: "Allowed") -> "RunOfOneLength | None":
        """Return the same as what is known of other lengths."""
        run = self.of_length(flags, allowed)
        return None if run is None else replace(self, run=run)


class Planning(Protocol):
    """Plans starts on one GPU type."""

    def run(self, flags: ServeFlags) -> BareRun:
        """Return the run of flags."""

    def known_by(self, run: BareRun) -> RunOfOneLength:
        """Return what is known of other lengths by a run."""


@dataclass(frozen=True, slots=True)
class Planned:
    """The starts of a grid, planned with one length."""

    starts: tuple[RunOfOneLength, ...]
    places: tuple[int, ...]
    """Of those that are listed."""
    others: tuple[RunOfOneLength, ...]
    """Those that are not listed."""
    following: int
    """How many of all starts tell those of other lengths."""

    @classmethod
    def of(cls, starts: Iterable[RunOfOneLength], places: Sequence[int]) -> "Planned":
        """Return starts, of which those at some places are listed."""
        starts = tuple(starts)
        others = tuple(each for place, each in enumerate(starts) if place not in places)
        return cls(starts, tuple(places), others, sum(each.limits is not None for each in starts))

    def of_length(self, asked: GridOfLength, allowed: "Allowed") -> list[BareRun] | None:
        """Return the listed runs with another length; ``None`` where one does not follow from these.

        Starts that store the same cache do so with all lengths of which a request is sure to fit.
        """
        if self.following < len(self.starts) or not all(each.follows(allowed) for each in self.others):
            return None
        found = [self.starts[place].of_length(asked.flags[place], allowed) for place in self.places]
        following = [run for run in found if run is not None]
        return following if len(following) == len(found) else None


class Round:
    """The runs of a grid on one GPU type, first planned with one length."""

    def __init__(self, asked: GridOfLength, planning: Planning) -> None:
        self._length = asked.max_model_len
        self._runs = tuple(map(planning.run, asked.flags))
        self._places = tuple(_listed(asked, self._runs))
        self._known: Planned | None = None

    def of_length(self, asked: GridOfLength, planning: Planning) -> list[BareRun]:
        """Return the listed runs with some length; ``planning`` plans what follows from no other length."""
        if asked.max_model_len == self._length:
            return [self._runs[place] for place in self._places]
        known = self._known or Planned.of(map(planning.known_by, self._runs), self._places)
        allowed = Allowed(asked.max_model_len)
        found = known.of_length(asked, allowed)
        if found is None:
            pairs = zip(known.starts, asked.flags, strict=True)
            starts = [
                each.with_length(flags, allowed) or planning.known_by(planning.run(flags))
                for each, flags in pairs
            ]
            places = _listed(asked, [each.run for each in starts])
            found = [starts[place].run for place in places]
            later = Planned.of(starts, places)
            known = later if later.following > known.following else known
        self._known = known
        return found


def _listed(asked: GridOfLength, runs: Sequence[BareRun]) -> Sequence[int]:
    return places_offered(asked, [run.candidate for run in runs])


class Allowed(dict[Limits, RequestLimits | None]):
    """The limits of starts with one length; ``None`` where the engine refuses it."""

    def __init__(self, max_model_len: int | None) -> None:
        super().__init__()
        self._length = max_model_len

    def __missing__(self, limits: Limits) -> RequestLimits | None:
        self[limits] = None
        with suppress(EngineRefusal):
            self[limits] = limits(self._length)
        return self[limits]


def of_length(candidate: Candidate, flags: ServeFlags, start: Start, sizing: CacheSizing) -> Candidate:
    """Return the candidate of a start with another length; a request of either is sure to fit."""
    cache = candidate.kv_cache
    if cache is not None:
        cache = sizing.of_other_length(cache, start.engine_config.max_model_len)
    return changed(candidate, flags=flags, start=start, kv_cache=cache)
