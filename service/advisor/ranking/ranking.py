"""Which candidate is best for the objective of the request."""

from collections.abc import Callable
from math import inf
from typing import Any, Final, assert_never

from service.advisor.candidates.advice import PLACES, STEPS, Step
from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.verdict import VERDICTS, Verdict
from service.advisor.dry_runs.aliases import COMMON
from service.advisor.dry_runs.steps_of_advice import (
    Asked,
    has_other_cache,
    is_fp8,
    loses_nothing,
    step_of,
    uses_fallback,
)
from service.advisor.ranking.service_level import Service, completed_of, service_of
from service.advisor.ranking.speed_limits import Meets, meets
from service.advisor.request.plan_request import Objective

SAME_COST: Final = 1.2
"""Costs that differ by less are taken as equal: of pairs that differ by more, 97.7 % are ordered right, and
of the others 77 % (``python -m tests.speed``)."""

_LAST: Final = VERDICTS.index(Verdict.REFUSED)


def best_first(candidates: tuple[Candidate, ...], asked: Asked) -> tuple[Candidate, ...]:
    """Return candidates best first; equal ones stay in the given order.

    Candidates that cannot serve come last, before them those that by the expected memory do not start, which
    are never recommended while another starts for sure. ``balanced`` then follows the order of
    ``advice.toml``: the steps of the candidates, and the number of GPUs between steps of one group. With a
    workload, candidates that serve more of it come first, then those that are expected to meet its limits; an
    unusual cache comes last in any case. A start that is uncertain counts as one group later. ``accuracy``
    takes the least lossy cache, on any number of GPUs, quantized weights before a cache of fewer than 8 bits;
    ``tokens`` the most tokens; ``cost`` the fewest GPU hours for a token within the limits of the workload.

    Between equal candidates, attention backends that the engine tries last come after the others.
    """
    if asked.objective is Objective.COST:
        return _cheapest_first(candidates, asked)
    key = _key_of(asked.objective)

    def place(candidate: Candidate) -> tuple[Any, ...]:
        if candidate.verdict is Verdict.REFUSED:
            return _refused(candidate)
        return (0, *_hopeless(candidate), *key(candidate, asked))

    return tuple(sorted(candidates, key=place))


def _key_of(objective: Objective) -> Callable[[Candidate, Asked], tuple[Any, ...]]:
    """Return what orders candidates that may start."""
    match objective:
        case Objective.TOKENS:
            return lambda candidate, asked: (
                *_unfit(candidate, asked),
                _is_quantized(candidate, asked),
                *_most_tokens(candidate, asked),
            )
        case Objective.ACCURACY:
            return lambda candidate, asked: (
                *_unfit(candidate, asked),
                has_other_cache(candidate, asked),
                _is_quantized(candidate, asked),
                *_least_loss(candidate, asked),
            )
        case Objective.BALANCED | Objective.COST:
            return _balanced
    assert_never(objective)


def _hopeless(candidate: Candidate) -> tuple[bool, bool]:
    return (not candidate.may_serve, candidate.is_expected_to_fail)


def _refused(candidate: Candidate) -> tuple[Any, ...]:
    return (_LAST, candidate.gpus, candidate.kv_cache_dtype not in COMMON)


def _unfit(candidate: Candidate, asked: Asked) -> tuple[Any, ...]:
    return (
        VERDICTS.index(candidate.verdict),
        service_of(candidate, asked.workload),
        _limits(candidate, asked),
    )


def _is_quantized(candidate: Candidate, asked: Asked) -> bool:
    return candidate.flags.quantization != asked.specified.quantization


def _balanced(candidate: Candidate, asked: Asked) -> tuple[Any, ...]:
    step, service = step_of(candidate, asked), service_of(candidate, asked.workload)
    uncertain = candidate.verdict is Verdict.UNCERTAIN
    return (
        step is Step.OTHER_CACHE,
        service,
        _limits(candidate, asked),
        0 if service is Service.WHOLE else -completed_of(candidate),
        STEPS[step].group + uncertain,
        uncertain,
        -candidate.gpus if step is Step.LITTLE_ROOM else candidate.gpus,
        PLACES[step],
        *_details(candidate, asked),
    )


def _least_loss(candidate: Candidate, asked: Asked) -> tuple[Any, ...]:
    step = step_of(candidate, asked)
    group = STEPS[step].group
    return (candidate.quality.loss, group, candidate.gpus, PLACES[step], *_details(candidate, asked))


def _most_tokens(candidate: Candidate, asked: Asked) -> tuple[Any, ...]:
    changed = candidate.flags.max_model_len != asked.specified.max_model_len
    tokens = -(candidate.all_tokens or 0)
    return (changed, tokens, candidate.gpus, candidate.quality.loss, candidate.flags.block_size is not None)


def _cheapest_first(candidates: tuple[Candidate, ...], asked: Asked) -> tuple[Candidate, ...]:
    """Return what serves the workload within its limits, the cheapest tokens first.

    On one GPU type the cheapest tokens take the fewest GPU hours. What is within ``SAME_COST`` of the least
    is as cheap as it, as far as a plan can tell, and is ordered as ``balanced`` does.
    """
    able = [(_serves(each, asked), each) for each in candidates if each.verdict is not Verdict.REFUSED]
    most = min((serves for serves, _ in able), default=())
    least = min((_gpu_seconds(each) for serves, each in able if serves == most), default=0.0)

    def key(found: tuple[tuple[int, ...], Candidate]) -> tuple[Any, ...]:
        serves, candidate = found
        return (serves, max(_gpu_seconds(candidate), least * SAME_COST), *_balanced(candidate, asked))

    refused = (each for each in candidates if each.verdict is Verdict.REFUSED)
    return (*(each for _, each in sorted(able, key=key)), *sorted(refused, key=_refused))


def _serves(candidate: Candidate, asked: Asked) -> tuple[int, ...]:
    """Return how much of what is asked a candidate does, the most first."""
    return (
        *_hopeless(candidate),
        step_of(candidate, asked) is Step.OTHER_CACHE,
        service_of(candidate, asked.workload),
        _limits(candidate, asked),
    )


def _limits(candidate: Candidate, asked: Asked) -> Meets:
    """Return whether a candidate meets the limits of the workload, by the expected figures."""
    return Meets.LIKELY if asked.workload is None else max(Meets.LIKELY, meets(candidate, asked.workload))


def _gpu_seconds(candidate: Candidate) -> float:
    """Return the seconds of one GPU that an output token takes; infinite where the speed is not known."""
    if candidate.speed is None:
        return inf
    return candidate.all_gpus / candidate.speed.output_tokens_per_second.middle


def _details(candidate: Candidate, asked: Asked) -> tuple[Any, ...]:
    """Return what decides between candidates of one step on as many GPUs."""
    another = asked.prefers_fp8 and not is_fp8(candidate)
    loss = 0 if loses_nothing(candidate, asked) and candidate.quality.bits else candidate.quality.loss
    return (
        uses_fallback(candidate),
        another,
        loss,
        candidate.flags.block_size is not None,
        -(candidate.all_tokens or 0),
    )
