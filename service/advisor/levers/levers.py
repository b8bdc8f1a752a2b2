"""Levers: single changes to a candidate, with gain and cost, each found by a dry run, in the order to try."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from service.advisor.candidates.lever import Lever
from service.advisor.candidates.lever_costs import (
    CHECKPOINT_COST,
    FLAG_COSTS,
    LAYOUT_COST,
    LIMITS_OF_LEVERS,
    PATCH_COST,
    PLACES_OF_COSTS,
    RELEASE_COST,
    RISK_WORDS,
    SLOWER_BACKEND,
    CostOfChange,
    LeverCost,
)
from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.runtime_headroom import little_room_for_steps
from service.advisor.candidates.verdict import Verdict
from service.advisor.candidates.warnings import slow_prompts
from service.advisor.dry_runs.dry_run import dry_run
from service.advisor.dry_runs.engine_steps import EngineSteps
from service.advisor.dry_runs.steps_of_advice import length_of, uses_fallback
from service.advisor.fixes.fix_attempt import LENGTH_STEP, longest_length, sure
from service.advisor.levers.lever_changes import LeverChange, changes_of
from service.advisor.levers.unpacked_weights import unpacked_words
from service.advisor.request.checkpoint_layouts import WeightQuality, online_quality
from service.advisor.request.plan_request import PlanRequest
from service.architecture.model import ModelArchitecture
from service.engine_config.cache_dtype import canonical
from service.engines.cache_quality import CacheQuality, Published
from service.engines.flags import ServeFlags
from service.engines.releases import RELEASES, UnavailableFlag, check_flags, rules_for, with_patch
from service.gpus.gpu_type import GpuType
from service.memory.weights.schemes.online_quantization import quantized_online

LEAST_GAIN: Final = 0.005
"""Requests of the maximum length: less is printed as 0.00."""


def levers(request: PlanRequest, best: Candidate, steps: EngineSteps, gpu: GpuType) -> tuple[Lever, ...]:
    """Return the changes that have an effect, in the order in which an expert tries them (``levers.toml``).

    What adds less than a twentieth comes last. Before, what costs nothing stands first, then what costs
    accuracy, then speed; of the same cost the least published loss, then the largest gain: in requests of
    the workload where there is one, else in requests of the maximum length.

    ``best`` is a candidate of this request on this GPU type. Without a cache it has no levers.
    """
    start = best.start
    if best.kv_cache is None or start is None:
        return ()
    found = (_lever(change, request, best, steps, gpu) for change in changes_of(request, start, best, gpu))
    length = best.kv_cache.max_model_len
    gaining = _one_share(lever for lever in found if lever is not None and _gains(lever, length))
    return tuple(_one_of_each_format(sorted(gaining, key=lambda lever: _order(lever, length))))


def _gains(lever: Lever, length: int) -> bool:
    """Whether a change lets more requests through, or no fewer and makes room that two decimals show."""
    requests = (lever.completed_without_preemption or 0, lever.admitted_at_once or 0)
    return max(requests) > 0 or (min(requests) == 0 and _concurrency(lever, length) >= LEAST_GAIN)


def _concurrency(lever: Lever, length: int) -> float:
    """Return the requests of one length that a change adds.

    A shorter maximum length divides the same cache by less: what it adds is what its cache holds more.
    """
    return lever.tokens / length if lever.flag == "max_model_len" else lever.max_concurrency


def _one_share(levers: Iterable[Lever]) -> Iterator[Lever]:
    """Yield levers with the largest share of the memory that is no risk, and no other share."""
    chosen = False
    for lever in levers:
        if lever.flag == "gpu_memory_utilization":
            if chosen or LeverCost.RISK in lever.costs:
                continue
            chosen = True
        yield lever


def _one_of_each_format(levers: Iterable[Lever]) -> Iterator[Lever]:
    """Yield levers without other names of a cache dtype that was named before."""
    stored = set()
    for lever in levers:
        if lever.flag == "kv_cache_dtype":
            name = canonical(str(lever.value))
            if name in stored:
                continue
            stored.add(name)
        yield lever


def _order(lever: Lever, length: int) -> tuple[float, ...]:
    spent = [each for each in lever.costs if each is not LeverCost.START_TIME]
    # Weights that are unpacked are faster for some steps, slower for others: no reason to come later.
    heavy = [each for each in spent if each is not LeverCost.PREFILL]
    loss = lever.loss + (LIMITS_OF_LEVERS.one_model if lever.published is Published.ONE_MODEL else 0)
    rarer = 1 - (LIMITS_OF_LEVERS.start_time if LeverCost.START_TIME in lever.costs else 0)
    return (
        lever.is_detail,
        max(PLACES_OF_COSTS[each] for each in spent),
        len(heavy),
        lever.published is Published.NOTHING,
        loss,
        -(lever.completed_without_preemption or 0) * rarer,
        -(lever.admitted_at_once or 0) * rarer,
        -_concurrency(lever, length) * rarer,
        -lever.available_bytes,
    )


@dataclass(frozen=True, slots=True)
class _Changed:
    """A start with a change, and what it is planned with."""

    request: PlanRequest
    flags: ServeFlags
    steps: EngineSteps

    def run(self, gpu: GpuType) -> Candidate:
        return dry_run(self.request, self.flags, self.steps.rules, gpu, self.steps)


def _lever(
    change: LeverChange, request: PlanRequest, best: Candidate, steps: EngineSteps, gpu: GpuType
) -> Lever | None:
    changed = _changed(change, request, best, steps)
    try:
        check_flags(changed.flags, changed.steps.rules.release)
    except UnavailableFlag:
        return None
    after = changed.run(gpu)
    if change.flag == "kv_cache_dtype" and after.start is not None and after.start.names_other_floats:
        return None
    found = _effect(change, request, best, after, gpu)
    if found is None or request.serve.max_model_len is not None or best.flags.max_model_len is None:
        return found
    return replace(found, longest_context=_longest_context(change, changed, best, gpu))


def _changed(change: LeverChange, request: PlanRequest, best: Candidate, steps: EngineSteps) -> _Changed:
    if change.checkpoint is not None:
        model = change.checkpoint.model
        flags = replace(best.flags, quantization=None)
        return _Changed(replace(request, model=model), flags, steps.of(model))
    values = dict(change.layout) if change.flag is None else {change.flag: change.value}
    if values:
        return _Changed(request, replace(best.flags, **values), steps)
    if change.patch is not None:
        return _Changed(request, best.flags, steps.under(with_patch(steps.rules, change.patch)))
    newest = rules_for(RELEASES[-1], request.engine.patches)
    return _Changed(request, best.flags, steps.under(newest))


def _longest_context(change: LeverChange, changed: _Changed, best: Candidate, gpu: GpuType) -> int | None:
    """Return the tokens of a longer context that a change is sure to make room for; ``None`` for none."""
    whole = replace(changed, flags=changed.flags.of_length(None))
    start = whole.run(gpu)
    if change.flag == "max_model_len" or start.start is None:
        return None
    if start.verdict is not Verdict.STARTS:
        length = longest_length(changed.request, whole.flags, changed.steps, gpu, sure)
        fitting = whole.flags.of_length(length // LENGTH_STEP * LENGTH_STEP or LENGTH_STEP)
        start = replace(whole, flags=fitting).run(gpu)
    longer = start.verdict is Verdict.STARTS and start.may_serve and length_of(start) > length_of(best)
    return length_of(start) if longer else None


def _effect(
    change: LeverChange, request: PlanRequest, before: Candidate, after: Candidate, gpu: GpuType
) -> Lever | None:
    """Return what a change gives and costs; ``None`` where it changes no figure, or does not start."""
    one, other = before.kv_cache, after.kv_cache
    if one is None or other is None or not after.may_serve:
        return None
    ranks = after.flags.data_parallel_size if change.layout else 1
    admitted = completed = None
    if before.admission is not None and after.admission is not None:
        most = 0 if request.workload is None else request.workload.concurrent_requests
        admitted = (
            min(after.admission.admitted_at_once * ranks, max(most, after.admission.admitted_at_once))
            - before.admission.admitted_at_once
        )
        completed = (
            min(
                after.admission.completed_without_preemption * ranks,
                max(most, after.admission.completed_without_preemption),
            )
            - before.admission.completed_without_preemption
        )
    weights = _weight_quality(change)
    checkpoint = change.checkpoint
    costs, cost = _costs(change, request, before, after, gpu)
    lever = Lever(
        change=change.words,
        flag=change.flag,
        value=change.value,
        version=change.version,
        patch=change.patch,
        checkpoint=None if checkpoint is None else checkpoint.model.id,
        verdict=after.verdict,
        tokens=other.tokens * ranks - one.tokens,
        available_bytes=other.available_bytes - one.available_bytes,
        max_concurrency=other.max_concurrency * ranks - one.max_concurrency,
        estimated_max_model_len=other.estimated_max_model_len - one.estimated_max_model_len,
        admitted_at_once=admitted,
        completed_without_preemption=completed,
        loss=max(0, after.quality.loss - before.quality.loss) + (0 if weights is None else weights.loss),
        cost=cost,
        costs=costs,
        published=_quality(change, after).published,
        weight_bytes=None if checkpoint is None else checkpoint.weight_bytes(after.rules.release),
        command=replace(after, carried=before.carried).command,
        layout=change.layout,
    )
    figures = (lever.tokens, lever.available_bytes, lever.max_concurrency, lever.estimated_max_model_len)
    if not any((*figures, admitted, completed)):
        return None
    return replace(lever, part=_part(lever, before, one.max_model_len))


def _part(lever: Lever, before: Candidate, length: int) -> float:
    """Return what a change adds, as a part of what the start has."""
    admission, cache = before.admission, before.kv_cache
    if admission is not None:
        added = (
            (lever.completed_without_preemption or 0) / max(1, admission.completed_without_preemption),
            (lever.admitted_at_once or 0) / max(1, admission.admitted_at_once),
        )
        return max(added)
    if cache is None or not cache.max_concurrency:
        return 0.0
    return _concurrency(lever, length) / cache.max_concurrency


def _weight_quality(change: LeverChange) -> WeightQuality | None:
    """Return what is published of the weights that a change leads to; ``None`` where they stay."""
    if change.checkpoint is not None:
        return change.checkpoint.quality
    return online_quality() if change.flag == "quantization" else None


def _quality(change: LeverChange, after: Candidate) -> CacheQuality | WeightQuality:
    """Return what is published of the weights or of the cache after a change."""
    return _weight_quality(change) or after.quality


def _kind(change: LeverChange) -> CostOfChange:
    if change.layout:
        return LAYOUT_COST
    if change.flag is not None:
        return FLAG_COSTS[change.flag]
    if change.checkpoint is not None:
        return CHECKPOINT_COST
    return RELEASE_COST if change.patch is None else PATCH_COST


def _costs(
    change: LeverChange, request: PlanRequest, before: Candidate, after: Candidate, gpu: GpuType
) -> tuple[tuple[LeverCost, ...], str]:
    """Return what a change costs, and how."""
    kind, quality = _kind(change), _quality(change, after)
    costs, words = kind.costs, kind.words
    if _is_enough(change, request):
        costs, words = (LeverCost.FREE,), kind.words_enough
    if change.value is True and kind.words_on:
        words = kind.words_on
    if change.checkpoint is not None and change.checkpoint.is_bundled:
        words = kind.words_bundled
        stored = after.resolved_kv_cache_dtype
        if stored != before.resolved_kv_cache_dtype:
            words = f"{words}; it asks for a cache in {stored}"
    if change.flag == "kv_cache_dtype" and _loses_much(quality):
        costs = (LeverCost.MUCH_ACCURACY,)
    weights = _weights(change, request)
    if weights is not None and (unpacked := unpacked_words(weights, gpu)):
        costs, words = (*costs, LeverCost.PREFILL), f"{words}; {unpacked}"
    if uses_fallback(after) and not uses_fallback(before):
        costs = (*costs, LeverCost.SPEED)
        words = f"{words}; {SLOWER_BACKEND.format(backend=after.attention_backends[0])}"
    if after.start is not None and not _slow(before) and (slow := slow_prompts(after.start)):
        costs, words = (*costs, LeverCost.PREFILL), f"{words}; {slow}"
    if _is_risk(before, after):
        costs, words = (*costs, LeverCost.RISK), f"{words}; {RISK_WORDS}"
    return costs, words.format(effect=quality.effect, source=quality.source)


def _slow(candidate: Candidate) -> bool:
    return candidate.start is not None and candidate.start.unpacked_in_prompts is not None


def _weights(change: LeverChange, request: PlanRequest) -> ModelArchitecture | None:
    """Return the model with the weights that a change leads to; ``None`` where they stay."""
    if change.checkpoint is not None:
        return change.checkpoint.model.architecture
    if change.flag != "quantization":
        return None
    return quantized_online(request.model.architecture, change.value)


def _is_enough(change: LeverChange, request: PlanRequest) -> bool:
    """Whether the workload of a request does not notice a smaller limit."""
    workload = request.workload
    if workload is None:
        return False
    if change.flag == "max_num_seqs":
        return bool(change.value >= workload.concurrent_requests)
    tokens = workload.prompt_tokens + workload.output_tokens
    return change.flag == "max_model_len" and bool(change.value >= tokens)


def _loses_much(quality: CacheQuality | WeightQuality) -> bool:
    return quality.published is not Published.NOTHING and quality.loss >= LIMITS_OF_LEVERS.much_loss


def _is_risk(before: Candidate, after: Candidate) -> bool:
    """Whether a change makes a start uncertain, or leaves too little memory for a full step."""
    if after.verdict is Verdict.UNCERTAIN and before.verdict is Verdict.STARTS:
        return True
    if after.kv_cache is None or after.memory is None:
        return False
    return bool(little_room_for_steps(after.kv_cache, after.memory))
