"""Writes several GPU types as a table, one line each."""

from collections.abc import Iterator
from math import inf
from typing import Final

from service.advisor.candidates.plan_types import Candidate, GpuPlan, Plan
from service.advisor.candidates.verdict import Verdict
from service.advisor.dry_runs.steps_of_advice import length_of
from service.advisor.ranking.nearest_refused import nearest_refused
from service.advisor.ranking.service_level import Service, completed_of, service_of
from service.advisor.request.plan_request import Workload
from service.advisor.words.speed_words import number
from service.application.text.in_short import in_short
from service.application.text.layout import WIDTH, Column, Kept, Order, TextOptions, drawn
from service.application.text.words import dtype_words, verdict_words, weights_words
from service.units import gib_text

SIZES, SHORT_SIZES = "GPUs (TP x PP x DP)", "GPUs"
COLUMNS: Final = (
    Column("GPU", left=True),
    Column("GiB", spare=4),
    Column(SIZES, left=True),
    Column(SHORT_SIZES, left=True),
    Column("cache dtype", left=True, spare=2, said="{} cache"),
    Column("weights", left=True, spare=4, said="{} weights"),
    Column("context", spare=2, said="{} tokens of context"),
    Column("verdict", left=True),
    Column("serves", left=True),
    Column("tok/s", spare=1),
    Column("$/M tokens", spare=1),
    Column("tokens", spare=1),
    Column("concurrency", spare=3),
    Column("KV GiB", spare=5),
    Column("why", left=True, below=True),
)
UNCHANGED: Final = "unchanged"
"""What is said of weights that the engine does not quantize, where it quantizes others."""
SORTED_BY: Final = {"memory": "GiB", "tokens": "tokens"}
"""By order: the column that is not left out, where it otherwise may be."""
NONE_LEFT: Final = {
    "starting": "It is sure to start on none of the GPU types.",
    "serving": "No GPU type serves the whole workload.",
}


def comparison_lines(plan: Plan, options: TextOptions) -> Iterator[str]:
    """Yield a table of the GPU types, in the order and with the rows that the options ask for."""
    kept = [gpu for gpu in plan.plans if _is_kept(gpu, plan.workload, options.only)]
    if not kept:
        yield NONE_LEFT[options.only or "starting"]
        return
    ordered = kept if options.order is None else sorted(kept, key=lambda gpu: _rank(gpu, options.order))
    rows = [_row(gpu, plan.workload, options.width) for gpu in ordered]
    if all(row["weights"] in {"", UNCHANGED} for row in rows):
        rows = [{**row, "weights": ""} for row in rows]
    yield from drawn(COLUMNS, rows, options.width, SORTED_BY.get(options.order or "name"))
    if len(kept) < len(plan.plans):
        yield f"{len(plan.plans) - len(kept)} other GPU types are left out by --only {options.only}."


def _is_kept(plan: GpuPlan, workload: Workload | None, only: Kept | None) -> bool:
    best = plan.recommended
    if only == "serving":
        return best is not None and service_of(best, workload) is Service.WHOLE
    return only is None or (best is not None and best.verdict is Verdict.STARTS)


def _rank(plan: GpuPlan, order: Order | None) -> tuple[float | str, ...]:
    best = plan.recommended
    memory = plan.gpu.memory_bytes
    if order == "name":
        return (plan.gpu.id,)
    if order == "memory":
        return (memory, plan.gpu.id)
    if order == "tokens":
        return (-((best.all_tokens if best else None) or -1), plan.gpu.id)
    return (inf if best is None else best.gpus, memory, plan.gpu.id)


def _row(plan: GpuPlan, workload: Workload | None, width: int) -> dict[str, str]:
    best = plan.recommended or nearest_refused(plan.candidates) or next(iter(plan.candidates), None)
    row = dict.fromkeys((column.name for column in COLUMNS), "")
    row |= {"GPU": plan.gpu.id, "GiB": gib_text(plan.gpu.memory_bytes)}
    if best is None:
        return row
    return row | {
        SIZES: _sizes(best) if width >= WIDTH else "",
        SHORT_SIZES: "" if width >= WIDTH else _short_sizes(best),
        **_terms(best),
        "verdict": verdict_words(best.verdict),
        "serves": "" if workload is None else _served(best, workload),
        "tok/s": "" if workload is None else _speed(best),
        "$/M tokens": "" if workload is None else _cost(best),
        "tokens": "-" if best.all_tokens is None else f"{best.all_tokens:,}",
        "concurrency": "-" if best.all_requests is None else f"{best.all_requests:.2f}x",
        "KV GiB": gib_text(best.memory.available_kv.bytes)
        if best.memory and not best.caches_nothing
        else "-",
        "why": in_short(best),
    }


def _terms(candidate: Candidate) -> dict[str, str]:
    """Return what makes figures of two rows unlike: cache dtype, quantized weights, length of a request."""
    if candidate.verdict is Verdict.REFUSED:
        return {}
    return {
        "cache dtype": dtype_words(candidate),
        "weights": weights_words(candidate).removesuffix(" weights") or UNCHANGED,
        "context": f"{length_of(candidate):,}",
    }


def _sizes(candidate: Candidate) -> str:
    return f"{candidate.gpus} ({' x '.join(_each_size(candidate))}){_experts(candidate)}"


def _short_sizes(candidate: Candidate) -> str:
    count = candidate.gpus
    alone = count == candidate.tensor_parallel_size
    words = str(count) if alone else f"{count}={'x'.join(_each_size(candidate))}"
    return f"{words}{_experts(candidate)}"


def _experts(candidate: Candidate) -> str:
    """Return the mark of expert parallelism."""
    return " EP" if candidate.enable_expert_parallel else ""


def _each_size(candidate: Candidate) -> tuple[str, str, str]:
    tensor, pipeline = candidate.tensor_parallel_size, candidate.pipeline_parallel_size
    return (str(tensor), str(pipeline), str(candidate.flags.data_parallel_size))


def _served(candidate: Candidate, workload: Workload) -> str:
    admission, wanted = candidate.admission, workload.concurrent_requests
    if candidate.caches_nothing and service_of(candidate, workload) is Service.WHOLE:
        return f"all {wanted:,}"
    if admission is None:
        return "-"
    match service_of(candidate, workload):
        case Service.WHOLE:
            return f"all {wanted:,}"
        case Service.INTERRUPTED:
            return f"{completed_of(candidate):,} of {wanted:,} finish"
        case _:
            return f"{admission.admitted_at_once * candidate.engines:,} of {wanted:,} run"


def _speed(candidate: Candidate) -> str:
    """Return the output tokens per second of all requests; the interval stands with the start."""
    return "" if candidate.speed is None else f"~{number(candidate.speed.output_tokens_per_second.middle)}"


def _cost(candidate: Candidate) -> str:
    """Return the US dollars for a million output tokens."""
    cost = candidate.cost
    return "" if cost is None else f"~{number(cost.usd_per_million_output_tokens.middle)}"
