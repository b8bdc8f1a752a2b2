"""Load on a service of its own: `make load` prints figures beside limits; exits with 1 where one fails."""

import argparse
import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from rich.console import Console

from tests.load import scenarios
from tests.load.acceptance import Outcome, acceptance_table
from tests.load.served import Served, served

Load: TypeAlias = Callable[[Served], Coroutine[Any, Any, Outcome]]

FULL: dict[str, Any] = {"include": ["details", "levers"]}
DEAR_SECONDS = 20.0
"""Most seconds of a load that is not saturation."""
IDLE_SECONDS = 8.0


def loads(seconds: float, connections: list[int]) -> list[tuple[str, Load]]:
    """Return the loads by name, each of which gets a new service."""
    dear, idle = min(seconds, DEAR_SECONDS), min(seconds, IDLE_SECONDS)
    return [
        *((f"saturation, {number} connections", _saturation(number, seconds)) for number in connections),
        ("catalog, 40 callers", lambda service: scenarios.catalogs(service, 40, dear)),
        ("full, 24 callers", lambda service: scenarios.full(service, 24, FULL, dear)),
        ("overload, 400 callers", lambda service: scenarios.overload(service, 400, FULL, dear)),
        ("idle, 1,100 connections", lambda service: scenarios.idle(service, 1000, 100, idle)),
        ("hung up, 30 callers", lambda service: scenarios.hung_up(service, 30, FULL, 1)),
        ("workers, 2", lambda service: scenarios.two_workers(service, 16, dear)),
    ]


def _saturation(connections: int, seconds: float) -> Load:
    return lambda service: scenarios.saturation(service, connections, seconds)


def main() -> None:
    """Run the loads, each against a new service."""
    parser = argparse.ArgumentParser(prog="tests.load", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=60, help="of each saturation; most of another load: 20"
    )
    parser.add_argument("--connections", type=int, nargs="*", default=[1, 8, 64, 256])
    parser.add_argument("--only", nargs="*", help="first words of the names of loads, such as full")
    options = parser.parse_args()
    console, outcomes = Console(soft_wrap=True, highlight=False), []
    for name, load in loads(options.seconds, options.connections):
        if options.only is not None and not name.startswith(tuple(options.only)):
            continue
        with served(DRYSERVE_PLAN_SECONDS=str(scenarios.PATIENCE_SECONDS)) as service:
            outcomes.append((name, asyncio.run(load(service))))
        console.print(f"{name}: {outcomes[-1][1].line}")
    Console(width=120).print(acceptance_table(outcomes))
    sys.exit(any(each.is_met is False for _, outcome in outcomes for each in outcome.accepted))


if __name__ == "__main__":
    main()
