"""How long the whole catalog takes inside the process: every GPU type, every cache dtype, 1 to 8 ranks."""

import gc
import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Final, TypeVar

from rich.table import Table

from service.advisor.candidates.plan_types import Plan
from service.advisor.dry_runs.plan_cache import PlanCache
from service.advisor.plan import plan
from service.advisor.request.plan_request import Model, PlanRequest
from service.api.garbage_collection import postpone_full_collections
from service.application.catalogs.model_reading import read_model
from service.application.plans.plan_writing import written_plan
from service.architecture.config import InvalidConfig
from service.architecture.reading import UnknownArchitecture
from service.gpus.catalog import gpu_catalog
from service.hub.bundled.snapshot import BundledSnapshot
from service.hub.errors import NotATextModel
from tests.bench.candidate import MODELS

WARM_UP: Final = "meta-llama/Llama-3.1-8B"
"""Asked about before any other, so that the release's rules and the catalog are read."""
CLASSES: Final = 48
"""Model classes of which one model each is planned, once."""
AGAIN: Final = 15

Result = TypeVar("Result")
Timing = tuple[float, float]
"""Milliseconds of the processor, and on the clock."""


def catalog_table() -> Table:
    """Return the first question about each of many models, and the same asked again."""
    table = Table(
        title="in process, whole catalog, every dtype, TP 1 to 8; milliseconds of processor (on the clock)"
    )
    for column in ("model", "candidates", "first", "again, p50", "as JSON, p50", "bytes"):
        table.add_column(column, justify="left" if column == "model" else "right", no_wrap=True)
    named = {model for model, _ in MODELS}
    models = tuple(_models(named))
    _ask(_read(WARM_UP), PlanCache())
    young, middle, full = gc.get_threshold()
    postpone_full_collections()  # as the service does
    firsts, agains = [], []
    for model in models:
        cache = PlanCache()
        first, _ = _timed(partial(_ask, model, cache))
        runs = [_timed(partial(_ask, model, cache)) for _ in range(AGAIN if model.id in named else 3)]
        firsts.append(first)
        agains.append(_p50([timing for timing, _ in runs]))
        if model.id in named:
            answer = runs[-1][1]
            written = [_timed(partial(_written, answer)) for _ in range(AGAIN)]
            table.add_row(
                model.id,
                f"{sum(len(gpu.candidates) for gpu in answer.plans):,}",
                _text(first),
                _text(agains[-1]),
                _text(_p50([timing for timing, _ in written])),
                f"{len(written[0][1]):,}",
            )
    gc.unfreeze()
    gc.set_threshold(young, middle, full)
    table.add_section()
    table.add_row(f"p50 of {len(models)} models", "", _text(_p50(firsts)), _text(_p50(agains)), "", "")
    return table


def _models(named: set[str]) -> Iterator[Model]:
    """Yield the named models, and one of each of many other classes."""
    classes = {_read(WARM_UP).architecture.class_name}
    left = CLASSES
    for model_id in (*sorted(named), *BundledSnapshot().ids()):
        try:
            model = _read(model_id)
        except (InvalidConfig, UnknownArchitecture, NotATextModel):
            continue
        if model.architecture.class_name not in classes and left:
            classes.add(model.architecture.class_name)
            left -= 1
            yield model


def _read(model_id: str) -> Model:
    fetched = BundledSnapshot().get(model_id)
    if fetched is None:
        raise LookupError(model_id)
    return read_model(fetched)


def _ask(model: Model, cache: PlanCache) -> Plan:
    return plan(PlanRequest(model, tuple(gpu for gpu in gpu_catalog() if gpu.modelled)), cache)


def _written(answer: Plan) -> bytes:
    return written_plan(answer)


def _timed(work: Callable[[], Result]) -> tuple[Timing, Result]:
    clock, processor = time.perf_counter(), time.process_time()
    result = work()
    return ((time.process_time() - processor) * 1e3, (time.perf_counter() - clock) * 1e3), result


def _p50(timings: list[Timing]) -> Timing:
    return median(processor for processor, _ in timings), median(clock for _, clock in timings)


def _text(timing: Timing) -> str:
    return f"{timing[0]:.1f} ({timing[1]:.1f})"
