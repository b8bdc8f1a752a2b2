"""GPU types x cache dtypes: one cell for the best start of each pair, its shade by rank among all cells."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from service.advisor.nearest_refused import nearest_refused
from service.advisor.plan_request import Workload
from service.advisor.plan_types import Candidate, GpuPlan, Plan, Verdict
from service.advisor.service_level import Service, completed_of, service_of
from service.application.text.comparison import why
from service.application.text.words import gpus_words, verdict_words
from service.gpus.gpu_type import GpuType
from service.units import gib_amount, gib_text
from service.web.figures import DASH, grouped, plain, times
from service.web.page_question import PageQuestion
from service.web.speed_screen import figure_words, interval_words
from service.web.starts import fix_question

SHADES: Final = 5
REASON_CHARACTERS: Final = 90


@dataclass(frozen=True, slots=True)
class Metric:
    """What the cells show."""

    name: str
    label: str
    value: Callable[[Candidate], float | None]
    """``None`` where a candidate has no such value."""
    written: Callable[[float], str]
    few_are_best: bool = False
    of_whole_contexts: bool = False
    """Whether values of different contexts say nothing about which start is better."""


METRICS: Final = (
    Metric(
        "requests",
        "requests of the maximum length",
        lambda each: each.all_requests,
        times,
        of_whole_contexts=True,
    ),
    Metric(
        "tokens",
        "tokens, as logged",
        lambda each: each.all_tokens,
        lambda value: grouped(int(value)),
        of_whole_contexts=True,
    ),
    Metric(
        "gpus",
        "GPUs",
        lambda each: each.all_gpus,
        lambda value: str(int(value)),
        few_are_best=True,
        of_whole_contexts=True,
    ),
    Metric(
        "context",
        "tokens of the longest request",
        lambda each: None if each.kv_cache is None else each.kv_cache.max_model_len,
        lambda value: grouped(int(value)),
    ),
)
WORKLOAD: Final = Metric(
    "workload", "requests of the workload, none preempted", completed_of, lambda value: grouped(int(value))
)

SPEED: Final = Metric(
    "speed",
    "output tokens per second, expected",
    lambda each: None if each.speed is None else each.speed.output_tokens_per_second.middle,
    figure_words,
)
COST: Final = Metric(
    "cost",
    "US dollars for a million output tokens, expected",
    lambda each: None if each.cost is None else each.cost.usd_per_million_output_tokens.middle,
    lambda value: f"{value:,.2f}",
    few_are_best=True,
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A metric, and which starts it compares: those with the longest context of the table."""

    metric: Metric
    longest: int
    """Tokens."""

    def shortened(self, start: Candidate) -> int:
        """Return the context of a start that is not compared with the others for it; else 0."""
        context = _context(start)
        return context if self.metric.of_whole_contexts and 0 < context < self.longest else 0

    def rank(self, start: Candidate | None) -> tuple[bool, bool, float]:
        """Return what orders starts, the best first: whole contexts, shorter ones, none."""
        value = None if start is None else self.metric.value(start)
        if start is None or value is None:
            return True, True, 0
        return False, self.shortened(start) > 0, value if self.metric.few_are_best else -value


def _context(start: Candidate) -> int:
    return 0 if start.kv_cache is None else start.kv_cache.max_model_len


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
class ComparedProperty:
    """One property of two starts side by side."""

    name: str
    one: str
    other: str


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


@dataclass(frozen=True, slots=True)
class BestByDtype:
    """The plan of a GPU type with the first of its ranked candidates for each dtype."""

    plan: GpuPlan
    best: Mapping[str, Candidate]

    @classmethod
    def of(cls, plan: GpuPlan) -> "BestByDtype":
        """Read the candidates, which are ranked best first."""
        best: dict[str, Candidate] = {}
        for each in plan.candidates:
            best.setdefault(each.kv_cache_dtype, each)
        return cls(plan, best)

    def starts(self, dtype: str) -> Candidate | None:
        """Return the candidate of a dtype if it may start."""
        found = self.best.get(dtype)
        return None if found is None or found.verdict is Verdict.REFUSED else found


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
        (_context(start) for each in found for name in alive if (start := each.starts(name))), default=0
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
        sides=tuple(_sides(found, beside)),
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
        return best is not None
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
    words = why(start)
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


def _sides(found: Sequence[BestByDtype], beside: Sequence[str]) -> Iterator[ComparedProperty]:
    """Yield two starts, property by property."""
    if len(beside) != 4:  # noqa: PLR2004 - GPU type and dtype, twice
        return
    by_id = {each.plan.gpu.id: each for each in found}
    one, other = (
        by_id[gpu].best.get(dtype) if gpu in by_id else None
        for gpu, dtype in ((beside[0], beside[1]), (beside[2], beside[3]))
    )
    if one is None or other is None:
        return
    for name, written in PROPERTIES.items():
        yield ComparedProperty(name, written(one), written(other))


PROPERTIES: Final[Mapping[str, Callable[[Candidate], str]]] = {
    "verdict": lambda each: verdict_words(each.verdict),
    "why": lambda each: why(each) or DASH,
    "GPUs": gpus_words,
    "context": lambda each: grouped(None if each.kv_cache is None else each.kv_cache.max_model_len),
    "tokens": lambda each: grouped(each.all_tokens),
    "requests of the maximum length": lambda each: times(each.all_requests),
    "requests of the workload": lambda each: DASH if each.admission is None else grouped(completed_of(each)),
    "output tokens per second": lambda each: (
        DASH if each.speed is None else interval_words(each.speed.output_tokens_per_second)
    ),
    "US dollars for a million output tokens": lambda each: (
        DASH if each.cost is None else interval_words(each.cost.usd_per_million_output_tokens)
    ),
    "tokens of a block": lambda each: grouped(each.block_size),
    "cache, GiB of one rank": lambda each: _memory(each, "available_kv"),
    "weights, GiB of one rank": lambda each: _memory(each, "weights"),
    "attention backend": lambda each: ", ".join(each.attention_backends) or DASH,
}


def _memory(candidate: Candidate, term: str) -> str:
    return DASH if candidate.memory is None else gib_amount(getattr(candidate.memory, term).bytes)
