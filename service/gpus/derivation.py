"""Derives the memory that CUDA reports on a GPU type: its bytes, its interval, and a sentence on the source.

The driver's total is larger than CUDA's. The gap grows linearly with the size of the card and differs between
generations of silicon. For a card without a printed CUDA total, the gap is taken from a line fitted through
the cards that have one.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Final

from service.gpus.evidence import MemoryEvidence
from service.gpus.gpu_type import MemoryBasis, Vendor
from service.gpus.totals import MemoryTotal
from service.units import MIB, ceil_div

_NAMED: Final = 8
"""A sentence names up to this many cards; if there are more, it gives their number."""
_DRIVER_TOOL: Final = {Vendor.NVIDIA: "nvidia-smi", Vendor.AMD: "rocm-smi or amd-smi"}


class NoEvidence(ValueError):
    """There is no evidence from which a GPU type's memory can be derived."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of one GPU type, the kind of its evidence, and its source in a sentence."""

    total: MemoryTotal
    basis: MemoryBasis
    source: str


@dataclass(frozen=True, slots=True)
class _Peer:
    """A card with a printed CUDA total, and the size in bytes that the total is compared with."""

    name: str
    size: int
    printed: MemoryTotal


def memory_of(evidence: MemoryEvidence, catalog: Sequence[MemoryEvidence]) -> Memory:
    """Return the memory of one type: as printed, else from the driver's total, else from the nominal size.

    Raises:
        NoEvidence: no other card of that vendor has a printed CUDA total.
    """
    memory = _printed(evidence) or _from_driver(evidence, catalog) or _from_nominal(evidence, catalog)
    if not evidence.unnamed:
        return memory
    total = memory.total.spanning(evidence.unnamed_totals)
    if evidence.driver_total is not None:
        total = total.below(evidence.driver_total)
    unnamed = f"; printouts that do not name the card ({', '.join(evidence.unnamed)}) widen the interval"
    return Memory(total, memory.basis, memory.source + unnamed)


def _printed(evidence: MemoryEvidence) -> Memory | None:
    if (total := evidence.printed) is None:
        return None
    texts: dict[str, list[str]] = {}
    for reading in evidence.readings:
        texts.setdefault(reading.reader.label, []).append(reading.text)
    printouts = "; ".join(f"{', '.join(totals)} by {label}" for label, totals in texts.items())
    return Memory(total, MemoryBasis.PRINTED, f"printed on native Linux: {printouts}")


def _from_driver(evidence: MemoryEvidence, catalog: Sequence[MemoryEvidence]) -> Memory | None:
    size, mib = evidence.driver_total, evidence.driver_total_mib
    if size is None:
        return None
    peers, shared = _peers(evidence, catalog, lambda other: other.driver_total)
    line = [(peer.size, peer.size - peer.printed.value) for peer in peers]
    gap = int(_on_line(line, size))
    least, most = _gap_interval([(peer, _on_line(line, peer.size)) for peer in peers], gap)
    source = (
        f"{_DRIVER_TOOL[evidence.vendor]} prints {mib} MiB; no CUDA total is known, so the usual gap on "
        f"native Linux is subtracted: {ceil_div(gap, MIB)} MiB for this size, "
        f"{least // MIB} to {ceil_div(most, MIB)} MiB on {shared} ({_names(peers)})"
    )
    return Memory(MemoryTotal(size - gap, size - most, size - least), MemoryBasis.DRIVER, source)


def _gap_interval(fitted: Sequence[tuple[_Peer, Fraction]], gap: int) -> tuple[int, int]:
    """Return the least and the greatest gap in bytes.

    They cover the gaps of the peers, and `gap` plus or minus the peers' deviations from the fitted line.
    """
    least = [peer.size - peer.printed.high for peer, _ in fitted]
    most = [peer.size - peer.printed.low for peer, _ in fitted]
    below = min(seen - on_line for seen, (_, on_line) in zip(least, fitted, strict=True))
    above = max(seen - on_line for seen, (_, on_line) in zip(most, fitted, strict=True))
    return max(0, min(*least, floor(gap + below))), max(*most, ceil(gap + above))


def _from_nominal(evidence: MemoryEvidence, catalog: Sequence[MemoryEvidence]) -> Memory:
    peers, shared = _peers(evidence, catalog, lambda other: None if other.unified else other.nominal)
    nearest = min(peers, key=lambda peer: (abs(peer.size - evidence.nominal), peer.name))
    low = min(Fraction(peer.printed.low, peer.size) for peer in peers)
    high = max(Fraction(peer.printed.high, peer.size) for peer in peers)
    smallest = Fraction(evidence.marketing_low_gb, evidence.marketing_gb) * evidence.nominal
    total = MemoryTotal(
        int(Fraction(nearest.printed.value, nearest.size) * evidence.nominal),
        int(low * smallest),
        int(high * evidence.nominal),
    )
    source = (
        f"only the nominal {evidence.marketing_gb} GB is known; CUDA's share of it is taken from "
        f"{nearest.name}, its interval from {shared} ({_names(peers)})"
    )
    return Memory(total, MemoryBasis.MARKETING, source)


def _peers(
    evidence: MemoryEvidence,
    catalog: Sequence[MemoryEvidence],
    size_of: Callable[[MemoryEvidence], int | None],
) -> tuple[list[_Peer], str]:
    """Return the cards with a printed CUDA total, and a phrase that names them.

    They are those of the same silicon; if there are none, all cards of the vendor.
    """
    others = [other for other in catalog if other.vendor == evidence.vendor and other.id != evidence.id]
    if same := _printed_peers((each for each in others if each.silicon == evidence.silicon), size_of):
        return same, f"cards of the same silicon, {evidence.silicon}"
    if not (known := _printed_peers(others, size_of)):
        raise NoEvidence(f"{evidence.id}: no {evidence.vendor} card has a printed CUDA total")
    return known, f"the vendor's other cards, since no card of {evidence.silicon or 'its silicon'} is known"


def _printed_peers(
    cards: Iterable[MemoryEvidence], size_of: Callable[[MemoryEvidence], int | None]
) -> list[_Peer]:
    return [
        _Peer(each.name, size, printed)
        for each in cards
        if (printed := each.printed) is not None and (size := size_of(each)) is not None
    ]


def _on_line(points: Sequence[tuple[int, int]], at: int) -> Fraction:
    """Return the value of the least-squares line at ``at``; the points' mean if all their x are equal."""
    # With all sums multiplied by the number of points, everything but the last division is a whole number.
    count = len(points)
    sum_x, sum_y = sum(x for x, _ in points), sum(y for _, y in points)
    spread = count * sum(x * x for x, _ in points) - sum_x**2
    if not spread:
        return Fraction(sum_y, count)
    rise = count * sum(x * y for x, y in points) - sum_x * sum_y
    return Fraction(sum_y * spread + rise * (at * count - sum_x), count * spread)


def _names(peers: Sequence[_Peer]) -> str:
    names = dict.fromkeys(peer.name for peer in peers)
    return ", ".join(names) if len(names) <= _NAMED else f"{len(names)} names"
