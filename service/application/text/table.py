"""Writes a plan for people, as text that fits a terminal."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from service.advisor.candidates.plan_types import Candidate, GpuPlan, Plan
from service.advisor.candidates.refusal import Refusal
from service.advisor.candidates.verdict import Verdict
from service.advisor.dry_runs.steps_of_advice import length_of
from service.advisor.ranking.nearest_refused import nearest_refused
from service.advisor.words.speed_words import number
from service.application.text.command import command_lines
from service.application.text.commands import for_shell
from service.application.text.comparison import UNCHANGED, comparison_lines
from service.application.text.container import several_nodes, starts_all
from service.application.text.details import (
    cache_lines,
    candidate_lines,
    curve_lines,
    memory_lines,
    refusal_lines,
    refused_lines,
)
from service.application.text.layout import DEFAULT_TEXT, Column, TextOptions, drawn, folded
from service.application.text.lever_lines import lever_lines
from service.application.text.upgrades import upgrade_lines
from service.application.text.words import (
    dtype_words,
    indented,
    printable,
    sizes,
    start_words,
    verdict_words,
    weights_words,
)
from service.architecture.layer_kinds import mixer_kinds
from service.engine_config.cache_dtype import canonical
from service.engines.refusal import Stage
from service.launch_command.command_reading import CommandReading
from service.units import gib_text

DETAILED_GPUS: Final = 3
"""More GPU types than this are compared, one line each, instead of being described."""
CHECKPOINTS: Final = "Quantized checkpoints"
"""What the names of such checkpoints follow, here and in reasons."""
MOST_ROWS: Final = 12
"""Candidates of one GPU type that are listed, unless all are requested."""

COLUMNS: Final = (
    Column("cache dtype", left=True),
    Column("weights", left=True, spare=1, said="{} weights"),
    Column("TP"),
    Column("PP"),
    Column("DP"),
    Column("EP"),
    Column("verdict", left=True),
    Column("context"),
    Column("tokens"),
    Column("concurrency"),
    Column("tok/s", spare=4),
    Column("ms/token", spare=5),
    Column("block", spare=3),
    Column("KV GiB", spare=2),
)


def render_plan(plan: Plan, options: TextOptions = DEFAULT_TEXT) -> str:
    """Return a plan as text; commands are not wrapped."""
    several = len(plan.plans) > 1
    parts: list[Iterator[str]] = [_heading(plan, options.width)]
    if plan.refusal is not None:
        parts.append(_shared(plan, plan.refusal, options.width))
    if several and (plan.refusal is None or options.every):
        parts.append(comparison_lines(plan, options))
    if not several or (len(plan.plans) <= DETAILED_GPUS and plan.refusal is None):
        parts.extend(_description(gpu, options, plan) for gpu in plan.plans)
    parts.extend(upgrade_lines(step, options.width) for step in plan.upgrades)
    return printable("\n".join("".join(f"{line}\n" for line in part) for part in map(tuple, parts)))


def _heading(plan: Plan, width: int) -> Iterator[str]:
    model, engine = plan.model, plan.engine
    architecture = model.architecture
    kinds = mixer_kinds(architecture).most_common()
    layers = ", ".join(f"{count} {kind.replace('_', ' ')}" for (kind, _), count in kinds)
    patches = f" with {', '.join(engine.patches)}" if engine.patches else ""
    revision = f" at {model.revision[:12]}" if model.revision else ""
    name = " ".join(printable(model.id).split())
    words = f"{name}{revision} ({model.source}) on vLLM {engine.version}{patches}"
    yield from folded(words, width, deeper="  ")
    yield from folded(
        f"{architecture.named_class or architecture.class_name}, {architecture.dtype}, "
        f"{architecture.num_layers} layers: {layers}",
        width,
        deeper="  ",
    )
    yield from folded(plan.verdict, width, deeper="  ")
    if plan.command is not None:
        yield from command_lines(plan.command, width)
    if engine.doubt:
        yield from folded(f"Warning: {engine.doubt}", width, deeper="  ")
    if model.note:
        yield from folded(f"Note: {model.note}", width, deeper="  ")


def _shared(plan: Plan, refusal: Refusal, width: int) -> Iterator[str]:
    yield f"The same refusal on all {len(plan.plans)} GPU types:"
    yield from refused_lines(refusal, width)
    found = (nearest_refused(each.candidates) for each in plan.plans)
    warnings = [() if each is None else each.warnings for each in found]
    for warning in warnings[0]:
        if all(warning in each for each in warnings):
            yield from indented(f"! {warning}", width)


def _description(plan: GpuPlan, options: TextOptions, whole: Plan) -> Iterator[str]:
    gpu, width, best = plan.gpu, options.width, plan.recommended
    capability = f", compute capability {gpu.compute_capability}" if gpu.compute_capability else ""
    yield from folded(
        f"== {gpu.id}: {gpu.name}, {gib_text(gpu.memory_bytes)} GiB{capability}", width, deeper="   "
    )
    if best is not None:
        yield from _recommended(plan, best, whole.command, width)
    else:
        yield from _not_recommended(plan, width)
    if options.curve and best is not None:
        yield from curve_lines(best)
    if best is not None:
        yield from lever_lines(plan.levers, best, width)
        searched = len(plan.candidates) > 1 and not plan.levers
        if whole.checkpoints and searched and CHECKPOINTS not in plan.reason:
            words = f"{CHECKPOINTS}: {', '.join(whole.checkpoints)}. What each gives: --include levers."
            yield from indented(words, width)
    yield from _others(plan, options)


def _recommended(plan: GpuPlan, best: Candidate, command: CommandReading | None, width: int) -> Iterator[str]:
    searched = "Recommended" if len(plan.candidates) > 1 else "As given"
    yield ""
    backends = ", ".join(best.attention_backends)
    words = (start_words(best), *filter(None, (backends,)))
    yield from folded(f"{searched}, {verdict_words(best.verdict)}: {', '.join(words)}", width, deeper="  ")
    yield ""
    yield best.command if best.command.isprintable() else for_shell(best.command)
    yield ""
    if several := several_nodes(best, command):
        yield from indented(several if starts_all(best, command) else f"! {several}", width)
    for sentence in plan.sentences:
        yield from indented(sentence, width)
    yield from candidate_lines(best, width)


def _not_recommended(plan: GpuPlan, width: int) -> Iterator[str]:
    """Yield why nothing is recommended: the nearest refused candidate with its memory and its fixes."""
    near = nearest_refused(plan.candidates)
    yield ""
    if near is None or near.error is None:
        for sentence in plan.sentences:
            yield from folded(sentence, width, deeper="  ")
        return
    nearest = "Nearest to a start" if len(plan.candidates) > 1 else "Does not start"
    yield from folded(f"{nearest}: {start_words(near)}", width, deeper="  ")
    yield from refused_lines(near.error, width)
    for warning in near.warnings:
        yield from indented(f"! {warning}", width)
    if near.kv_cache is not None:
        yield from cache_lines(near.kv_cache, width)
    if near.memory is not None:
        yield from memory_lines(near.memory, caches=not near.caches_nothing)


def _others(plan: GpuPlan, options: TextOptions) -> Iterator[str]:
    """Yield the other candidates: a table of those that start, and why the rest does not."""
    if len(plan.candidates) == 1:
        if plan.candidates[0].verdict is Verdict.UNCERTAIN:
            yield from refusal_lines(plan.candidates, options.width, every=options.every)
        return
    alive = [each for each in plan.candidates if each.verdict is not Verdict.REFUSED]
    rows = plan.candidates if options.every else tuple(alive)
    merged = [[each] for each in rows] if options.every else _merged(rows)
    shown = merged if options.every else merged[:MOST_ROWS]
    if shown:
        yield ""
        yield from drawn(COLUMNS, _without_equal([_row(alike) for alike in shown]), options.width)
    if len(shown) < len(merged):
        yield f"{len(merged) - len(shown)} more start or may start{options.more}."
    absent = () if options.every else _absent(plan)
    layouts = {} if options.every else _refused_sizes(plan)
    if absent or layouts:
        yield ""
    if absent:
        count = "1 cache dtype is" if len(absent) == 1 else f"{len(absent)} cache dtypes are"
        yield from folded(f"{count} not for this model on this GPU{options.more}.", options.width)
    for words, names in _by_words(layouts).items():
        yield from folded(f"Not with {', '.join(names)}: {words}.", options.width, deeper="  ")
    near = nearest_refused(plan.candidates)
    explained = None if near is None else near.error
    rest = [
        each
        for each in plan.candidates
        if each.kv_cache_dtype not in absent
        and sizes(each) not in layouts
        and (options.every or not _equal(each.error, explained))
    ]
    yield from refusal_lines(rest, options.width, every=options.every)


def _absent(plan: GpuPlan) -> tuple[str, ...]:
    """Return the cache dtypes that nobody asked for, and that the engine does not have for this GPU.

    Every candidate was refused before its memory mattered, and at least one for another reason than the dtype
    of the model: what refuses both, such as a number of ranks, says nothing about a dtype.
    """
    errors: dict[str, list[Refusal | None]] = {}
    for each in plan.candidates:
        errors.setdefault(each.kv_cache_dtype, []).append(each.error)
    shared = {error.bare for error in errors.get("auto", []) if error is not None}
    own = {
        dtype: [error for error in found if error is None or error.bare not in shared]
        for dtype, found in errors.items()
        if dtype != "auto" and len(errors) > 1
    }
    return tuple(dtype for dtype, found in own.items() if found and all(map(_is_early, found)))


def _refused_sizes(plan: GpuPlan) -> dict[str, Refusal]:
    """Return the refusal by parallel sizes, where it is the same for every cache dtype before its memory.

    Empty where there are no other sizes.
    """
    found: dict[str, list[Refusal | None]] = {}
    for each in plan.candidates:
        found.setdefault(sizes(each), []).append(each.error)
    refused = {
        name: errors[0]
        for name, errors in found.items()
        if errors[0] is not None and _is_early(errors[0]) and all(_equal(each, errors[0]) for each in errors)
    }
    return refused if len(refused) < len(found) else {}


def _by_words(refused: Mapping[str, Refusal]) -> dict[str, list[str]]:
    """Return the sizes that are refused, by the reason in one line."""
    names: dict[str, list[str]] = {}
    for name, error in refused.items():
        words = " ".join((error.detail or error.message).split()).rstrip(".")
        names.setdefault(words, []).append(name)
    return names


def _is_early(error: Refusal | None) -> bool:
    """Whether a start is refused before its memory matters."""
    return error is not None and error.stage is not Stage.MEMORY


def _equal(one: Refusal | None, other: Refusal | None) -> bool:
    """Whether two refusals are one, whatever their fixes."""
    return one is not None and other is not None and one.bare == other.bare


def _row(alike: Sequence[Candidate]) -> dict[str, str]:
    candidate = alike[0]
    cache, memory, speed = candidate.kv_cache, candidate.memory, candidate.speed
    names = [dtype_words(candidate)] if len(alike) == 1 else [each.kv_cache_dtype for each in alike]
    return {
        "cache dtype": ", ".join(names),
        "weights": weights_words(candidate).removesuffix(" weights") or UNCHANGED,
        "TP": str(candidate.tensor_parallel_size),
        "PP": str(candidate.pipeline_parallel_size),
        "DP": str(candidate.data_parallel_size),
        "EP": "yes" if candidate.enable_expert_parallel else "",
        "verdict": verdict_words(candidate.verdict),
        "context": f"{length_of(candidate):,}" if cache or candidate.caches_nothing else "-",
        "tokens": "-" if candidate.all_tokens is None else f"{candidate.all_tokens:,}",
        "concurrency": "-" if candidate.all_requests is None else f"{candidate.all_requests:.2f}x",
        "tok/s": "" if speed is None else f"~{number(speed.output_tokens_per_second.middle)}",
        "ms/token": "" if speed is None else f"~{number(speed.tpot_ms.middle)}",
        "block": "-" if candidate.caches_nothing else str(candidate.block_size or "-"),
        "KV GiB": gib_text(memory.available_kv.bytes) if memory and not candidate.caches_nothing else "-",
    }


def _without_equal(rows: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """Return rows without pipeline and data parallel sizes, and weights, that are the usual ones in all."""
    usual = {"PP": "1", "DP": "1", "weights": UNCHANGED}
    equal = [name for name, value in usual.items() if all(row[name] == value for row in rows)]
    return [{**row, **dict.fromkeys(equal, "")} for row in rows]


def _merged(candidates: Iterable[Candidate]) -> list[list[Candidate]]:
    """Put candidates together that differ in nothing but in the name of one cache dtype."""
    alike: dict[tuple[object, ...], list[Candidate]] = {}
    for each in candidates:
        dtype = canonical(each.resolved_kv_cache_dtype or each.kv_cache_dtype)
        tokens = None if each.kv_cache is None else each.kv_cache.tokens
        sizes = (each.tensor_parallel_size, each.pipeline_parallel_size, each.flags.data_parallel_size)
        layout = (*sizes, each.enable_expert_parallel, each.block_size, each.attention_backends)
        key = (dtype, each.verdict, *layout, tokens)
        alike.setdefault(key, []).append(each)
    return list(alike.values())
