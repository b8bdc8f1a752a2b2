"""What captured graphs take beside what is computed: conformal bounds by release, each source counted once.

``python -m tests.accuracy.captures`` prints ``captured_percent`` of ``service/memory/graphs.toml`` anew from
the starts that constants may be fitted on, and how many sources the bounds hold that the others give.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor
from statistics import median

from packaging.version import Version
from rich.console import Console
from rich.table import Table

from service.memory.constants import constants_at
from tests.accuracy.startups_rows import DATA, read_rows
from tests.accuracy.startups_score import NotComparable, compare_graphs
from tests.accuracy.startups_split import NEVER_FITTED, part, thread
from tests.accuracy.startups_told import NotScored, read_startup

PROFILED = Version("0.19.0")
"""Since it the engine estimates graphs by capturing some of them first."""
TAIL = 0.1
"""Share that may lie below the lower bound, and above the upper one."""


@dataclass(frozen=True, slots=True)
class CaptureBounds:
    """Percent of what is computed."""

    low: float
    middle: float
    high: float

    def hold(self, percent: float) -> bool:
        """Whether a capture lies inside."""
        return self.low <= percent <= self.high


def conformal(percents: Sequence[float]) -> CaptureBounds:
    """Return the bounds that hold the next of exchangeable values in eight of ten cases, whatever they are.

    The ranks are those of one value more than are known, so that few values give wide bounds.
    """
    ranked = sorted(percents)
    count = len(ranked)
    low = max(1, floor((count + 1) * TAIL))
    high = min(count, ceil((count + 1) * (1 - TAIL)))
    return CaptureBounds(ranked[low - 1], median(ranked), ranked[high - 1])


def held_by_others(percents: Sequence[float]) -> int:
    """Return how many values lie within the bounds that all the others give."""
    return sum(
        conformal([*percents[:place], *percents[place + 1 :]]).hold(value)
        for place, value in enumerate(percents)
    )


def by_group(rows: Iterable[tuple[str, Version, float]]) -> dict[str, tuple[float, ...]]:
    """Return the median of each source, by whether its release estimates graphs itself."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for source, release, percent in rows:
        group = f"{PROFILED} on" if release >= PROFILED else f"before {PROFILED}"
        found[group][source].append(percent)
    return {name: tuple(map(median, sources.values())) for name, sources in sorted(found.items())}


def captures() -> Iterable[tuple[str, Version, float]]:
    """Yield source, release, and the percent of the computed estimate that graphs took."""
    for row in read_rows(DATA):
        try:
            startup = read_startup(row)
            if not startup.release_told or startup.logged.graphs_gib is None or part(startup) in NEVER_FITTED:
                continue
            score = compare_graphs(startup)
        except (NotScored, NotComparable):
            continue
        share = constants_at(startup.releases[0]).graphs.captured_percent.middle
        yield thread(startup), startup.releases[0], score.logged / score.predicted * share


def main() -> None:
    """Print bounds."""
    grid = Table("captured_percent", "sources", "low", "middle", "high", "held by the others")
    for name, percents in by_group(captures()).items():
        found = conformal(percents)
        figures = (f"{size:.0f}" for size in (found.low, found.middle, found.high))
        grid.add_row(name, str(len(percents)), *figures, str(held_by_others(percents)))
    Console(width=120).print(grid)


if __name__ == "__main__":
    main()
