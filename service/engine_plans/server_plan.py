"""Plans a server that sizes its cache by the memory that is left: from its terms to its figures."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from service.engine_plans.engine_plan import BudgetTerm, CacheFigures, EnginePlan, loading_refusal
from service.engine_plans.engine_question import EngineQuestion
from service.memory.budget_types import Estimate


class Server(Protocol):
    """What one engine makes of a question."""

    def terms(self) -> Iterator[BudgetTerm]:
        """Yield the terms of a rank's memory; none where the caller gave the cache's bytes."""

    def budget(self, terms: tuple[BudgetTerm, ...]) -> Estimate:
        """Return what is left of a rank's memory for the cache."""

    def at(self, budget: int) -> tuple[CacheFigures | None, str | None]:
        """Return the figures with a budget of bytes on each rank, or why the server does not start."""

    def notes(self) -> Iterator[str]:
        """Yield what to know about the figures."""


@dataclass(frozen=True, slots=True)
class NamedServer:
    """A server by its engine and release, with the command that starts it."""

    engine: str
    version: str
    ranks: int
    command: str
    server: Server


def plan_server(named: NamedServer, asked: EngineQuestion) -> EnginePlan:
    """Return what the server does with the middle of its budget, and with both ends."""
    server = named.server
    terms = tuple(server.terms())
    budget = asked.given_budget() or server.budget(terms)
    figures, refusal = server.at(budget.bytes)
    return EnginePlan(
        engine=named.engine,
        version=named.version,
        gpus=named.ranks,
        command=named.command,
        budget=budget,
        terms=terms,
        figures=figures,
        least=server.at(budget.low)[0],
        most=server.at(budget.high)[0],
        refusal=loading_refusal(terms) or refusal if figures is None else None,
        notes=tuple(server.notes()),
    )
