"""What changes between two releases for the same start, and which rules cause it."""

from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import pairwise
from typing import Final

from service.advisor.dry_run import dry_run
from service.advisor.nearest_refused import nearest_refused
from service.advisor.plan_request import PlanRequest
from service.advisor.plan_types import (
    Candidate,
    ComparedStart,
    GpuPlan,
    Upgrade,
    UpgradeCause,
    UpgradeOutcome,
)
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.releases import RULES
from service.gpus.gpu_type import GpuType

UNCOMPARED: Final = frozenset({"version", "error", "doubt"})
"""Fields of an outcome that differ without any change of behaviour; errors are compared by type."""


def compared_start(newest: GpuPlan) -> ComparedStart:
    """Return the start that the newest of the compared releases recommends, or the nearest to a start."""
    best = newest.recommended
    near = best or nearest_refused(newest.candidates) or newest.candidates[0]
    return ComparedStart(near, best is not None)


def upgrades(request: PlanRequest, start: ComparedStart, gpu: GpuType) -> tuple[Upgrade, ...]:
    """Return each step between the versions that the request names, for one start on one GPU type.

    A cause is found by a dry run with the older release's rules and that one rule of the newer release.
    """
    return tuple(_step(request, start, gpu, old, new) for old, new in pairwise(request.engine.compared))


def _resolved(candidate: Candidate) -> ServeFlags:
    return replace(
        candidate.flags,
        kv_cache_dtype=candidate.kv_cache_dtype,
        tensor_parallel_size=candidate.tensor_parallel_size,
    )


def _step(
    request: PlanRequest, start: ComparedStart, gpu: GpuType, old: EngineRules, new: EngineRules
) -> Upgrade:
    flags = _resolved(start.candidate)
    first, second = (_tried(request, flags, gpu, rules) for rules in (old, new))
    changed = _differ(first, second)
    causes = tuple(_causes(request, flags, gpu, old, new)) if changed else ()
    return Upgrade(gpu.id, start, first, second, changed, causes)


def _tried(request: PlanRequest, flags: ServeFlags, gpu: GpuType, rules: EngineRules) -> UpgradeOutcome:
    return _outcome(dry_run(request, flags, rules, gpu))


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
    )


def _causes(
    request: PlanRequest, flags: ServeFlags, gpu: GpuType, old: EngineRules, new: EngineRules
) -> Iterator[UpgradeCause]:
    """Yield the rules that change the outcome: alone in the older release, or taken back in the newer one."""

    def outcome(rules: EngineRules) -> UpgradeOutcome:
        return _tried(request, flags, gpu, rules)

    before, after = outcome(old), outcome(new)
    for rule in RULES:
        was, became = rule.of(old), rule.of(new)
        if was == became:
            continue
        alone, without = rule.laid_over(old, became), rule.laid_over(new, was)
        if _differ(before, outcome(alone)) or _differ(after, outcome(without)):
            later = max(old.release, new.release)
            yield UpgradeCause(rule.name, rule.summary, rule.timeline.change_at(later).source)
    yield from _beyond_rules(before, after)


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
        yield UpgradeCause(
            "memory_budget",
            "The memory that a start takes, and the share of the device that it may use",
            f"vLLM {after.version}, v1/worker/gpu_worker.py determine_available_memory",
        )


def _listed(outcome: UpgradeOutcome) -> str:
    return ", ".join(outcome.attention_backends) or "none"
