"""Finds the GPU type that a person means by a name: an id, a product name, or what `nvidia-smi` prints."""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Final

from service.bundled_toml import read_toml
from service.gpus.gpu_type import GpuType

LONGEST_NAME: Final = 100
"""Characters of a name that are read; no name is longer."""
BRANDS: Final = frozenset(
    {"nvidia", "geforce", "tesla", "quadro", "rtx", "gtx", "amd", "instinct", "radeon", "rx", "gpu"}
)
"""Words that makers put before the name of many cards, so that they do not tell cards apart."""
EDITIONS: Final = frozenset({"generation", "edition", "graphics"})
"""Words of a printed name that people leave out."""
TELLING: Final = frozenset({"pro", "ada", "ti", "d", "super", "mobile", "laptop"})
"""Words that make another product of a name: a name without them does not mean a type that has them.

The catalog does not hold every product: an RTX 4500 is not the RTX PRO 4500.
"""
MODDED: Final = "modded"
"""Last word of the ids of cards that somebody else than the maker gave more memory."""

_WORD: Final = re.compile(r"[a-z]+[0-9]+[a-z]*|[0-9]+[a-z]*|[a-z]+")
GLUED: Final = re.compile(r"^(?:rtx|gtx|rx)(?=[0-9])")
"""A brand that is written in one word with the number, as in ``rtx4090``."""


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a name in lower case; letters before a number belong to it (``sxm4``)."""
    return tuple(_WORD.findall(text[:LONGEST_NAME].lower()))


def gpus_named(text: str, types: Iterable[GpuType]) -> tuple[GpuType, ...]:
    """Return the types that a name means. Case, spaces, hyphens, underscores and brands do not matter.

    The first of these that matches counts: the id; the whole name as the driver prints it; a common short
    name (``common_names.toml``); the driver's name without the brand; all words of the name among the words
    of a type; the beginning of ids. The beginning of an id ends with a word or within letters: ``a3`` does
    not mean an A30, and ``rtx-2080`` no RTX 2080 Ti.

    Several types are returned if the name is ambiguous, none if nothing matches. A card as its maker sold it
    is preferred to a modified one.
    """
    words = words_of(text) if len(text) <= LONGEST_NAME else ()
    if not words:
        return ()
    core, spelt = _core(words), "".join(words)
    joined, meant = "".join(core), common_names().get(_key(words))
    matches: tuple[Callable[[GpuType], bool], ...] = (
        lambda gpu: "".join(words_of(gpu.id)) == spelt,
        lambda gpu: "".join(words_of(gpu.name)) == spelt,
        lambda gpu: gpu.id == meant,
        lambda gpu: bool(core) and joined == "".join(_core(words_of(gpu.name))),
        lambda gpu: bool(core) and _fits(core, gpu),
        lambda gpu: _begins("-".join(words), "-".join(words_of(gpu.id))),
    )
    types = tuple(types)
    found = (tuple(filter(match, types)) for match in matches)
    return _as_sold(next(filter(None, found), ()))


@cache
def common_names() -> Mapping[str, str]:
    """Return the ids of types by their short names, which are spelt as one word in lower case."""
    raw = read_toml("service.gpus", "common_names.toml")
    return {_key(words_of(each["name"])): each["id"] for each in raw["name"]}


def _key(words: Iterable[str]) -> str:
    return "".join(word for word in words if word not in {"nvidia", "amd"})


def _core(words: Iterable[str]) -> tuple[str, ...]:
    unbranded = (GLUED.sub("", word) for word in words)
    return tuple(word for word in unbranded if word not in BRANDS | EDITIONS)


def _fits(core: tuple[str, ...], gpu: GpuType) -> bool:
    """Whether every word is one of the type's id, name or form factor, and no telling word is missing."""
    own = {*words_of(gpu.id), *words_of(gpu.name)}
    known = own.union(words_of(gpu.form_factor or ""))
    return known.issuperset(core) and TELLING.intersection(own) <= set(core)


def _begins(beginning: str, gpu_id: str) -> bool:
    rest = gpu_id.removeprefix(beginning)
    if rest == gpu_id or TELLING.intersection(words_of(rest)):
        return False
    return rest.startswith(("-", "gb")) or (beginning[-1].isalpha() and rest[:1].isalpha())


def _as_sold(types: tuple[GpuType, ...]) -> tuple[GpuType, ...]:
    """Return the types without modified cards, unless there are only those."""
    return tuple(gpu for gpu in types if words_of(gpu.id)[-1] != MODDED) or types
