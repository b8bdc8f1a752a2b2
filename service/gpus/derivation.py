"""From what was printed to the memory CUDA reports: its bytes, its interval, and a sentence about both.

The driver's total is above CUDA's by a gap that grows linearly with the size of the card and differs between
generations of silicon, so a card that never printed CUDA's total is placed on the line of those that did.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Final

from service.gpus.evidence import MemoryEvidence
from service.gpus.gpu_type import MemoryBasis, Vendor
from service.gpus.totals import MemoryTotal
from service.units import MIB, ceil_div

_NAMED: Final = 8
"""A sentence names this many cards and counts more."""
_DRIVER_TOOL: Final = {Vendor.NVIDIA: "nvidia-smi", Vendor.AMD: "rocm-smi or amd-smi"}


class NoEvidence(ValueError):
    """Nothing tells how much memory a GPU type has."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of one GPU type and how it is known."""

    total: MemoryTotal
    basis: MemoryBasis
    source: str


@dataclass(frozen=True, slots=True)
class _Peer:
    """A card whose CUDA total was printed, and the size it is measured against."""

    name: str
    size: int
    printed: MemoryTotal


def memory_of(evidence: MemoryEvidence, catalog: Sequence[MemoryEvidence]) -> Memory:
    """Return the memory of one type: printed, else from the driver's total, else from the nominal size.

    Raises:
        NoEvidence: no other card of that vendor printed CUDA's total.
    """
    memory = _printed(evidence) or _below_driver(evidence, catalog) or _of_nominal(evidence, catalog)
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
    said = "; ".join(f"{', '.join(totals)} by {label}" for label, totals in texts.items())
    return Memory(total, MemoryBasis.PRINTED, f"printed on native Linux: {said}")


def _below_driver(evidence: MemoryEvidence, catalog: Sequence[MemoryEvidence]) -> Memory | None:
    size, mib = evidence.driver_total, evidence.driver_total_mib
    if size is None:
        return None
    peers, shared = _peers(evidence, catalog, lambda other: other.driver_total)
    line = [(peer.size, peer.size - peer.printed.value) for peer in peers]
    gap = int(_on_line(line, size))
    least, most = _spread([(peer, _on_line(line, peer.size)) for peer in peers], gap)
    source = (
        f"{_DRIVER_TOOL[evidence.vendor]} prints {mib} MiB; no CUDA total is known, so the usual gap on "
        f"native Linux is taken off: {ceil_div(gap, MIB)} MiB for this size, "
        f"{least // MIB} to {ceil_div(most, MIB)} MiB on {shared} ({_names(peers)})"
    )
    return Memory(MemoryTotal(size - gap, size - most, size - least), MemoryBasis.DRIVER, source)


def _spread(fitted: Sequence[tuple[_Peer, Fraction]], gap: int) -> tuple[int, int]:
    """Return the least and the greatest gap: those of the peers, and this one where they leave their line."""
    least = [peer.size - peer.printed.high for peer, _ in fitted]
    most = [peer.size - peer.printed.low for peer, _ in fitted]
    below = min(seen - on_line for seen, (_, on_line) in zip(least, fitted, strict=True))
    above = max(seen - on_line for seen, (_, on_line) in zip(most, fitted, strict=True))
    return max(0, min(*least, floor(gap + below))), max(*most, ceil(gap + above))


def _of_nominal(evidence: MemoryEvidence, catalog: Sequence[MemoryEvidence]) -> Memory:
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
    """Return the cards of the same silicon that printed CUDA's total, or the vendor's where there is none."""
    known = [
        (other.silicon, _Peer(other.name, size, printed))
        for other in catalog
        if other.vendor == evidence.vendor
        and other.id != evidence.id
        and (printed := other.printed) is not None
        and (size := size_of(other)) is not None
    ]
    if alike := [peer for silicon, peer in known if silicon == evidence.silicon]:
        return alike, f"cards of the same silicon, {evidence.silicon}"
    if not known:
        raise NoEvidence(f"{evidence.id}: no {evidence.vendor} card has a printed CUDA total")
    return [
        peer for _, peer in known
    ], f"the vendor's cards, none of {evidence.silicon or 'its silicon'} being known"


def _on_line(points: Sequence[tuple[int, int]], at: int) -> Fraction:
    """Return the least-squares line through ``points`` at one abscissa; their mean where all share theirs."""
    count = len(points)
    mean_x = Fraction(sum(x for x, _ in points), count)
    mean_y = Fraction(sum(y for _, y in points), count)
    spread = sum(((x - mean_x) ** 2 for x, _ in points), Fraction(0))
    if not spread:
        return mean_y
    slope = sum(((x - mean_x) * (y - mean_y) for x, y in points), Fraction(0)) / spread
    return mean_y + slope * (at - mean_x)


def _names(peers: Sequence[_Peer]) -> str:
    names = dict.fromkeys(peer.name for peer in peers)
    return ", ".join(names) if len(names) <= _NAMED else f"{len(names)} names"
