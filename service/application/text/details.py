"""Writes the text below a table: the recommended candidate in full, and why others do not start."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from textwrap import wrap

from service.advisor.plan_types import (
    Candidate,
    Lever,
    Refusal,
    Verdict,
)
from service.kv_cache.kv_cache import CacheGroup, KvCache
from service.kv_cache.waste import Waste
from service.memory.budget_types import Estimate, Evidence, MemoryBudget
from service.units import gib_text


def candidate_lines(best: Candidate, width: int) -> Iterator[str]:
    """Yield lines about the recommended candidate: log lines, groups, memory, warnings."""
    yield ""
    yield f"Recommended: {', '.join((best.kv_cache_dtype, f'TP {_ranks(best)}', *best.attention_backends))}"
    if best.kv_cache is not None:
        yield from (f"  log: {line}" for line in best.kv_cache.log_lines)
        yield from _cache_lines(best.kv_cache)
    if best.memory is not None:
        yield from _memory_lines(best.memory)
    if best.admission is not None:
        yield from _indented(f"admission: {best.admission.explanation}", width)
    if best.waste is not None:
        yield from _waste_lines(best.waste)
    for warning in best.warnings:
        yield from _indented(f"! {warning}", width)


def _cache_lines(cache: KvCache) -> Iterator[str]:
    yield f"  {cache.num_blocks:,} blocks of {cache.bytes_per_block:,} B"
    # Equal groups share one line.
    for group, alike in groupby(cache.groups):
        yield f"  {_group_words(group, len(list(alike)))}"


def _group_words(group: CacheGroup, times: int) -> str:
    padding = group.page_size_bytes - group.unpadded_page_size_bytes
    padded = f" ({padding:,} B of it padding)" if padding else ""
    layers = f"{group.layers} {group.kind.replace('_', ' ')} layer{'s' if group.layers > 1 else ''}"
    return (
        f"{times} group{'s' if times > 1 else ''} of {layers}: block {group.block_size}, "
        f"page {group.page_size_bytes:,} B{padded}, {group.blocks_per_request:,} blocks a request"
    )


def _memory_lines(memory: MemoryBudget) -> Iterator[str]:
    terms = (
        ("total", memory.total),
        ("requested", memory.requested),
        ("weights", memory.weights),
        ("activation", memory.activation),
        ("non-torch", memory.non_torch),
        ("CUDA graphs", memory.cuda_graphs),
        ("KV cache", memory.available_kv),
        ("graphs after", memory.captured_graphs),
    )
    yield "  memory of one rank in GiB:"
    yield from (f"    {name:<12}{_estimate_words(estimate)}" for name, estimate in terms)


def _estimate_words(estimate: Estimate) -> str:
    low, high = gib_text(estimate.low), gib_text(estimate.high)
    interval = "" if low == high else f"  ({low} to {high})"
    return f"{gib_text(estimate.bytes):>8}{interval}  {estimate.basis}{_evidence_words(estimate.evidence)}"


def _evidence_words(evidence: Evidence | None) -> str:
    if evidence is None:
        return ""
    level, age = evidence.level.replace("_", " "), f"{evidence.age_days} days old"
    logs = f" ({evidence.logs} by logs)" if evidence.logs else ""
    return f", {level}: {evidence.count} measured{logs}, the newest {age}"


def _waste_lines(waste: Waste) -> Iterator[str]:
    yield (
        f"  a request of the maximum length takes {gib_text(waste.taken_bytes)} GiB of a rank, "
        f"{gib_text(waste.ideal_bytes)} at best ({waste.percent:.1f} % wasted)"
    )


def lever_lines(levers: Sequence[Lever], width: int) -> Iterator[str]:
    """Yield one line for each single change: what it gives, and what it costs."""
    if levers:
        yield ""
        yield "Single changes, those that give most first:"
    for lever in levers:
        admitted = "" if lever.admitted_at_once is None else f", {lever.admitted_at_once:+,} requests at once"
        yield from _indented(
            f"{lever.change}: {lever.max_concurrency:+.2f}x, {lever.tokens:+,} tokens, "
            f"{gib_text(lever.available_bytes)} GiB{admitted}; {lever.cost}",
            width,
        )


def refusal_lines(candidates: Iterable[Candidate], width: int) -> Iterator[str]:
    """Yield in the engine's own words why candidates do not start, or might not, each reason once."""
    reasons: dict[tuple[Verdict, Refusal], list[Candidate]] = {}
    for candidate in candidates:
        if candidate.error is not None:
            reasons.setdefault((candidate.verdict, candidate.error), []).append(candidate)
    for (verdict, error), refused in reasons.items():
        yield ""
        doubt = "Does not" if verdict is Verdict.REFUSED else "Might not"
        yield from wrap(f"{doubt} start: {_names(refused)}", width, break_on_hyphens=False)
        yield from _indented(f"{error.type} ({error.stage}): {error.message}", width)
        yield from _indented(error.detail, width)
        for fix in error.fix:
            yield from _indented(f"fix: {fix}", width)


def _names(candidates: Iterable[Candidate]) -> str:
    """Name candidates, those of the same sizes together."""
    sizes: dict[str, list[str]] = {}
    for candidate in candidates:
        sizes.setdefault(candidate.kv_cache_dtype, []).append(_ranks(candidate))
    dtypes: dict[tuple[str, ...], list[str]] = {}
    for dtype, taken in sizes.items():
        dtypes.setdefault(tuple(taken), []).append(dtype)
    return "; ".join(f"TP {', '.join(taken)}: {', '.join(names)}" for taken, names in dtypes.items())


def _ranks(candidate: Candidate) -> str:
    stages = candidate.pipeline_parallel_size
    return f"{candidate.tensor_parallel_size}" + (f" x PP {stages}" if stages > 1 else "")


def _indented(text: str, width: int) -> Iterator[str]:
    for paragraph in text.splitlines():
        yield from wrap(
            paragraph,
            width,
            initial_indent="  ",
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
