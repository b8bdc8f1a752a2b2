"""Slices of GPUs (MIG instances) as GPU types of their own, derived from ``slices.toml``."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any, Final, Self

from service.gpus.gpu_type import GpuType, MemoryBasis
from service.gpus.nvlink import NOT_OF_SLICES
from service.gpus.totals import MemoryTotal

EIGHTHS: Final = 8
"""Slices of memory that a GPU is divided into."""
_PROFILE: Final = re.compile(r"\b([1-7]g\.[0-9]{1,3}gb)\b", re.IGNORECASE | re.ASCII)
ALONE: Final = "A process sees one slice only, so the engine has one rank for each slice."


def profile_in(name: str) -> str | None:
    """Return the profile that a name of a slice contains, such as ``3g.40gb``; None for other names."""
    match = _PROFILE.search(name)
    return None if match is None else match[1].lower()


@dataclass(frozen=True, slots=True)
class Profile:
    """One profile of a GPU type."""

    of: str
    """Id of the type."""
    name: str
    eighths: int
    totals: tuple[str, ...]
    sms: int | None
    source: str

    @classmethod
    def all(cls, raw: Mapping[str, Any]) -> Iterable[Self]:
        """Return every profile of every type in the data."""
        for table in raw["slices"]:
            for gpu_id in table["of"]:
                for each in table["profiles"]:
                    totals = tuple(each.get("totals", ()))
                    yield cls(gpu_id, each["name"], each["eighths"], totals, each.get("sms"), table["source"])

    def printed(self) -> MemoryTotal | None:
        """Return the total that was printed first, with an interval that covers all printouts."""
        return _total_of(self.totals)


@cache
def _total_of(totals: tuple[str, ...]) -> MemoryTotal | None:
    """Return the total of one profile. Each profile is compared with all others, so the answer is kept."""
    if not totals:
        return None
    first, *others = map(MemoryTotal.printed, totals)
    return first.spanning(others)


def slices_of(types: Iterable[GpuType], raw: Mapping[str, Any]) -> tuple[GpuType, ...]:
    """Return the slices of GPU types.

    Raises:
        KeyError: the data names a type that is not given, or lacks a key.
        ValueError: a figure is out of range.
    """
    known = {gpu.id: gpu for gpu in types}
    profiles = tuple(Profile.all(raw))
    shares = {
        eighths: _shares((each for each in profiles if each.eighths == eighths), known)
        for eighths in {profile.eighths for profile in profiles}
    }
    return tuple(_slice(profile, known[profile.of], shares[profile.eighths]) for profile in profiles)


def _shares(profiles: Iterable[Profile], known: Mapping[str, GpuType]) -> list[Fraction]:
    """Return the shares of their part of the memory that printed slices have, sorted."""
    found = (
        Fraction(total.value * EIGHTHS, known[each.of].memory_bytes * each.eighths)
        for each in profiles
        if (total := each.printed()) is not None
    )
    return sorted(found)


def _slice(profile: Profile, gpu: GpuType, shares: list[Fraction]) -> GpuType:
    part = Fraction(profile.eighths, EIGHTHS)
    total, source = profile.printed(), f"the driver's size of the profile: {profile.source}"
    basis = MemoryBasis.DRIVER
    if total is None:
        basis, whole = MemoryBasis.MARKETING, gpu.memory_bytes * part
        low, middle, high = (
            int(whole * share) for share in (shares[0], shares[len(shares) // 2], shares[-1])
        )
        total = MemoryTotal(middle, low, high)
        source = "no printout is known: the share that slices of as many eighths have of other GPUs"
    bandwidth = None if gpu.bandwidth_gb_s is None else gpu.bandwidth_gb_s * float(part)
    return replace(
        gpu,
        id=f"{gpu.id}-mig-{profile.name}",
        name=f"{gpu.name} MIG {profile.name}",
        memory_bytes=total.value,
        memory_low_bytes=total.low,
        memory_high_bytes=total.high,
        memory_basis=basis,
        source=source,
        marketing_gb=None,
        driver_total_mib=None,
        variants=(),
        bandwidth_gb_s=bandwidth,
        sm_count=profile.sms,
        nvlink_domain=NOT_OF_SLICES,
        is_slice=True,
        cautions=(ALONE,),
    )
