"""MemoryEvidence: the printed memory figures of one GPU type."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

from service.gpus.gpu_type import Vendor
from service.gpus.totals import MemoryTotal
from service.units import GIB, MIB


@dataclass(frozen=True, slots=True)
class Reader:
    """A tool that prints CUDA's total."""

    label: str
    quantity: str
    """The figure of the CUDA runtime that it prints."""
    slack_mib: int = 0
    """Largest difference, in MiB, seen between that figure and cudaMemGetInfo's total."""


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """A CUDA total printed on native Linux for a card of this name."""

    text: str
    reader: Reader

    @property
    def total(self) -> MemoryTotal:
        """The total in bytes, with its interval."""
        return MemoryTotal.printed(self.text).widened(self.reader.slack_mib * MIB)


@dataclass(frozen=True, slots=True)
class MemoryEvidence:
    """Everything observed of one GPU type's memory.

    Raises:
        ValueError: a size is not positive, or a printed total lies above the driver's.
    """

    id: str
    name: str
    vendor: Vendor
    silicon: str | None
    """Compute capability, or LLVM's target name: on cards that share it the driver reserves alike."""
    unified: bool
    """The memory is shared with the host."""
    marketing_gb: int
    marketing_low_gb: int
    """The smaller size if the vendor states two, else equal to ``marketing_gb``."""
    driver_total_mib: int | None
    readings: tuple[MemoryReading, ...]
    unnamed: tuple[str, ...]

    def __post_init__(self) -> None:
        if not 0 < self.marketing_low_gb <= self.marketing_gb:
            raise ValueError(f"{self.id}: marketing sizes {self.marketing_low_gb} to {self.marketing_gb} GB")
        if self.driver_total_mib is not None and self.driver_total_mib <= 0:
            raise ValueError(f"{self.id}: the driver's total is {self.driver_total_mib} MiB")
        for total in (reading.total for reading in self.readings):
            if self.driver_total is not None and total.value > self.driver_total:
                raise ValueError(f"{self.id}: CUDA's total {total.value} is above the driver's")

    @classmethod
    def parse(cls, raw: Mapping[str, Any], readers: Mapping[str, Reader]) -> Self:
        """Return the evidence in one ``[[gpu]]`` table of the bundled data."""
        return cls(
            id=raw["id"],
            name=raw["name"],
            vendor=Vendor(raw["vendor"]),
            silicon=raw.get("compute_capability", raw.get("architecture")),
            unified=raw.get("unified_memory", False),
            marketing_gb=raw["marketing_gb"],
            marketing_low_gb=raw.get("marketing_low_gb", raw["marketing_gb"]),
            driver_total_mib=raw.get("driver_total_mib"),
            readings=tuple(
                MemoryReading(read["total"], readers[read["by"]]) for read in raw.get("readings", ())
            ),
            unnamed=tuple(raw.get("unnamed", ())),
        )

    @property
    def driver_total(self) -> int | None:
        """The driver's total in bytes."""
        return None if self.driver_total_mib is None else self.driver_total_mib * MIB

    @property
    def nominal(self) -> int:
        """The size as sold, in bytes; the vendor's GB is read as GiB."""
        return self.marketing_gb * GIB

    @property
    def printed(self) -> MemoryTotal | None:
        """The first reading, with an interval that covers all readings and ends at the driver's total."""
        return total_of(self.readings, self.driver_total)

    @property
    def unnamed_totals(self) -> tuple[MemoryTotal, ...]:
        """The totals of printouts that fit this card but do not name it."""
        return tuple(MemoryTotal.printed(text) for text in self.unnamed)


@cache
def total_of(readings: tuple[MemoryReading, ...], driver_total: int | None) -> MemoryTotal | None:
    """Return the total that readings of one card mean together; see `MemoryEvidence.printed`.

    Each card is compared with all others, so the answer is kept.
    """
    if not readings:
        return None
    first, *others = (reading.total for reading in readings)
    total = first.spanning(others)
    return total if driver_total is None else total.below(driver_total)
