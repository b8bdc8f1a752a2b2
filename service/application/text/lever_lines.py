"""Writes what single changes to a start give and cost, in the order to try them."""

from collections.abc import Iterator, Sequence
from typing import Final

from service.advisor.candidates.lever import Lever
from service.advisor.candidates.lever_costs import LIMITS_OF_LEVERS
from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.verdict import Verdict
from service.application.text.layout import folded
from service.application.text.words import indented, verdict_words
from service.units import GIB

PERCENT: Final = 100
HEADING: Final = (
    "Changes that give more, in the order to try them: what costs nothing first, then accuracy by published "
    "loss, then speed. Every one is planned alone."
)


def lever_lines(levers: Sequence[Lever], best: Candidate, width: int) -> Iterator[str]:
    """Yield one line for each change that gives notably more; the others in one paragraph each."""
    if not levers:
        return
    surpassed = frozenset(_surpassed(levers))
    yield ""
    yield from folded(HEADING, width)
    details = []
    for lever in levers:
        if lever.change in surpassed:
            continue
        if lever.is_detail:
            details.append(f"{lever.change} ({_percent(lever)})")
            continue
        costs = ", ".join(each.replace("_", " ") for each in lever.costs)
        doubt = "" if lever.verdict is Verdict.STARTS else f" ({verdict_words(lever.verdict)})"
        change = f"{lever.change}{_size(lever)}{doubt}"
        yield from indented(f"{costs}: {change}: {_gain_words(lever, best)}; {lever.cost}", width)
    if details:
        least = round(PERCENT * LIMITS_OF_LEVERS.part)
        yield from indented(f"under {least} %: {', '.join(details)}", width)
    if surpassed:
        names = ", ".join(each.change for each in levers if each.change in surpassed)
        yield from indented(
            f"no better than a cache dtype above (no more tokens, no less accuracy lost): {names}", width
        )
    yield from indented("--include levers --format json has all figures and sources.", width)


def _surpassed(levers: Sequence[Lever]) -> Iterator[str]:
    """Yield cache dtypes that lose at least as much as an earlier one and give no more."""
    dtypes = [each for each in levers if each.flag == "kv_cache_dtype"]
    for place, lever in enumerate(dtypes):
        if any(other.loss <= lever.loss and other.part >= lever.part for other in dtypes[:place]):
            yield lever.change


def _size(lever: Lever) -> str:
    return "" if lever.weight_bytes is None else f" (about {lever.weight_bytes / GIB:,.0f} GiB of weights)"


def _gain_words(lever: Lever, best: Candidate) -> str:
    cache, admission = best.kv_cache, best.admission
    tokens = lever.tokens + (0 if cache is None else cache.tokens)
    requests = lever.max_concurrency + (0 if cache is None else cache.max_concurrency)
    words = [f"{tokens:,} tokens ({_percent(lever)})", f"{requests:.2f}x"]
    if admission is not None and lever.completed_without_preemption is not None:
        completed = lever.completed_without_preemption
        now = admission.completed_without_preemption + completed
        words = [f"{tokens:,} tokens", f"{now:,} requests without preemption ({completed:+,})"]
    if lever.longest_context is not None:
        words.append(f"or a context of {lever.longest_context:,}")
    return ", ".join(words)


def _percent(lever: Lever) -> str:
    return f"{PERCENT * lever.part:+,.0f} %"
