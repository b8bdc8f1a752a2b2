"""Two cells of the heat map side by side, property by property."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from service.advisor.candidates.plan_types import Candidate
from service.advisor.ranking.service_level import completed_of
from service.application.text.in_short import in_short
from service.application.text.words import gpus_words, verdict_words
from service.units import gib_amount
from service.web.figures import DASH, grouped, times
from service.web.screens.best_by_dtype import BestByDtype
from service.web.screens.speed_screen import interval_words


@dataclass(frozen=True, slots=True)
class ComparedProperty:
    """One property of two starts side by side."""

    name: str
    one: str
    other: str


def compared_starts(found: Sequence[BestByDtype], beside: Sequence[str]) -> Iterator[ComparedProperty]:
    """Yield two starts, property by property."""
    if len(beside) != 4:  # noqa: PLR2004 - GPU type and dtype, twice
        return
    by_id = {each.plan.gpu.id: each for each in found}
    one, other = (
        by_id[gpu].best.get(dtype) if gpu in by_id else None
        for gpu, dtype in ((beside[0], beside[1]), (beside[2], beside[3]))
    )
    if one is None or other is None:
        return
    for name, written in PROPERTIES.items():
        yield ComparedProperty(name, written(one), written(other))


PROPERTIES: Final[Mapping[str, Callable[[Candidate], str]]] = {
    "verdict": lambda each: verdict_words(each.verdict),
    "why": lambda each: in_short(each) or DASH,
    "GPUs": gpus_words,
    "context": lambda each: grouped(None if each.kv_cache is None else each.kv_cache.max_model_len),
    "tokens": lambda each: grouped(each.all_tokens),
    "requests of the maximum length": lambda each: times(each.all_requests),
    "requests of the workload": lambda each: DASH if each.admission is None else grouped(completed_of(each)),
    "output tokens per second": lambda each: (
        DASH if each.speed is None else interval_words(each.speed.output_tokens_per_second)
    ),
    "US dollars for a million output tokens": lambda each: (
        DASH if each.cost is None else interval_words(each.cost.usd_per_million_output_tokens)
    ),
    "tokens of a block": lambda each: grouped(each.block_size),
    "cache, GiB of one rank": lambda each: _memory(each, "available_kv"),
    "weights, GiB of one rank": lambda each: _memory(each, "weights"),
    "attention backend": lambda each: ", ".join(each.attention_backends) or DASH,
}


def _memory(candidate: Candidate, term: str) -> str:
    return DASH if candidate.memory is None else gib_amount(getattr(candidate.memory, term).bytes)
