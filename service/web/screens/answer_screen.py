"""What one GPU type answers: verdict, figures, memory, commands, levers, the other candidates."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from service.advisor.candidates.lever import Lever
from service.advisor.candidates.plan_types import Candidate, GpuPlan, Plan
from service.advisor.candidates.refusal import Fix, Refusal
from service.advisor.candidates.verdict import Verdict
from service.advisor.ranking.nearest_refused import nearest_refused
from service.application.text.commands import COMMANDS
from service.application.text.words import dtype_words, gpus_words, start_words, verdict_words
from service.engines.refusal import Stage
from service.units import GIB
from service.web.drawings.memory_bar import MemoryBar, memory_drawing
from service.web.figures import gib, grouped, interval, plain, times
from service.web.questions.page_question import PageQuestion
from service.web.questions.starts import fix_question, lever_question, start_question

MOST_LEVERS: Final = 8
PAGE_STAGES: Final = frozenset({Stage.BLOCK_SIZE, Stage.PAGE_SIZE, Stage.GROUPING})
"""Stages of a start that end over the sizes of the layers' pages."""
MOST_ROWS: Final = 12


@dataclass(frozen=True, slots=True)
class Figure:
    """One of the large numbers at the top."""

    name: str
    value: str
    unit: str
    basis: str
    source: str


@dataclass(frozen=True, slots=True)
class FixLink:
    """A change that gets past a refusal, with what it gives."""

    change: str
    gain: str
    verdict: str
    link: str


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """A line of the table below the bar."""

    number: str
    css: str
    name: str
    size: str
    interval: str
    basis: str
    source: str


@dataclass(frozen=True, slots=True)
class LeverBar:
    """A lever with the length of its bar, in percent of the longest."""

    change: str
    link: str
    percent: float
    tokens: str
    requests: str
    memory: str
    cost: str


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """Another candidate."""

    words: str
    verdict: str
    tokens: str
    requests: str
    context: str
    link: str


@dataclass(frozen=True, slots=True)
class RefusedStarts:
    """Candidates that one reason refuses."""

    reason: str
    starts: tuple[tuple[str, str], ...]
    """Words and link of each."""


@dataclass(frozen=True, slots=True)
class CommandText:
    """What starts it, for one kind of place."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class RefusalText:
    """Why it does not start: the engine's words, and ours."""

    type: str
    stage: str
    of_pages: bool
    """Whether the pages of the layers are the reason."""
    message: str
    detail: str
    fixes: tuple[FixLink, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AnswerScreen:
    """Everything that the screen shows."""

    verdict: str
    headline: str
    start: str
    reason: str
    figures: tuple[Figure, ...]
    refusal: RefusalText | None
    admission: str
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    log_lines: tuple[str, ...]
    bar: Markup
    memory: tuple[MemoryRow, ...]
    commands: tuple[CommandText, ...]
    levers: tuple[LeverBar, ...]
    """Those that gain requests, in the order of the plan."""
    losses: tuple[LeverBar, ...]
    """The others, in the same order."""
    lever_unit: str
    others: tuple[CandidateRow, ...]
    """The best of those that may start."""
    more: tuple[CandidateRow, ...]
    """The rest of them."""
    refused: tuple[RefusedStarts, ...]

    @property
    def refused_count(self) -> int:
        """Number of candidates that do not start."""
        return sum(len(each.starts) for each in self.refused)

    @property
    def table(self) -> list[list[str]]:
        """The memory of one rank as rows."""
        head = ["part", "GiB", "p10 to p90 GiB", "basis", "source"]
        return [head, *([row.name, row.size, row.interval, row.basis, row.source] for row in self.memory)]


def shown_candidate(plan: GpuPlan) -> Candidate:
    """Return the candidate that the screens of one GPU type show: the recommended, or the nearest refused."""
    return plan.recommended or nearest_refused(plan.candidates) or plan.candidates[0]


def answer_screen(plan: Plan, question: PageQuestion) -> AnswerScreen:
    """Return the screen for the plan of one GPU type."""
    gpu_plan = plan.plans[0]
    shown = shown_candidate(gpu_plan)
    others = [each for each in gpu_plan.candidates if each is not shown]
    alive = (each for each in others if each.verdict is not Verdict.REFUSED)
    rows = tuple(_candidate_row(each, question, gpu_plan) for each in alive)
    bars = tuple(_lever_bars(gpu_plan, shown, question))
    bar = None if shown.memory is None else MemoryBar.of(shown.memory)
    gaining = tuple(each for each in bars if each.percent > 0)
    return AnswerScreen(
        verdict=verdict_words(shown.verdict),
        headline=plain(plan.verdict),
        start=start_words(shown),
        reason=plain(gpu_plan.reason),
        figures=tuple(_figures(shown)),
        refusal=None if shown.error is None else _refusal(shown.error, question, gpu_plan),
        admission="" if shown.admission is None else shown.admission.explanation,
        warnings=tuple(each for each in shown.warnings if each not in shown.notes),
        notes=shown.notes,
        log_lines=() if shown.kv_cache is None else shown.kv_cache.log_lines,
        bar=Markup() if bar is None else memory_drawing(bar),
        memory=() if bar is None else tuple(_memory_rows(bar)),
        commands=tuple(_commands(plan)),
        levers=gaining[:MOST_LEVERS],
        losses=(*gaining[MOST_LEVERS:], *(each for each in bars if each.percent <= 0)),
        lever_unit="Requests of the maximum length"
        if shown.admission is None
        else "Requests of the workload",
        others=rows[:MOST_ROWS],
        more=rows[MOST_ROWS:],
        refused=_refused(others, question, gpu_plan),
    )


def _figures(shown: Candidate) -> Iterator[Figure]:
    cache, memory = shown.kv_cache, shown.memory
    if cache is None or memory is None:
        return
    basis = memory.available_kv.basis
    source = f"from the memory for the cache, {gib(memory.available_kv)} GiB: {memory.available_kv.source}"
    yield Figure("Tokens, as logged", grouped(shown.all_tokens), "tokens", basis, source)
    length = f"of {cache.max_model_len:,} tokens at once"
    yield Figure("Requests", times(shown.all_requests), length, basis, source)
    if shown.admission is not None:
        completed = shown.admission.completed_without_preemption * shown.engines
        words = f"of {shown.admission.prompt_tokens:,} prompt tokens, none preempted"
        yield Figure("Workload", grouped(completed), words, basis, source)
    longest = grouped(cache.estimated_max_model_len)
    yield Figure("Longest request", longest, "tokens", basis, source)
    if shown.speed is not None:
        speed, rate = shown.speed, shown.speed.per_request
        words = f"tokens/s of a request, {rate.low:,.3g} to {rate.high:,.3g}"
        yield Figure("Speed", f"{rate.middle:,.3g}", words, speed.basis, speed.source)
    if shown.cost is not None:
        cost, price = shown.cost.usd_per_million_output_tokens, shown.cost.price
        words = (
            f"a million output tokens, {cost.low:,.2f} to {cost.high:,.2f}; price {price.as_of or 'undated'}"
        )
        source = f"{price.usd_per_gpu_hour:,.2f} US dollars an hour, {price.provider}: {price.source}"
        known = "assumed" if shown.speed is None else shown.speed.basis
        yield Figure("Cost", f"${cost.middle:,.2f}", words, known, source)
    yield Figure("GPUs", str(shown.all_gpus), gpus_words(shown), "given", "of this start")


def _refusal(error: Refusal, question: PageQuestion, gpu_plan: GpuPlan) -> RefusalText:
    return RefusalText(
        type=error.type,
        stage=error.stage.replace("_", " "),
        of_pages=error.stage in PAGE_STAGES,
        message=plain(error.message),
        detail=plain(error.detail),
        fixes=tuple(_fix(each, question, gpu_plan) for each in error.fixes),
        notes=error.notes,
    )


def _fix(fix: Fix, question: PageQuestion, gpu_plan: GpuPlan) -> FixLink:
    tokens = "" if fix.tokens is None else f"{fix.tokens:,} tokens"
    spread = f"{fix.gpus} GPUs" if fix.gpus > 1 else ""
    requests = (
        "" if fix.max_concurrency is None else f"{fix.max_concurrency:,.2f} requests of the maximum length"
    )
    link = fix_question(question, fix, gpu_plan.gpu).link()
    return FixLink(
        fix.change, ", ".join(filter(None, (tokens, requests, spread))), verdict_words(fix.verdict), link
    )


def _memory_rows(bar: MemoryBar) -> Iterator[MemoryRow]:
    for term in bar.terms:
        each = term.estimate
        yield MemoryRow(
            str(term.number), term.css, term.name, gib(each), interval(each), each.basis, each.source
        )
    late = bar.late_graphs
    name = "CUDA graphs, once captured"
    yield MemoryRow("6", "late", name, gib(late), interval(late), late.basis, late.source)
    for name, each in (("share of the engine", bar.requested), ("device", bar.total)):
        yield MemoryRow("", "", name, gib(each), interval(each), each.basis, each.source)


def _commands(plan: Plan) -> Iterator[CommandText]:
    names = {"command": "Shell", "docker": "Docker", "kubernetes": "Kubernetes", "compose": "Compose"}
    for form, write in COMMANDS.items():
        written = write(plan)
        if written.commands:
            yield CommandText(names[form], f"{written.comments}{written.commands}".rstrip())


def _lever_bars(plan: GpuPlan, shown: Candidate, question: PageQuestion) -> Iterator[LeverBar]:
    most = max(map(_gain, plan.levers), default=0.0)
    for lever in plan.levers:
        gain = _gain(lever)
        yield LeverBar(
            change=plain(lever.change),
            link=lever_question(question, shown, lever, plan.gpu).link(),
            percent=round(100 * max(0.0, gain) / most, 1) if most > 0 else 0.0,
            tokens=f"{lever.tokens:+,}",
            requests=f"{gain:+,.2f}" if lever.completed_without_preemption is None else f"{gain:+,}",
            memory=f"{lever.available_bytes / GIB:+.2f}",
            cost=f"{', '.join(lever.costs).replace('_', ' ')}: {lever.cost}",
        )


def _gain(lever: Lever) -> float:
    """Return the requests that a lever adds: of the workload where there is one."""
    completed = lever.completed_without_preemption
    return lever.max_concurrency if completed is None else completed


def _refused(
    candidates: Iterable[Candidate], question: PageQuestion, plan: GpuPlan
) -> tuple[RefusedStarts, ...]:
    starts: dict[str, list[tuple[str, str]]] = {}
    for each in candidates:
        if each.verdict is Verdict.REFUSED and each.error is not None:
            reason = plain(each.error.detail or each.error.message) or each.error.type
            words = f"{dtype_words(each)}, {gpus_words(each)}"
            starts.setdefault(reason, []).append((words, start_question(question, each, plan.gpu).link()))
    return tuple(RefusedStarts(reason, tuple(found)) for reason, found in starts.items())


def _candidate_row(candidate: Candidate, question: PageQuestion, plan: GpuPlan) -> CandidateRow:
    cache = candidate.kv_cache
    return CandidateRow(
        words=f"{dtype_words(candidate)}, {gpus_words(candidate)}",
        verdict=verdict_words(candidate.verdict),
        tokens=grouped(candidate.all_tokens),
        requests=times(candidate.all_requests),
        context=grouped(None if cache is None else cache.max_model_len),
        link=start_question(question, candidate, plan.gpu).link(),
    )
