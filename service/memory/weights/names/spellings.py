"""What the engine calls the modules of each model class, which the lists of a checkpoint are held against."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final

from packaging.version import Version

from service.bundled_toml import read_toml

LAYERS: Final = "layers."
"""Names of modules of decoder layers begin so here."""
EXPERTS: Final = ".experts"
"""How names of routed experts end here, whatever the engine calls them."""
OUTPUT: Final = "lm_head"
"""Name of the output embedding here, and in most classes."""


@dataclass(frozen=True, slots=True, eq=False)
class Spelling:
    """Names of the modules of a decoder's layers, and of its output embedding, in one release.

    A module has the name that most classes give it, ``layers.<number>.<path>``, unless it is listed here.
    """

    prefixes: tuple[str, ...] = ()
    """What the engine has before its names, then what a list may have in its place. Empty: not known."""
    layer: str = "layers.{}"
    """The path of a layer. Empty: its modules have the model's path, since all layers share them."""
    modules: tuple[tuple[str, str], ...] = ()
    """Paths below a layer, or beginnings of them, here and in the engine. One with a place for the number of
    the layer is not below the path of the layer.
    """
    parts: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Last parts of names of fused modules, and what lists call the projections they are made of."""
    plain: tuple[str, ...] = ()
    """Our paths below a layer, or beginnings of them, of modules that are never quantized."""
    own_experts: bool = False
    """Whether the class has a class of its own for its routed experts, for which groups of compressed-tensors
    that target every linear layer do not stand.
    """
    output: str = OUTPUT
    """The engine's name of the output embedding; empty if it has none, so that no list can name it."""
    output_parts: tuple[str, ...] = ()
    """What lists call it that the class renames."""

    def leaves(self, name: str) -> bool:
        """Whether the class never quantizes a module."""
        return bool(self.plain) and _leaves(self, name)


USUAL: Final = Spelling()
TRANSFORMERS: Final = ("model.", "", "model.model.")
"""Prefixes of classes that run on the transformers library.

Source: vLLM 0.33.0, models/transformers/base.py: no prefix becomes ``model.``; asked of 0.28.0 and 0.33.0.
"""


def spelled(spelling: Spelling, name: str, parts: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the engine's name of a module, without a prefix, and those of the projections it fuses."""
    if spelling is USUAL or not name.startswith(LAYERS):
        return (spelling.output, spelling.output_parts) if name == OUTPUT else (name, parts)
    number, _, path = name.removeprefix(LAYERS).partition(".")
    renamed = next(_renamed(spelling, path), path)
    if renamed.rpartition(".")[2] != path.rpartition(".")[2] and not path.endswith(EXPERTS):
        parts = ()
    parts = dict(spelling.parts).get(renamed.rpartition(".")[2], parts)
    whole = renamed if "{}" in renamed or not spelling.layer else f"{spelling.layer}.{renamed}"
    return whole.format(number), parts


@lru_cache(maxsize=1 << 12)
def _leaves(spelling: Spelling, name: str) -> bool:
    path = name.removeprefix(LAYERS).partition(".")[2] if name.startswith(LAYERS) else ""
    return any(f"{path}.".startswith(f"{each}.") for each in spelling.plain)


def _renamed(spelling: Spelling, path: str) -> Iterator[str]:
    for ours, engines in spelling.modules:
        if path == ours or path.startswith(f"{ours}."):
            yield engines + path.removeprefix(ours)


@cache
def spelling_of(class_name: str, release: Version, *, by_transformers: bool = False) -> Spelling:
    """Return how a release calls the modules of a model class, which may run on the transformers library."""
    tables = read_toml("service.memory", "weights/names/spellings.toml")
    names = _newest(tables["names"], class_name, release)
    prefixes = _newest(tables["prefixes"], class_name, release)
    output = _newest(tables["outputs"], class_name, release)
    own = (prefixes["own"], *prefixes.get("written", ())) if prefixes else ()
    return Spelling(
        prefixes=tuple(dict.fromkeys((*TRANSFORMERS, *own) if by_transformers else own)),
        layer=names.get("layer", USUAL.layer),
        modules=tuple(names.get("modules", {}).items()),
        parts=tuple((name, tuple(parts)) for name, parts in names.get("parts", {}).items()),
        plain=tuple(names.get("plain", ())),
        own_experts=names.get("own_experts", False),
        output=output.get("name", OUTPUT),
        output_parts=tuple(output.get("written", ())),
    )


def _newest(tables: list[Mapping[str, Any]], class_name: str, release: Version) -> Mapping[str, Any]:
    """Return the last of the tables for a class that hold for a release; an empty one if there is none."""
    found = (each for each in tables if class_name in each["classes"] and Version(each["since"]) <= release)
    return max(found, key=lambda each: Version(each["since"]), default={})
