"""What the cells of the heat map show, and which starts it compares."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from service.advisor.candidates.plan_types import Candidate
from service.advisor.ranking.service_level import completed_of
from service.web.figures import grouped, times
from service.web.screens.speed_screen import figure_words


@dataclass(frozen=True, slots=True)
class Metric:
    """What the cells show."""

    name: str
    label: str
    value: Callable[[Candidate], float | None]
    """``None`` where a candidate has no such value."""
    written: Callable[[float], str]
    few_are_best: bool = False
    of_whole_contexts: bool = False
    """Whether values of different contexts say nothing about which start is better."""


METRICS: Final = (
    Metric(
        "requests",
        "requests of the maximum length",
        lambda each: each.all_requests,
        times,
        of_whole_contexts=True,
    ),
    Metric(
        "tokens",
        "tokens, as logged",
        lambda each: each.all_tokens,
        lambda value: grouped(int(value)),
        of_whole_contexts=True,
    ),
    Metric(
        "gpus",
        "GPUs",
        lambda each: each.all_gpus,
        lambda value: str(int(value)),
        few_are_best=True,
        of_whole_contexts=True,
    ),
    Metric(
        "context",
        "tokens of the longest request",
        lambda each: None if each.kv_cache is None else each.kv_cache.max_model_len,
        lambda value: grouped(int(value)),
    ),
)


WORKLOAD: Final = Metric(
    "workload", "requests of the workload, none preempted", completed_of, lambda value: grouped(int(value))
)


SPEED: Final = Metric(
    "speed",
    "output tokens per second, expected",
    lambda each: None if each.speed is None else each.speed.output_tokens_per_second.middle,
    figure_words,
)


COST: Final = Metric(
    "cost",
    "US dollars for a million output tokens, expected",
    lambda each: None if each.cost is None else each.cost.usd_per_million_output_tokens.middle,
    lambda value: f"{value:,.2f}",
    few_are_best=True,
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A metric, and which starts it compares: those with the longest context of the table."""

    metric: Metric
    longest: int
    """Tokens."""

    def shortened(self, start: Candidate) -> int:
        """Return the context of a start that is not compared with the others for it; else 0."""
        context = context_of(start)
        return context if self.metric.of_whole_contexts and 0 < context < self.longest else 0

    def rank(self, start: Candidate | None) -> tuple[bool, bool, float]:
        """Return what orders starts, the best first: whole contexts, shorter ones, none."""
        value = None if start is None else self.metric.value(start)
        if start is None or value is None:
            return True, True, 0
        return False, self.shortened(start) > 0, value if self.metric.few_are_best else -value


def context_of(start: Candidate) -> int:
    """Return the maximum length of a start in tokens; 0 where it has no cache."""
    return 0 if start.kv_cache is None else start.kv_cache.max_model_len
