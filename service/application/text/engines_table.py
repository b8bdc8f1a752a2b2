"""Writes the answers of engines as a table, or as the commands that start them."""

from collections.abc import Iterator
from textwrap import wrap
from typing import Final

from service.application.text.compose import compose_file
from service.application.text.engine_commands import compose_service, docker_command, kubernetes_manifest
from service.application.text.layout import DEFAULT_TEXT, Column, TextOptions, drawn, folded
from service.application.text.plan_format import TextFormat
from service.application.text.words import verdict_words
from service.engine_plans.engine_plan import EnginePlan
from service.engines_compared.comparison import EnginesCompared, GpuComparison, verdict_of
from service.units import GIB

COLUMNS: Final = (
    Column("engine", left=True),
    Column("verdict", left=True),
    Column("GPUs"),
    Column("longest request"),
    Column("interval", spare=2),
    Column("at once"),
    Column("KiB/token", spare=3),
    Column("weights"),
    Column("cache"),
    Column("in all"),
    Column("unused", spare=1),
    Column("own count", spare=4),
)
LEGEND: Final = """\
Longest request: tokens of its prompt and answer; interval: with the least and the most memory; at once: \
requests of the asked length that fit.
Weights, cache, in all (with buffers): GiB of the fullest GPU. Unused: GiB of all caches that the longest \
request leaves. Own count: the engine's own figure, which means another thing in each."""
WEIGHTS: Final = frozenset({"weights", "model buffer"})
BUFFERS: Final = frozenset(
    {"activation", "non_torch", "cuda_graphs", "compute buffer", "peak of the profile run", "loading"}
    | {"multimodal reserve"}
)
"""What each engine calls the terms of a GPU's memory beside its cache."""
KIB: Final = 1024


def engines_text(compared: EnginesCompared, form: TextFormat, options: TextOptions = DEFAULT_TEXT) -> str:
    """Return engines side by side as a table, or the commands that start them."""
    if form == "table":
        return "\n".join(_tables(compared, options)) + "\n"
    plans = [plan for gpu in compared.gpus for plan in gpu.plans if plan.figures is not None]
    if form == "kubernetes":
        return "---\n".join(map(kubernetes_manifest, plans))
    if form == "compose":
        return compose_file("".join(map(compose_service, plans)))
    return "".join(f"{plan.command if form == 'command' else docker_command(plan)}\n" for plan in plans)


def _tables(compared: EnginesCompared, options: TextOptions) -> Iterator[str]:
    yield f"{compared.name}: {_budget(compared.cache_bytes)}{_length(compared.request_tokens)}"
    for gpu in compared.gpus:
        yield ""
        memory = f"{gpu.gpu.memory_bytes / GIB:.2f} GiB"
        yield from folded(f"{gpu.gpu.name} ({gpu.gpu.id}), {memory}{_count(gpu.count)}", options.width)
        yield from drawn(COLUMNS, [_row(plan) for plan in gpu.plans], options.width)
        yield from _remarks(gpu, options.width)
    yield ""
    plans = (plan for gpu in compared.gpus for plan in gpu.plans)
    for note in dict.fromkeys(f"{plan.engine}: {note}" for plan in plans for note in plan.notes):
        yield from folded(note, options.width, deeper="  ")
    for line in LEGEND.splitlines():
        yield from folded(line, options.width, deeper="  ")


def _count(count: int | None) -> str:
    if count is None:
        return ""
    return ", 1 GPU" if count == 1 else f", {count} GPUs"


def _budget(cache_bytes: int | None) -> str:
    return (
        "each engine's own budget"
        if cache_bytes is None
        else f"{cache_bytes / GIB:.2f} GiB of cache on each GPU"
    )


def _length(tokens: int | None) -> str:
    return "" if tokens is None else f", requests of {tokens:,} tokens"


def _row(plan: EnginePlan) -> dict[str, str]:
    figures = plan.figures
    row = dict.fromkeys((column.name for column in COLUMNS), "")
    row |= {
        "engine": f"{plan.engine} {plan.version}",
        "verdict": verdict_words(verdict_of(plan)),
        "GPUs": str(plan.gpus),
    }
    if figures is None:
        return row
    low = 0 if plan.least is None else plan.least.longest_request
    high = figures.longest_request if plan.most is None else plan.most.longest_request
    return row | {
        "longest request": f"{figures.longest_request:,}",
        "interval": "" if low == high else f"{low:,} to {high:,}",
        "at once": "" if figures.requests is None else f"{figures.requests:,}",
        "KiB/token": f"{figures.bytes_per_token / KIB:.1f}",
        "cache": f"{max(figures.cache_bytes) / GIB:.2f}",
        **_memory(plan, max(figures.cache_bytes)),
        "unused": f"{figures.wasted_bytes / GIB:.2f}",
        "own count": f"{figures.tokens:,}",
    }


def _memory(plan: EnginePlan, cache_bytes: int) -> dict[str, str]:
    """Return the weights and all that the fullest GPU holds; empty where the cache's bytes were given."""
    weights = sum(term.estimate.bytes for term in plan.terms if term.name in WEIGHTS)
    if not weights:
        return {}
    buffers = sum(term.estimate.bytes for term in plan.terms if term.name in BUFFERS)
    whole = weights + buffers + cache_bytes
    return {"weights": f"{weights / GIB:.2f}", "in all": f"{whole / GIB:.2f}"}


def _remarks(gpu: GpuComparison, width: int) -> Iterator[str]:
    for plan in gpu.plans:
        said = [] if plan.refusal is None else [plan.refusal]
        said += (
            [f"unused: {each.why} ({each.bytes / GIB:.2f} GiB)" for each in plan.figures.unused]
            if plan.figures
            else []
        )
        for text in said:
            yield from folded(f"{plan.engine}: {text}", width, deeper="  ")
        yield from wrap(f"$ {plan.command}", max(width, len(plan.command) + 2))
