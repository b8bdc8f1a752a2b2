"""Writes one candidate in full, and why others do not start."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.refusal import Refusal
from service.advisor.candidates.verdict import Verdict
from service.advisor.dry_runs.concurrency_curve import concurrency_curve
from service.advisor.dry_runs.steps_of_advice import whole_length_of
from service.application.text.in_short import in_short
from service.application.text.layout import folded
from service.application.text.words import change_words, indented, range_words, sizes, weights_words
from service.engines.refusal import Stage
from service.kv_cache.kv_cache import CacheGroup, KvCache
from service.kv_cache.waste import Waste
from service.memory.budget_types import Estimate, Evidence, MemoryBudget
from service.units import GIB, gib_amount, gib_text

SHORTEST_IN_TEXT: Final = 1024
"""Tokens of the shortest requests that a text names; each further length is twice the one before."""
NUMBERS: Final = re.compile(r"[\d.,]+", re.ASCII)
IN_RESERVE: Final = "(they take what is reserved: no further term)"
LEAST_NAMED: Final = GIB // 200
"""Least bytes of a part that is named: fewer are none in two digits."""
LONGEST_IN_TEXT: Final = 1 << 14
"""How many times the shortest the longest is."""


def candidate_lines(best: Candidate, width: int) -> Iterator[str]:
    """Yield lines about the recommended candidate: warnings, log lines, groups, memory."""
    if best.admission is not None:
        yield from indented(f"Workload: {best.admission.explanation}", width)
    for warning in best.warnings:
        yield from indented(f"! {warning}", width)
    if best.kv_cache is not None:
        for line in best.kv_cache.log_lines:
            yield from indented(f"log: {line}", width)
        yield from cache_lines(best.kv_cache, width)
    if best.waste is not None:
        yield from _waste_lines(best.waste, width)
    if best.memory is not None:
        yield from memory_lines(best.memory, caches=not best.caches_nothing)


def cache_lines(cache: KvCache, width: int) -> Iterator[str]:
    """Yield the blocks of a cache and its groups, sizes in bytes."""
    yield f"  {cache.num_blocks:,} blocks of {cache.bytes_per_block:,} B"
    # Equal groups share one line.
    for group, alike in groupby(cache.groups):
        yield from indented(_group_words(group, len(list(alike))), width)


def _group_words(group: CacheGroup, times: int) -> str:
    padding = group.page_size_bytes - group.unpadded_page_size_bytes
    padded = f" ({padding:,} B of it padding)" if padding else ""
    layers = f"{group.layers} {group.kind.replace('_', ' ')} layer{'s' if group.layers > 1 else ''}"
    return (
        f"{times} group{'s' if times > 1 else ''} of {layers}: block {group.block_size}, "
        f"page {group.page_size_bytes:,} B{padded}, {group.blocks_per_request:,} blocks a request"
    )


def memory_lines(memory: MemoryBudget, *, caches: bool = True) -> Iterator[str]:
    """Yield the memory of one rank, term by term, in GiB; without those of a cache where there is none."""
    adapters = (("  of which LoRA adapters", memory.adapters),) if memory.adapters.high else ()
    encoder = (
        ("total", memory.total),
        ("weights", memory.weights),
        *adapters,
        ("activation of one batch", memory.activation),
        ("non-torch", memory.non_torch),
        ("CUDA graphs", memory.captured_graphs),
    )
    terms = (
        ("total", memory.total),
        ("budget (total x utilization)", memory.requested),
        ("weights", memory.weights),
        *adapters,
        ("activation", memory.activation),
        ("non-torch", memory.non_torch),
        ("CUDA graphs, reserved", memory.cuda_graphs),
        ("KV cache", memory.available_kv),
        ("CUDA graphs, once captured", memory.captured_graphs),
    )
    yield "  memory of one rank in GiB:"
    shown = terms if caches else encoder
    yield from (f"    {name:<28}{_estimate_words(estimate)}" for name, estimate in shown)
    if caches and memory.cuda_graphs.bytes and memory.captured_graphs.bytes:
        yield f"    {IN_RESERVE}"


def _estimate_words(estimate: Estimate) -> str:
    low, high = gib_amount(estimate.low), gib_amount(estimate.high)
    interval = "" if low == high else f"  ({low} to {high})"
    shortage = f", {gib_text(-estimate.bytes)} too little" if estimate.bytes < 0 else ""
    basis = f"{estimate.basis}{_evidence_words(estimate.evidence)}"
    return f"{gib_amount(estimate.bytes):>8}{shortage}{interval}  {basis}"


def _evidence_words(evidence: Evidence | None) -> str:
    if evidence is None:
        return ""
    level, age = evidence.level.replace("_", " "), f"{evidence.age_days} days old"
    logs = f" ({evidence.logs} by logs)" if evidence.logs else ""
    return f", {level}: {evidence.count} measured{logs}, the newest {age}"


def _waste_lines(waste: Waste, width: int) -> Iterator[str]:
    parts = {
        "its tokens and states": waste.ideal_bytes,
        "tokens outside the window, earlier states": sum(each.reserve_bytes for each in waste.groups),
        "partly filled blocks": sum(each.rounding_bytes for each in waste.groups),
        "padding of pages": sum(each.padding_bytes for each in waste.groups),
        "room for more layers than a group has": sum(each.idle_bytes for each in waste.groups),
    }
    named = [f"{gib_text(size)} {name}" for name, size in parts.items() if size >= LEAST_NAMED]
    of_which = f": {', '.join(named)}" if len(named) > 1 else ""
    taken = gib_text(waste.taken_bytes)
    yield from indented(f"a request of the maximum length takes {taken} GiB of a rank{of_which}", width)


def curve_lines(best: Candidate) -> Iterator[str]:
    """Yield how many requests of which length run at once and finish, in one paragraph."""
    lengths = [SHORTEST_IN_TEXT << each for each in range(LONGEST_IN_TEXT.bit_length())]
    points = concurrency_curve(best, lengths)
    shown = [each for each in points if each.tokens in lengths or each is points[-1]]
    if shown:
        yield ""
        yield "Requests of one length that run at once and finish without preemption:"
    for point in shown:
        interval = "" if point.low == point.high else f"  ({point.low:,} to {point.high:,})"
        yield f"  {point.tokens:>9,} tokens {point.requests:>7,}{interval}"


def refusal_lines(candidates: Iterable[Candidate], width: int, *, every: bool = False) -> Iterator[str]:
    """Yield in the engine's own words why candidates do not start, or might not, each reason once.

    Words that differ from earlier ones in their numbers alone are left out, unless ``every`` is set: of such
    candidates stand the figure that decides, and what gets past the refusal.
    """
    reasons: dict[tuple[str, ...], list[Candidate]] = {}
    for candidate in candidates:
        if candidate.error is not None:
            key = (candidate.verdict, *refused_lines(candidate.error, width))
            reasons.setdefault(key, []).append(candidate)
    kinds: dict[str, list[list[Candidate]]] = {}
    for (verdict, *words), refused in reasons.items():
        kind = _kind(refused[0].error)
        if not every and kind in kinds:
            kinds[kind].append(refused)
            continue
        kinds.setdefault(kind, [])
        yield ""
        yield from folded(
            f"{_doubted(verdict)} start{_context_of(refused)}: {_names(refused)}", width, deeper="  "
        )
        yield from words
    others = [each for alike in kinds.values() for each in alike]
    if others:
        yield ""
    for alike in _alike(others):
        yield from _in_short_lines(alike, width)


def _doubted(verdict: str) -> str:
    return "Does not" if verdict == Verdict.REFUSED else "Might not"


def _context_of(refused: Iterable[Candidate]) -> str:
    """Return with which context starts lack memory for a cache, where it is one that nobody gave."""
    lengths = {whole_length_of(each) if _lacks_cache(each) else 0 for each in refused}
    length = lengths.pop() if len(lengths) == 1 else 0
    return f" with a context of {length:,} tokens" if length else ""


def _lacks_cache(candidate: Candidate) -> bool:
    """Whether the engine loads the weights, then finds too little memory for the model's whole context."""
    error, memory = candidate.error, candidate.memory
    if candidate.flags.max_model_len is not None or error is None or memory is None:
        return False
    return error.stage is Stage.MEMORY and memory.weights.low <= memory.total.high


def _kind(error: Refusal | None) -> str:
    """Return what refusals have in common that differ in their numbers alone."""
    return "" if error is None else NUMBERS.sub("", error.message)


def _short(candidate: Candidate) -> str:
    """Return the figure that decides; words of the engine that stand above are not repeated."""
    error = candidate.error
    return in_short(candidate) if error is None or error.stage is Stage.MEMORY else ""


def _alike(refused: Iterable[list[Candidate]]) -> list[list[list[Candidate]]]:
    """Put groups of refused candidates together of which the same is said, figures of fixes aside."""
    found: dict[tuple[object, ...], list[list[Candidate]]] = {}
    for each in refused:
        error = each[0].error
        fixes = () if error is None else tuple((fix.change, fix.verdict) for fix in error.fixes)
        notes = () if error is None else error.notes
        key = (each[0].verdict, _kind(error), _short(each[0]), fixes, notes)
        found.setdefault(key, []).append(each)
    return list(found.values())


def _in_short_lines(alike: Sequence[Sequence[Candidate]], width: int) -> Iterator[str]:
    """Yield refused candidates whose words stand above: their names, what is short, and what helps."""
    first = alike[0][0]
    names, short = _names(each for refused in alike for each in refused), _short(first)
    words = f"{_doubted(first.verdict)} start, for the same reason: {names}{f': {short}' if short else ''}"
    yield from folded(words, width, deeper="  ")
    errors = [each[0].error for each in alike]
    for fixes in zip(*(error.fixes for error in errors if error is not None), strict=True):
        yield from indented(f"Fix: {range_words(fixes)}", width)
    for note in () if first.error is None else first.error.notes:
        yield from indented(note, width)


def refused_lines(error: Refusal, width: int) -> Iterator[str]:
    """Yield one refusal: the engine's words, the numbers behind them, and what gets past it."""
    yield from indented(f"{error.type} ({error.stage}): {error.message}", width)
    yield from indented(error.detail, width)
    yield from refusal_remedies(error, width)


def refusal_remedies(error: Refusal, width: int) -> Iterator[str]:
    """Yield what gets past a refusal."""
    for fix in error.fixes:
        yield from indented(f"Fix: {change_words(fix)}", width)
    for note in error.notes:
        yield from indented(note, width)


def _names(candidates: Iterable[Candidate]) -> str:
    """Name candidates, those of the same sizes together."""
    taken: dict[str, list[str]] = {}
    for candidate in candidates:
        weights = weights_words(candidate)
        words = f"{sizes(candidate)} with {weights}" if weights else sizes(candidate)
        # Candidates that differ in their context alone are named once.
        names = taken.setdefault(candidate.kv_cache_dtype, [])
        names.extend([] if words in names else [words])
    dtypes: dict[tuple[str, ...], list[str]] = {}
    for dtype, each in taken.items():
        dtypes.setdefault(tuple(each), []).append(dtype)
    return "; ".join(f"{', '.join(each)}: {', '.join(names)}" for each, names in dtypes.items())
