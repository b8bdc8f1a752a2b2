"""Print what the constants of the memory budget would be, from the fit part of the logged starts alone.

``python -m tests.accuracy.fit``: the 10th, 50th and 90th percentile of what remains of each term once what is
computed is taken away, in MiB (of repacking and graphs in percent). Nothing is written: a constant is a
decision with its source, in the TOML files of service/memory.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from statistics import quantiles

from packaging.version import Version
from rich.console import Console
from rich.table import Table

from service.memory.budget_types import MemoryBudget
from service.memory.constants import constants_at
from service.units import GIB, MIB
from tests.accuracy.startups_rows import DATA, read_rows
from tests.accuracy.startups_score import runs_of
from tests.accuracy.startups_split import is_held_out
from tests.accuracy.startups_told import NotScored, Startup, read_startup

RESERVING = Version("0.20.0")
"""Since it graphs are part of the budget; estimates were logged before."""


def residuals(startup: Startup) -> Iterator[tuple[str, float]]:
    """Yield what each logged term leaves to a constant."""
    budget = _budget(startup)
    if budget is None:
        return
    release, logged = startup.releases[0], startup.logged
    constants = constants_at(release)
    architecture = startup.known.model.architecture
    plain = not architecture.media.towers and not architecture.is_recurrent
    if logged.activation_gib is not None and plain:
        v2 = budget.activation.source.startswith(constants.activation.sources["sampler_copies_v2"])
        computed = budget.activation.bytes - constants.activation.base_mib(v2=v2).middle * MIB
        yield f"base_mib_v{1 + v2}", (logged.activation_gib * GIB - computed) / MIB
    if logged.non_torch_gib is not None:
        yield f"growth_mib, {_ranks(startup)}", logged.non_torch_gib * GIB / MIB
    if logged.weights_gib is not None:
        yield from _stored(startup, budget, logged.weights_gib * GIB)
    if logged.graph_estimate_gib is not None:
        later = replace(startup, releases=(max(release, RESERVING),))
        reserved = _budget(later)
        if reserved is not None and reserved.cuda_graphs.bytes:
            yield (
                "graphs, % of the middle",
                100 * logged.graph_estimate_gib * GIB / reserved.cuda_graphs.bytes,
            )


def _stored(startup: Startup, budget: MemoryBudget, logged: float) -> Iterator[tuple[str, float]]:
    slack = constants_at(startup.releases[0]).resident.slack_mib.middle * MIB
    quantization = startup.known.model.architecture.quantization
    if quantization is None and startup.flags.quantization is None:
        yield "slack_mib", (logged - budget.weights.bytes + slack) / MIB
    elif quantization is not None and quantization.schemes and quantization.schemes[-1].scheme is not None:
        kind = quantization.schemes[-1].scheme.format.value
        exact = budget.weights.parameter_bytes
        yield f"repacking_percent, {kind}", 100 * (logged - slack - exact) / exact


def _budget(startup: Startup) -> MemoryBudget | None:
    runs = [run for run in runs_of(startup, startup.flags) if run.candidate.memory is not None]
    return runs[0].candidate.memory if runs else None


def _ranks(startup: Startup) -> str:
    if startup.flags.pipeline_parallel_size > 1:
        return "pipelined"
    return "one" if startup.flags.tensor_parallel_size == 1 else "many"


def main() -> None:
    """Fit and print."""
    found: dict[str, list[float]] = defaultdict(list)
    for row in read_rows(DATA):
        try:
            startup = read_startup(row)
        except NotScored:
            continue
        if startup.release_told and not is_held_out(startup):
            for name, value in residuals(startup):
                found[name].append(value)
    grid = Table("constant", "rows", "10 %", "median", "90 %", title="fit part", title_justify="left")
    for name, values in sorted(found.items()):
        low, middle, high = _percentiles(values)
        grid.add_row(name, str(len(values)), f"{low:.1f}", f"{middle:.1f}", f"{high:.1f}")
    Console(width=120).print(grid)


def _percentiles(values: list[float]) -> tuple[float, float, float]:
    if len(values) == 1:
        return values[0], values[0], values[0]
    cuts = quantiles(values, n=10, method="inclusive")
    return cuts[0], cuts[4], cuts[8]


if __name__ == "__main__":
    main()
