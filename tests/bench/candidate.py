"""Measures one candidate inside the process, from a parsed architecture to its verdict."""

import time
from statistics import median
from typing import Final

from rich.table import Table

from service.advisor.dry_runs.dry_run import dry_run
from service.advisor.dry_runs.plan_cache import CachedSteps
from service.advisor.request.plan_request import Model, PlanRequest
from service.engines.flags import ServeFlags
from service.engines.releases import find_release, rules_for
from service.gpus.catalog import find_gpu
from tests.accuracy.oracle import bundled_architecture

MODELS: Final = (
    ("Qwen/Qwen3-8B", 1),
    ("google/gemma-4-31B-it", 2),
    ("Qwen/Qwen3.6-35B-A3B", 2),
    ("deepseek-ai/DeepSeek-V3.1", 8),
)
RUNS: Final = 300


def candidate_table() -> Table:
    """Return the median of each model, calculated and from the cache."""
    table = Table(title="in process, one candidate on an H100; p50 of processor time in milliseconds")
    for column in ("model", "layers", "calculated", "cached"):
        table.add_column(column, justify="left" if column == "model" else "right", no_wrap=True)
    for model, ranks in MODELS:
        table.add_row(model, *_figures(model, ServeFlags(tensor_parallel_size=ranks)))
    return table


def _figures(model: str, flags: ServeFlags) -> tuple[str, str, str]:
    architecture, gpu = bundled_architecture(model), find_gpu("h100-sxm-80gb")
    request = PlanRequest(Model(model, None, "bundled", architecture), (gpu,), serve=flags)
    rules = rules_for(find_release(None))
    cached = CachedSteps(request.model, rules)
    times: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(RUNS):
        for again, taken in times.items():
            started = time.process_time()
            dry_run(request, flags, rules, gpu, cached if again else None)
            taken.append((time.process_time() - started) * 1000)
    return str(len(architecture.layers)), f"{median(times[False]):.2f}", f"{median(times[True]):.2f}"
