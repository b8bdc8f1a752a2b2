"""Speed and cost: tokens per second of a user against those of a GPU, and what a million tokens cost."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count, islice, takewhile
from typing import Final

from markupsafe import Markup

from service.advisor.candidates.plan_types import Candidate, GpuPlan, Plan
from service.advisor.candidates.verdict import Verdict
from service.advisor.ranking.speed_of_start import speed_of
from service.advisor.request.plan_request import Workload
from service.application.text.words import dtype_words, gpus_words
from service.speed.prices import Cost
from service.speed.serving_speed import Between, Speed
from service.web.drawings.speed_drawing import CostBar, SpeedPoint, costs_drawing, speeds_drawing
from service.web.questions.page_question import PageQuestion
from service.web.questions.starts import start_question
from service.web.screens.answer_screen import shown_candidate

MOST_STARTS: Final = 10
DIGITS: Final = 3


@dataclass(frozen=True, slots=True)
class SpeedRow:
    """One start in the table."""

    number: int
    words: str
    link: str
    per_request: str
    total: str
    tpot: str
    first_token: str
    cost: str
    basis: str
    source: str


@dataclass(frozen=True, slots=True)
class SpeedScreen:
    """Everything that the screen shows."""

    why_not: str
    """Why there is no speed; empty where there is one."""
    speeds: Markup
    costs: Markup
    rows: tuple[SpeedRow, ...]
    bound: str
    price: str
    """The price with its terms and its day; empty where none is known."""
    price_source: str

    @property
    def table(self) -> list[list[str]]:
        """The starts as rows."""
        head = [
            "start",
            "tokens/s of a request",
            "tokens/s in total",
            "ms a token",
            "ms to the first",
            "USD a million",
        ]
        return [
            head,
            *(
                [row.words, row.per_request, row.total, row.tpot, row.first_token, row.cost]
                for row in self.rows
            ),
        ]


def speed_screen(plan: Plan, question: PageQuestion) -> SpeedScreen:
    """Return the screen for the plan of one GPU type."""
    gpu_plan = plan.plans[0]
    shown = shown_candidate(gpu_plan)
    if shown.speed is None or plan.workload is None:
        return SpeedScreen(_why_not(plan.workload), Markup(), Markup(), (), "", "", "")
    starts = list(islice(_starts(gpu_plan, shown), MOST_STARTS))
    price = next((cost.price for _, _, cost in starts if cost is not None), None)
    words = "" if price is None else f"{price.usd_per_gpu_hour:,.2f} US dollars for an hour of a GPU"
    terms = (
        ""
        if price is None
        else f"{price.provider}, {price.kind.replace('_', ' ')}, {price.as_of or 'no date'}"
    )
    return SpeedScreen(
        why_not="",
        speeds=speeds_drawing(
            [_point(number, *start[:2]) for number, start in enumerate(starts, start=1)],
            list(_curve(shown, gpu_plan, plan.workload)),
        ),
        costs=costs_drawing(list(_bars(starts))),
        rows=tuple(_row(number, *start, question, gpu_plan) for number, start in enumerate(starts, start=1)),
        bound=shown.speed.bound.replace("_", " "),
        price=f"{words} ({terms})" if words else "",
        price_source="" if price is None else price.source,
    )


def _why_not(workload: Workload | None) -> str:
    if workload is None:
        return "A speed needs a workload: tokens of prompts and answers, and requests at once."
    if not workload.output_tokens:
        return "A speed needs answers: say how many tokens an answer has."
    return "The speed of this start is not known."


def _starts(plan: GpuPlan, shown: Candidate) -> Iterator[tuple[Candidate, Speed, Cost | None]]:
    """Yield what is shown first, then the others that may start, best first."""
    for each in (shown, *(other for other in plan.candidates if other is not shown)):
        if each.speed is not None and each.verdict is not Verdict.REFUSED:
            yield each, each.speed, each.cost


def _curve(shown: Candidate, plan: GpuPlan, workload: Workload) -> Iterator[tuple[int, float, float]]:
    """Yield numbers of requests with tokens per second of a user and of a GPU."""
    most = workload.concurrent_requests
    for number in (*takewhile(lambda each: each < most, (1 << power for power in count())), most):
        speed = speed_of(shown, plan.gpu, replace(workload, concurrent_requests=number, request_rate=None))
        if speed is not None:
            yield number, speed.per_request.middle, speed.output_tokens_per_second.middle / shown.all_gpus


def _point(number: int, start: Candidate, speed: Speed) -> SpeedPoint:
    return SpeedPoint(number, speed.per_request, speed.output_tokens_per_second.divided(start.all_gpus))


def _bars(starts: list[tuple[Candidate, Speed, Cost | None]]) -> Iterator[CostBar]:
    for number, (start, _, cost) in enumerate(starts, start=1):
        if cost is not None:
            yield CostBar(
                number, f"{dtype_words(start)}, {gpus_words(start)}", cost.usd_per_million_output_tokens
            )


def _row(  # noqa: PLR0913, PLR0917 - what a start has
    number: int, start: Candidate, speed: Speed, cost: Cost | None, question: PageQuestion, plan: GpuPlan
) -> SpeedRow:
    return SpeedRow(
        number=number,
        words=f"{dtype_words(start)}, {gpus_words(start)}",
        link=start_question(question, start, plan.gpu).link(),
        per_request=interval_words(speed.per_request),
        total=interval_words(speed.output_tokens_per_second),
        tpot=interval_words(speed.tpot_ms),
        first_token=f"{figure_words(speed.ttft_floor_ms)} to {figure_words(speed.ttft_ms.high)}",
        cost="" if cost is None else interval_words(cost.usd_per_million_output_tokens),
        basis=speed.basis,
        source=speed.source,
    )


def figure_words(value: float) -> str:
    """Return a figure with three digits, more before the point."""
    shown = float(f"{value:.{DIGITS}g}")
    return f"{shown:,.0f}" if shown >= 10 ** (DIGITS - 1) else f"{shown:g}"


def interval_words(figure: Between) -> str:
    """Return a figure with its interval."""
    return f"{figure_words(figure.middle)} ({figure_words(figure.low)} to {figure_words(figure.high)})"
