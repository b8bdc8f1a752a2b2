"""Context against concurrency: how many requests of which length run at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from service.advisor.candidates.plan_types import Candidate, Plan
from service.advisor.dry_runs.concurrency_curve import CurvePoint, concurrency_curve
from service.advisor.words.pooling_words import pooling_sentence
from service.web.drawings.context_drawing import Mark, context_drawing
from service.web.questions.page_question import PageQuestion
from service.web.screens.answer_screen import shown_candidate

MOST_ROWS: Final = 16


@dataclass(frozen=True, slots=True)
class ContextScreen:
    """Everything that the screen shows."""

    drawing: Markup
    points: tuple[CurvePoint, ...]
    """The points of the table."""
    every: tuple[CurvePoint, ...]
    basis: str
    source: str
    limit: int
    """``max_num_seqs`` of all replicas."""
    logged: str
    """Requests of the maximum length as the engine logs them."""
    encoder: str = ""
    """What limits requests where the model needs no cache; empty for others."""

    @property
    def table(self) -> list[list[str]]:
        """All points as rows."""
        head = ["tokens", "requests", "requests with p10 of the memory", "requests with p90 of the memory"]
        rows = ([each.tokens, each.requests, each.low, each.high] for each in self.every)
        return [head, *([str(value) for value in row] for row in rows)]


def context_screen(plan: Plan, question: PageQuestion) -> ContextScreen:
    """Return the screen for the plan of one GPU type."""
    del question
    shown = shown_candidate(plan.plans[0])
    workload, start, cache, memory = plan.workload, shown.start, shown.kv_cache, shown.memory
    asked = () if workload is None else (workload.prompt_tokens + workload.output_tokens,)
    curve = concurrency_curve(shown, asked)
    if not curve or start is None or cache is None or memory is None:
        encoder = pooling_sentence(shown) if shown.caches_nothing else ""
        return ContextScreen(Markup(), (), (), "", "", 0, "", encoder)
    return ContextScreen(
        drawing=context_drawing(curve, tuple(_marks(plan, shown))),
        points=tuple(_spread(curve, asked)),
        every=curve,
        basis=memory.available_kv.basis,
        source=memory.available_kv.source,
        limit=start.engine_config.max_num_seqs * shown.engines,
        logged=f"{cache.max_concurrency:,.2f}",
    )


def _marks(plan: Plan, shown: Candidate) -> Iterator[Mark]:
    if shown.kv_cache is not None:
        yield Mark(f"context {shown.kv_cache.max_model_len:,}", shown.kv_cache.max_model_len, 0)
    if plan.workload is not None:
        length = plan.workload.prompt_tokens + plan.workload.output_tokens
        requests = plan.workload.concurrent_requests
        yield Mark(f"asked: {requests:,} of {length:,}", length, requests)


def _spread(curve: Sequence[CurvePoint], asked: tuple[int, ...]) -> Iterator[CurvePoint]:
    """Yield points at regular distances, the last one and the asked ones."""
    every = max(1, len(curve) // MOST_ROWS)
    for place, point in enumerate(curve):
        if place % every == 0 or place == len(curve) - 1 or point.tokens in asked:
            yield point
