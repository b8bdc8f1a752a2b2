"""What changes between two releases for the same start, and which rules cause it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Final

from packaging.version import Version

from service.advisor.candidates.plan_types import (
    Candidate,
    ComparedStart,
    GpuPlan,
    Upgrade,
    UpgradeCause,
    UpgradeOutcome,
)
from service.advisor.dry_runs.dry_run import dry_run
from service.advisor.dry_runs.plan_cache import CachedSteps
from service.advisor.ranking.nearest_refused import nearest_refused
from service.advisor.request.plan_request import PlanRequest
from service.advisor.upgrade_intervals import moved_terms
from service.engines.releases import RULES, DatedRule
from service.gpus.gpu_type import GpuType

UNCOMPARED: Final = frozenset({"version", "error", "doubt", "memory"})
"""Fields that differ without any change of behaviour; errors are compared by type, memory by what is left."""


@dataclass(frozen=True, slots=True)
class AskedStart:
    """One start on one GPU type, of which it is asked what releases change."""

    request: PlanRequest
    start: ComparedStart
    gpu: GpuType

    def tried(self, steps: CachedSteps) -> UpgradeOutcome:
        """Return what the engine does under the rules of these steps."""
        candidate = self.start.candidate
        flags = replace(
            candidate.flags,
            kv_cache_dtype=candidate.kv_cache_dtype,
            tensor_parallel_size=candidate.tensor_parallel_size,
        )
        return _outcome(dry_run(self.request, flags, steps.rules, self.gpu, steps))


@dataclass(frozen=True, slots=True)
class _Change:
    """A start on two releases."""

    asked: AskedStart
    before: UpgradeOutcome
    after: UpgradeOutcome
    changed: tuple[str, ...]
    """Names of the outcome's fields that differ."""


def compared_start(newest: GpuPlan) -> ComparedStart:
    """Return the start that the newest of the compared releases recommends, or the nearest to a start."""
    best = newest.recommended
    near = best or nearest_refused(newest.candidates) or newest.candidates[0]
    return ComparedStart(near, best is not None)


def upgrades(starts: Sequence[AskedStart], steps: CachedSteps) -> Iterator[Upgrade]:
    """Yield each step between the versions that the request names, for one start on each GPU type.

    A cause is found by a dry run with the older release's rules and that one rule of the newer release.

    Args:
        starts: of one request, which differ in the GPU type.
        steps: those of the request's model.
    """
    releases = starts[0].request.engine.compared if starts else ()
    pairs = (_between(starts, steps.under(old), steps.under(new)) for old, new in pairwise(releases))
    for of_one_gpu in zip(*pairs, strict=True):
        yield from of_one_gpu


def _between(starts: Sequence[AskedStart], old: CachedSteps, new: CachedSteps) -> tuple[Upgrade, ...]:
    """Return the step from one release to another for each start."""
    changes = [_change(each, old, new) for each in starts]
    causes: dict[int, list[UpgradeCause]] = {place: [] for place, each in enumerate(changes) if each.changed}
    if causes:
        for rule in RULES:
            for place in _caused_by(rule, {place: changes[place] for place in causes}, old, new):
                causes[place].append(_cause(rule, max(old.rules.release, new.rules.release)))
    return tuple(
        Upgrade(
            each.asked.gpu.id,
            each.asked.start,
            each.before,
            each.after,
            each.changed,
            (*causes[place], *_beyond_rules(each.before, each.after)) if each.changed else (),
        )
        for place, each in enumerate(changes)
    )


def _change(asked: AskedStart, old: CachedSteps, new: CachedSteps) -> _Change:
    before, after = asked.tried(old), asked.tried(new)
    return _Change(asked, before, after, _differ(before, after))


def _caused_by(
    rule: DatedRule, changes: Mapping[int, _Change], old: CachedSteps, new: CachedSteps
) -> Iterator[int]:
    """Yield the changes that a rule causes: alone in the older release, or taken back in the newer one.

    GPU types share what they have in common. It is forgotten after each rule, of which there are many.
    """
    was, became = rule.of(old.rules), rule.of(new.rules)
    if was == became:
        return
    alone = CachedSteps(old.model, rule.laid_over(old.rules, became))
    without = CachedSteps(new.model, rule.laid_over(new.rules, was))
    for place, change in changes.items():
        asked = change.asked
        if _differ(change.before, asked.tried(alone)) or _differ(change.after, asked.tried(without)):
            yield place


def _cause(rule: DatedRule, release: Version) -> UpgradeCause:
    return UpgradeCause(rule.name, rule.summary, rule.timeline.change_at(release).source)


def _outcome(candidate: Candidate) -> UpgradeOutcome:
    cache, memory = candidate.kv_cache, candidate.memory
    return UpgradeOutcome(
        version=str(candidate.rules.release),
        verdict=candidate.verdict,
        error=None if candidate.error is None else f"{candidate.error.type}: {candidate.error.message}",
        tokens=None if cache is None else cache.tokens,
        max_concurrency=None if cache is None else cache.max_concurrency,
        max_model_len=None if cache is None else cache.max_model_len,
        block_size=candidate.block_size,
        blocks_per_request=None if cache is None else sum(g.blocks_per_request for g in cache.groups),
        attention_backends=candidate.attention_backends,
        available_kv_bytes=None if memory is None else memory.available_kv.bytes,
        doubt=candidate.rules.doubt or None,
        memory=memory,
    )


def _differ(one: UpgradeOutcome, other: UpgradeOutcome) -> tuple[str, ...]:
    """Return the fields that differ. Refusals of one type count as equal, whatever their message."""
    compared = (field.name for field in fields(UpgradeOutcome) if field.name not in UNCOMPARED)
    differing = (name for name in compared if getattr(one, name) != getattr(other, name))
    return (*differing, *(("error",) if _error_type(one) != _error_type(other) else ()))


def _error_type(outcome: UpgradeOutcome) -> str | None:
    return None if outcome.error is None else outcome.error.partition(":")[0]


def _beyond_rules(before: UpgradeOutcome, after: UpgradeOutcome) -> Iterator[UpgradeCause]:
    """Yield the causes that are not rules: the choice of backends, and the memory that a start takes."""
    if before.attention_backends != after.attention_backends:
        yield UpgradeCause(
            "attention_backends",
            f"Attention backends: {_listed(before)} became {_listed(after)}",
            f"vLLM {after.version}, platforms/cuda.py and the backends' own checks",
        )
    if before.available_kv_bytes != after.available_kv_bytes:
        one, other = before.memory, after.memory
        terms = "" if one is None or other is None else moved_terms(one, other)
        words = "The memory that a start takes, and the share of the device that it may use"
        yield UpgradeCause(
            "memory_budget",
            f"{words}: {terms}" if terms else words,
            f"vLLM {after.version}, v1/worker/gpu_worker.py determine_available_memory",
        )


def _listed(outcome: UpgradeOutcome) -> str:
    return ", ".join(outcome.attention_backends) or "none"
