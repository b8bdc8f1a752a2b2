"""The catalog of GPU types, read from the bundled gpus.toml."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Self

from service.bundled_toml import read_toml
from service.gpus.capability import ComputeCapability
from service.gpus.derivation import Memory, memory_of
from service.gpus.evidence import MemoryEvidence, Reader
from service.gpus.gpu_type import (
    EccState,
    GpuType,
    TotalKind,
    TotalVariant,
    Vendor,
)
from service.gpus.names import GLUED, gpus_named
from service.gpus.nvlink import NvlinkDomain
from service.gpus.slices import profile_in, slices_of
from service.gpus.totals import MemoryTotal
from service.nearest_names import quoted, similarity

_NEAREST: Final = 5
_LONGEST: Final = 100
"""Characters of a text that are compared; no name is longer."""
_LEAST_SIMILARITY: Final = 0.6
"""Least similarity of an id that is suggested."""
_SHORT: Final = 4
"""Characters of a short text: one wrong character of it leaves little that is alike."""
_LEAST_SHORT_SIMILARITY: Final = 0.15
_LEAST_WORD_SIMILARITY: Final = 0.7
"""Least similarity of two similar words: ``h300`` and ``h100``, one wrong character of four, have 0.75."""

LISTS_ALL: Final = "`dryserve gpus list` and GET /v1/gpus list all"


class InvalidCatalog(ValueError):
    """The bundled GPU data contradicts itself."""


class UnknownGpu(LookupError):
    """No GPU type has this id.

    Attributes:
        id: the id that was requested.
        nearest: ids that the caller may have meant, best first.
    """

    def __init__(self, gpu_id: str, nearest: tuple[str, ...]) -> None:
        hint = f"nearest: {', '.join(nearest)}; " if nearest else ""
        super().__init__(f"unknown GPU {quoted(gpu_id)}; {hint}{LISTS_ALL}")
        self.id = gpu_id
        self.nearest = nearest


class AmbiguousGpu(LookupError):
    """Several GPU types have this name.

    Attributes:
        id: the name that was requested.
        nearest: ids of the types that have it.
    """

    def __init__(self, name: str, choices: tuple[str, ...]) -> None:
        super().__init__(f"{quoted(name)} may be {' or '.join(choices)}: name one of them")
        self.id = name
        self.nearest = choices


@dataclass(frozen=True, slots=True)
class GpuCatalog:
    """GPU types in the order of the bundled data.

    Raises:
        InvalidCatalog: two types share an id.
    """

    types: tuple[GpuType, ...]
    slices: tuple[GpuType, ...] = ()
    """MIG slices of these types, which are found by name and not listed among the types."""

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for gpu in (*self.types, *self.slices):
            if gpu.id in seen:
                raise InvalidCatalog(f"two GPU types have the id {gpu.id!r}")
            seen.add(gpu.id)

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Self:
        """Return the catalog described by the TOML tables ``reader``, ``nvlink`` and ``gpu``.

        Raises:
            InvalidCatalog: a table lacks a key or has an unknown key, or a figure is out of range.
        """
        try:
            readers = {name: Reader(**table) for name, table in raw["reader"].items()}
            domains = {name: NvlinkDomain(**table) for name, table in raw["nvlink"].items()}
            evidence = [MemoryEvidence.parse(table, readers) for table in raw["gpu"]]
            return cls(
                tuple(
                    _gpu_type(table, memory_of(own, evidence), domains)
                    for table, own in zip(raw["gpu"], evidence, strict=True)
                )
            )
        except InvalidCatalog:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidCatalog(f"bundled GPU data: {error!r}") from error

    def __iter__(self) -> Iterator[GpuType]:
        return iter(self.types)

    def __len__(self) -> int:
        return len(self.types)

    def find(self, gpu_id: str) -> GpuType:
        """Return the type with this id.

        Raises:
            UnknownGpu: there is none; for a name such as ``RTX 3090`` it lists the ids that may be meant.
        """
        for gpu in self.types:
            if gpu.id == gpu_id:
                return gpu
        raise UnknownGpu(gpu_id, self.nearest(gpu_id))

    def named(self, name: str) -> GpuType:
        """Return the type that a person means by a name: an id, a product name, the driver's name, a prefix.

        Raises:
            AmbiguousGpu: several types have this name.
            UnknownGpu: no type has it.
        """
        profile = profile_in(name)
        of_profile = (gpu for gpu in self.slices if profile_in(gpu.name) == profile)
        types = self.types if profile is None else tuple(of_profile)
        for gpu in types:
            if gpu.id == name:
                return gpu
        found = gpus_named(name, types)
        if len(found) > 1:
            raise AmbiguousGpu(name, tuple(gpu.id for gpu in found))
        if not found:
            alike = tuple(gpu.id for gpu in types)[:_NEAREST] if profile else self.nearest(name)
            raise UnknownGpu(name, alike)
        return found[0]

    def nearest(self, text: str) -> tuple[str, ...]:
        """Return up to five ids that ``text`` may mean, best first; less similar ones for a short text."""
        text = text[:_LONGEST]
        scored = [(_similarity(text, gpu), position, gpu.id) for position, gpu in enumerate(self.types)]
        best = sorted((-score, position, gpu_id) for score, position, gpu_id in scored)
        close = [entry for entry in best if -entry[0] >= _LEAST_SIMILARITY]
        if not close and len(text) <= _SHORT:
            close = [entry for entry in best if -entry[0] >= _LEAST_SHORT_SIMILARITY]
        return tuple(gpu_id for *_, gpu_id in close[:_NEAREST])


@cache
def gpu_catalog() -> GpuCatalog:
    """Return the bundled catalog. It is read once and cached.

    Raises:
        InvalidCatalog: the bundled data contradicts itself.
    """
    types = GpuCatalog.parse(read_toml("service.gpus", "gpus.toml")).types
    try:
        slices = slices_of(types, read_toml("service.gpus", "slices.toml"))
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidCatalog(f"bundled data of slices: {error!r}") from error
    return GpuCatalog(types, slices)


def find_gpu(gpu_id: str) -> GpuType:
    """Return the bundled type with this id.

    Raises:
        UnknownGpu: there is none.
    """
    return gpu_catalog().find(gpu_id)


def _similarity(text: str, gpu: GpuType) -> float:
    """Return how similar ``text`` is to a GPU type, from 0 to 2.

    It is the similarity of the spelling to the id, plus the mean similarity of the words to the type's words.
    """
    words, spelt = _words(text), "-".join(_words(text))
    spelling = similarity(spelt, gpu.id)
    known = {*_words(gpu.id), *_words(gpu.name), *_words(gpu.form_factor or "")}
    similar = sum(max(_word_similarity(word, other) for other in known) for word in words)
    return spelling + (similar / len(words) if words else 0)


def _word_similarity(word: str, known: str) -> float:
    """Return 1 if the known word starts with this word, their similarity if it is high enough, else 0."""
    if known.startswith(word):
        return 1.0
    ratio = similarity(word, known)
    return ratio if ratio >= _LEAST_WORD_SIMILARITY else 0.0


def _words(text: str) -> list[str]:
    """Return the words of a name; a brand that is glued to a number (``rtx4090``) is a word of its own."""
    words = re.findall(r"[a-z]+[0-9]+[a-z]*|[0-9]+[a-z]*|[a-z]+", text.lower())
    return [part for word in words for part in GLUED.sub(r"\g<0> ", word).split()]


_COPIED: Final = frozenset(
    {"id", "name", "architecture", "unmodelled", "marketing_gb", "driver_total_mib"}
    | {"bandwidth_gb_s", "sm_count", "unified_memory", "form_factor"}
)
_EVIDENCE: Final = frozenset({"vendor", "marketing_low_gb", "readings", "unnamed"})
_PARSED: Final = frozenset({"compute_capability", "variants", "ecc", "cautions", "nvlink"})


def _gpu_type(raw: Mapping[str, Any], memory: Memory, domains: Mapping[str, NvlinkDomain]) -> GpuType:
    if unknown := raw.keys() - _COPIED - _EVIDENCE - _PARSED:
        raise InvalidCatalog(f"{raw['id']}: unknown keys {sorted(unknown)}")
    capability = raw.get("compute_capability")
    if capability is None and "unmodelled" not in raw:
        raise InvalidCatalog(f"{raw['id']}: modelled without a compute capability")
    return GpuType(
        vendor=Vendor(raw["vendor"]),
        memory_bytes=memory.total.value,
        memory_low_bytes=memory.total.low,
        memory_high_bytes=memory.total.high,
        memory_basis=memory.basis,
        source=memory.source,
        compute_capability=None if capability is None else ComputeCapability.parse(capability),
        variants=tuple(_variant(variant) for variant in raw.get("variants", ())),
        ecc=EccState(raw["ecc"]),
        nvlink_domain=domains[raw["nvlink"]] if "nvlink" in raw else None,
        cautions=tuple(raw.get("cautions", ())),
        **{key: raw[key] for key in _COPIED & raw.keys()},
    )


def _variant(raw: Mapping[str, Any]) -> TotalVariant:
    MemoryTotal.printed(raw["total"])
    return TotalVariant(raw["total"], TotalKind(raw["of"]), raw["when"])
