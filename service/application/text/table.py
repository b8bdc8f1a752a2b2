"""Writes a plan as a table, for a terminal."""

from io import StringIO
from math import inf
from textwrap import wrap
from typing import Final

from rich.box import Box
from rich.console import Console
from rich.table import Table

from service.advisor.plan_types import (
    Candidate,
    GpuPlan,
    Plan,
    Verdict,
)
from service.application.schemas.architecture import ArchitectureAnswer
from service.application.text.details import candidate_lines, lever_lines, refusal_lines
from service.application.text.upgrades import upgrade_text
from service.units import gib_text

WIDTH: Final = 110
DETAILED_GPUS: Final = 3
"""More GPU types than this are compared, one line each, instead of being described."""

RULED: Final = Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)


def render_plan(plan: Plan) -> str:
    """Return a plan as ASCII text of fixed width; commands are not wrapped."""
    parts = [_heading(plan)]
    if len(plan.plans) > DETAILED_GPUS:
        parts.append(_comparison(plan))
    else:
        parts.extend(map(_description, plan.plans))
    parts.extend(upgrade_text(step, WIDTH) for step in plan.upgrades)
    return "\n".join(parts)


def _heading(plan: Plan) -> str:
    model, engine = plan.model, plan.engine
    architecture = ArchitectureAnswer.of(model.architecture)
    layers = ", ".join(f"{kind.layers} {kind.kind.replace('_', ' ')}" for kind in architecture.attention)
    patches = f" with {', '.join(engine.patches)}" if engine.patches else ""
    revision = f" at {model.revision[:12]}" if model.revision else ""
    lines = [
        f"{model.id}{revision} ({model.source}) on vLLM {engine.version}{patches}",
        f"{architecture.class_name}, {architecture.dtype}, {architecture.num_layers} layers: {layers}",
    ]
    lines.extend(wrap(plan.verdict, WIDTH))
    if engine.doubt:
        lines.extend(wrap(f"Mind: {engine.doubt}", WIDTH))
    if model.note:
        lines.extend(wrap(f"Note: {model.note}", WIDTH))
    return "".join(f"{line}\n" for line in lines)


def _comparison(plan: Plan) -> str:
    table = _table("GPU", "GiB", *COLUMNS)
    for gpu in plan.plans:
        best = gpu.recommended or max(gpu.candidates, key=_room, default=None)
        cells = _cells(best) if best else ("",) * len(COLUMNS)
        table.add_row(gpu.gpu.id, gib_text(gpu.gpu.memory_bytes), *cells)
    return _drawn(table)


def _description(plan: GpuPlan) -> str:
    gpu = plan.gpu
    capability = f", compute capability {gpu.compute_capability}" if gpu.compute_capability else ""
    table = _table(*COLUMNS)
    # Candidates that do not start stand below, with their reasons, unless there are no others.
    alive = [candidate for candidate in plan.candidates if candidate.verdict is not Verdict.REFUSED]
    for candidate in alive or plan.candidates:
        table.add_row(*_cells(candidate))
    lines = [f"== {gpu.id}: {gpu.name}, {gib_text(gpu.memory_bytes)} GiB{capability}", ""]
    lines.extend(_drawn(table).splitlines())
    if plan.recommended is not None:
        lines.extend(candidate_lines(plan.recommended, WIDTH))
        lines.extend(wrap(plan.reason, WIDTH, initial_indent="  ", subsequent_indent="    "))
    elif alive:
        lines.extend(("", *wrap(plan.reason, WIDTH)))
    lines.extend(lever_lines(plan.levers, WIDTH))
    lines.extend(refusal_lines(plan.candidates, WIDTH))
    if plan.recommended is not None:
        lines.extend(("", plan.recommended.command))
    return "".join(f"{line}\n" for line in lines)


COLUMNS: Final = ("KV cache dtype", "TP", "PP", "verdict", "tokens", "concurrency", "block", "KV GiB")


def _cells(candidate: Candidate) -> tuple[str, ...]:
    cache = candidate.kv_cache
    dtype, resolved = candidate.kv_cache_dtype, candidate.resolved_kv_cache_dtype
    return (
        dtype if resolved in {None, dtype} else f"{dtype} ({resolved})",
        str(candidate.tensor_parallel_size),
        str(candidate.pipeline_parallel_size),
        candidate.verdict.replace("_", " "),
        f"{cache.tokens:,}" if cache else "-",
        f"{cache.max_concurrency:.2f}x" if cache else "-",
        str(candidate.block_size or "-"),
        gib_text(cache.available_bytes) if cache else _available(candidate),
    )


def _room(candidate: Candidate) -> float:
    """Return bytes that are left for the cache of a candidate that does not start; the most is nearest."""
    return candidate.memory.available_kv.bytes if candidate.memory else -inf


def _available(candidate: Candidate) -> str:
    return gib_text(candidate.memory.available_kv.bytes) if candidate.memory else "-"


def _table(*columns: str) -> Table:
    table = Table(box=RULED, show_edge=False, pad_edge=False)
    for column in columns:
        text = column in {"GPU", "KV cache dtype", "verdict"}
        table.add_column(column, justify="left" if text else "right", no_wrap=True)
    return table


def _drawn(table: Table) -> str:
    console = Console(file=StringIO(), width=2 * WIDTH, color_system=None, legacy_windows=False)
    with console.capture() as captured:
        console.print(table)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())
