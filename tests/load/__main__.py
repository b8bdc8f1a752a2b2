"""Load on a service of its own: ``make load`` prints what each scenario came to."""

import argparse
import asyncio
from collections.abc import Coroutine
from typing import Any

from rich.console import Console

from tests.load import scenarios
from tests.load.served import Served, served

CATALOG: dict[str, Any] = {}
FULL: dict[str, Any] = {"include": ["details", "levers"]}


def main() -> None:
    """Run the scenarios, each against a new service."""
    parser = argparse.ArgumentParser(prog="tests.load", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="duration of each load")
    parser.add_argument("--connections", type=int, nargs="*", default=[1, 8, 64, 256])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", nargs="*", help="names of scenarios")
    options = parser.parse_args()
    console, seconds = Console(soft_wrap=True, highlight=False), options.seconds

    def scenario(name: str, started: Any) -> None:  # noqa: ANN401 - a function of the service
        if options.only is not None and name not in options.only:
            return
        arguments = [] if options.workers == 1 else ["--workers", str(options.workers)]
        with served(*arguments) as service:
            console.print(f"{name}: {asyncio.run(_line(started, service))}")

    for connections in options.connections:
        scenario("saturation", lambda service, n=connections: scenarios.saturation(service, n, seconds))
    scenario("catalog", lambda service: scenarios.dear(service, 40, CATALOG, seconds))
    scenario("full", lambda service: scenarios.dear(service, 24, FULL, seconds))
    scenario("overload", lambda service: scenarios.dear(service, 400, FULL, seconds))
    scenario("idle", lambda service: scenarios.idle(service, 1000, 100, min(seconds, 8)))
    scenario("hung-up", lambda service: scenarios.hung_up(service, 30, FULL, 1))


async def _line(started: Any, service: Served) -> str:  # noqa: ANN401 - as above
    running: Coroutine[Any, Any, str] = started(service)
    return await running


if __name__ == "__main__":
    main()
