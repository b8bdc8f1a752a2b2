"""GPU types x cache dtypes: one cell for the best start of each pair, its shade by rank among all cells."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from service.advisor.candidates.plan_types import Candidate, Plan
from service.advisor.candidates.verdict import Verdict
from service.advisor.ranking.nearest_refused import nearest_refused
from service.advisor.ranking.service_level import Service, service_of
from service.advisor.request.plan_request import Workload
from service.application.text.in_short import in_short
from service.application.text.words import gpus_words, verdict_words
from service.gpus.gpu_type import GpuType
from service.units import gib_text
from service.web.figures import DASH, grouped, plain
from service.web.questions.page_question import PageQuestion
from service.web.questions.starts import fix_question
from service.web.screens.best_by_dtype import BestByDtype
from service.web.screens.compared_starts import ComparedProperty, compared_starts
from service.web.screens.heat_metric import COST, METRICS, SPEED, WORKLOAD, Comparison, Metric, context_of

SHADES: Final = 5
REASON_CHARACTERS: Final = 90


@dataclass(frozen=True, slots=True)
class Cell:
    """The best start of a GPU type with a cache dtype."""

    words: str
    """The value; empty where nothing starts."""
    gpus: str
    """How many GPUs it takes, where more than one."""
    context: str
    """Tokens of its context, where that is shorter than the longest of the table."""
    title: str
    link: str
    css: str


@dataclass(frozen=True, slots=True)
class HeatRow:
    """One GPU type."""

    gpu: str
    name: str
    gib: str
    link: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class SortedColumn:
    """A cache dtype, and the question that orders the rows by it."""

    name: str
    link: str
    is_sorted: bool


@dataclass(frozen=True, slots=True)
class RefusedTypes:
    """GPU types on which the start nearest to success is refused for one reason."""

    reason: str
    gpus: tuple[tuple[str, str], ...]
    """Ids with the questions for them."""


@dataclass(frozen=True, slots=True)
class GpusScreen:
    """Everything that the screen shows."""

    metric: Metric
    metrics: tuple[Metric, ...]
    columns: tuple[SortedColumn, ...]
    longest: int
    """Tokens of the longest context, where some cells have a shorter one; else 0."""
    by_name: SortedColumn
    by_memory: SortedColumn
    rows: tuple[HeatRow, ...]
    absent: str
    """Cache dtypes that start nowhere."""
    left_out: int
    refusal: str
    """Why nothing starts anywhere, where that is one reason."""
    fixes: tuple[tuple[str, str], ...]
    """Changes that get past this reason, each with the question for it."""
    reasons: tuple[RefusedTypes, ...]
    """Where nothing starts anywhere: each reason with the GPU types that it holds for."""
    find: str
    only: str
    carried: tuple[tuple[str, str], ...]
    """Parameters that the filter's form carries along."""
    gpus: tuple[str, ...]
    dtypes: tuple[str, ...]
    beside: tuple[str, ...]
    """GPU type and dtype of two cells."""
    sides: tuple[ComparedProperty, ...]

    @property
    def table(self) -> list[list[str]]:
        """The table as rows: values where there is a start, reasons elsewhere."""
        head = ["gpu", "GiB", *(column.name for column in self.columns)]
        return [head, *([row.gpu, row.gib, *(cell.title for cell in row.cells)] for row in self.rows)]


def gpus_screen(plan: Plan, question: PageQuestion) -> GpusScreen:
    """Return the table of all GPU types of a plan."""
    found = [BestByDtype.of(each) for each in plan.plans]
    names = dict.fromkeys(dtype for each in found for dtype in each.best)
    alive = sorted(
        (name for name in names if any(each.starts(name) for each in found)), key=_dtype_order(plan)
    )
    metrics = METRICS if plan.workload is None else (WORKLOAD, *METRICS, SPEED, COST)
    metric = next((each for each in metrics if each.name == question.value("metric")), metrics[0])
    shown = [each for each in found if _is_shown(each, question, plan.workload)]
    longest = max(
        (context_of(start) for each in found for name in alive if (start := each.starts(name))), default=0
    )
    comparison = Comparison(metric, longest)
    ordered = _ordered(shown, question.value("sort"), comparison)
    beside = question.values("beside")
    writer = CellWriter.of(ordered, alive, comparison, question)
    rows = tuple(writer.row(each) for each in ordered)
    kept = [name for name in names if name not in alive]
    return GpusScreen(
        metric=metric,
        metrics=metrics,
        columns=tuple(_column(name, question) for name in alive),
        longest=longest if any(cell.context for row in rows for cell in row.cells) else 0,
        by_name=_column("name", question),
        by_memory=_column("memory", question),
        rows=rows,
        absent=", ".join(kept),
        left_out=len(found) - len(shown),
        refusal="" if plan.refusal is None else plain(plan.refusal.detail or plan.refusal.message),
        fixes=tuple(_fixes(plan, question)),
        reasons=() if alive else tuple(_reasons(plan, question)),
        find=question.value("find"),
        only=question.value("only"),
        carried=tuple(pair for pair in question.pairs if pair[0] not in {"find", "only", "metric", "beside"}),
        gpus=tuple(each.plan.gpu.id for each in found),
        dtypes=tuple(names),
        beside=beside,
        sides=tuple(compared_starts(found, beside)),
    )


def _fixes(plan: Plan, question: PageQuestion) -> Iterator[tuple[str, str]]:
    if plan.refusal is not None:
        for fix in plan.refusal.fixes:
            yield fix.change, fix_question(question, fix, plan.plans[0].gpu).changed(gpu=None).link()


def _reasons(plan: Plan, question: PageQuestion) -> Iterator[RefusedTypes]:
    found: dict[str, list[tuple[str, str]]] = {}
    for each in plan.plans:
        near = nearest_refused(each.candidates) or each.candidates[0]
        error = near.error
        words = each.reason if error is None else plain(error.detail or error.message) or error.type
        link = question.planned.changed(gpu=each.gpu.id).link()
        found.setdefault(words, []).append((each.gpu.id, link))
    for words, gpus in found.items():
        yield RefusedTypes(words, tuple(gpus))


def _dtype_order(plan: Plan) -> Callable[[str], int]:
    order = {name: place for place, name in enumerate(plan.engine.rules.dtypes.accepted)}
    return lambda name: order.get(name, len(order))


def _is_shown(found: BestByDtype, question: PageQuestion, workload: Workload | None) -> bool:
    gpu, best = found.plan.gpu, found.plan.recommended
    sought = question.value("find").lower()
    if sought and sought not in gpu.id and sought not in gpu.name.lower():
        return False
    if question.value("only") == "starting":
        return best is not None and best.verdict is Verdict.STARTS
    return question.value("only") != "serving" or (
        best is not None and service_of(best, workload) is Service.WHOLE
    )


def _ordered(found: Sequence[BestByDtype], sort: str, comparison: Comparison) -> list[BestByDtype]:
    if sort == "name":
        return sorted(found, key=lambda each: each.plan.gpu.id)
    if sort == "memory":
        return sorted(found, key=lambda each: (each.plan.gpu.memory_bytes, each.plan.gpu.id))
    if not sort:
        return list(found)
    return sorted(found, key=lambda each: (comparison.rank(each.starts(sort)), each.plan.gpu.id))


def _column(name: str, question: PageQuestion) -> SortedColumn:
    return SortedColumn(name, question.changed(sort=name).link(), question.value("sort") == name)


@dataclass(frozen=True, slots=True)
class CellWriter:
    """What all cells of a table share."""

    dtypes: Sequence[str]
    comparison: Comparison
    bounds: Sequence[float]
    """Values at which a shade begins, ascending."""
    base: str
    """The question of every cell, without what a cell adds."""

    @classmethod
    def of(
        cls,
        found: Iterable[BestByDtype],
        dtypes: Sequence[str],
        comparison: Comparison,
        question: PageQuestion,
    ) -> "CellWriter":
        """Return the writer for some rows."""
        starts = (each.starts(dtype) for each in found for dtype in dtypes)
        compared = (each for each in starts if each is not None and not comparison.shortened(each))
        found_values = map(comparison.metric.value, compared)
        values = sorted({value for value in found_values if value is not None})
        bounds = [values[len(values) * shade // SHADES] for shade in range(1, SHADES)] if values else []
        return cls(dtypes, comparison, bounds, question.planned.changed(gpu=None, search=None).query)

    def row(self, found: BestByDtype) -> HeatRow:
        """Return the row of a GPU type."""
        gpu = found.plan.gpu
        link = f"plan?{self.base}&{urlencode({'gpu': gpu.id})}"
        cells = tuple(self.cell(found.best.get(dtype), gpu, dtype, link) for dtype in self.dtypes)
        return HeatRow(gpu.id, gpu.name, gib_text(gpu.memory_bytes), link, cells)

    def cell(self, start: Candidate | None, gpu: GpuType, dtype: str, link: str) -> Cell:
        """Return one cell."""
        link = f"{link}&kv_cache_dtype={dtype}"
        if start is None:
            return Cell("", "", "", f"{gpu.id}, {dtype}: not planned", link, "no")
        if start.verdict is Verdict.REFUSED:
            return Cell("", "", "", _reason(start), f"{link}{_sizes(start)}", "no")
        metric, context = self.comparison.metric, self.comparison.shortened(start)
        value = metric.value(start)
        words = DASH if value is None else metric.written(value)
        css = "short" if context else f"q{self._shade(value)}"
        at_context = f" at a context of {grouped(context)}" if context else ""
        doubtful = start.verdict is Verdict.UNCERTAIN
        return Cell(
            f"{words}?" if doubtful else words,
            f"x{start.all_gpus}" if start.all_gpus > 1 else "",
            grouped(context) if context else "",
            f"{words} {metric.label}{at_context}; {gpus_words(start)}; {verdict_words(start.verdict)}",
            f"{link}{_sizes(start)}",
            f"{css} may" if doubtful else css,
        )

    def _shade(self, value: float | None) -> int:
        shade = 0 if value is None else bisect_right(self.bounds, value)
        few_are_best = self.comparison.metric.few_are_best
        return SHADES - 1 - shade if few_are_best and value is not None else shade


def _reason(start: Candidate) -> str:
    words = in_short(start)
    return words if len(words) <= REASON_CHARACTERS else f"{words[:REASON_CHARACTERS]} ..."


def _sizes(start: Candidate) -> str:
    """Return the parameters that make a question ask for a candidate alone: what a search varies."""
    flags = start.flags
    given = {
        "tensor_parallel_size": start.tensor_parallel_size,
        "pipeline_parallel_size": start.pipeline_parallel_size if start.pipeline_parallel_size > 1 else None,
        "data_parallel_size": start.data_parallel_size if start.data_parallel_size > 1 else None,
        "enable_expert_parallel": "true" if start.enable_expert_parallel else None,
        "max_model_len": flags.max_model_len,
        "max_num_seqs": flags.max_num_seqs,
        "quantization": flags.quantization,
    }
    return "".join(f"&{name}={value}" for name, value in given.items() if value is not None) + "&search=false"
