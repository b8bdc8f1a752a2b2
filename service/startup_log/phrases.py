"""The engine's sentences, parsed once from the bundled data."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

from packaging.version import Version

from service.startup_log.templates import Template


@dataclass(frozen=True, slots=True)
class Milestone:
    """A point that a start reaches."""

    name: str
    says: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FailureCause:
    """One way in which a start ends."""

    name: str
    stage: str
    """As in a plan's refusal; empty for what no plan is about."""
    type: str
    """Class of the exception, where the log does not name it."""
    means: str
    remedy: str
    source: str
    templates: tuple[Template, ...]


def _load(name: str) -> Mapping[str, Any]:
    return tomllib.loads(files("service.startup_log").joinpath(name).read_text("utf-8"))


def _cause(table: Mapping[str, Any]) -> FailureCause:
    specified = {key: table[key] for key in ("name", "stage", "type", "means", "remedy", "source")}
    return FailureCause(**specified, templates=tuple(map(Template.parse, table["says"])))


_PHRASES: Final = _load("phrases.toml")
_CAUSES: Final = _load("causes.toml")
_STATEMENTS: Final = _load("statements.toml")

TEMPLATES: Final = tuple(Template.parse(text) for table in _PHRASES["phrase"] for text in table["says"])
OF_RANKS: Final[Mapping[str, str]] = {
    hole: table["of_ranks"]
    for table in _PHRASES["phrase"]
    if "of_ranks" in table
    for text in table["says"]
    for hole in Template.parse(text).kinds
}
"""Which of several ranks' values counts, where it is not the last."""
MILESTONES: Final = tuple(Milestone(table["name"], tuple(table["says"])) for table in _PHRASES["milestone"])
"""How far a start came, first to last."""
BEGINNINGS: Final = tuple(_PHRASES["start"]["says"])
"""What a new start says first."""
CAUSES: Final = tuple(map(_cause, _CAUSES["cause"]))
WRAPPERS: Final = tuple(_CAUSES["wrappers"])
"""Words of exceptions that only pass another one on."""
STATEMENTS: Final[Mapping[tuple[str, str, int], frozenset[Version]]] = {
    (table["says"], table["file"], line): frozenset(
        Version(release) for release, lines in table["lines"].items() if line in lines
    )
    for table in _STATEMENTS["statement"]
    for line in {line for lines in table["lines"].values() for line in lines}
}
"""Releases that say a sentence on this line of this file."""
