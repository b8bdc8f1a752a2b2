"""Says what the engine does at a place of its code, for failures of which only the place is known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from service.bundled_toml import read_toml
from service.startup_log.catalogue.origins import BY_PART
from service.startup_log.catalogue.phrases import CAUSES, CauseForm
from service.startup_log.errors.tracebacks import Frame


@dataclass(frozen=True, slots=True)
class Place:
    """A place of the engine's code, with the fields of places.toml."""

    files: tuple[str, ...]
    functions: frozenset[str]
    named: tuple[str, ...]
    """Parts of the names of functions, any of them."""
    causes: frozenset[str]
    form: CauseForm

    def holds(self, frame: Frame) -> bool:
        """Whether a call is made there."""
        if not any(each in f"/{frame.path}" for each in self.files):
            return False
        if frame.function in self.functions or any(map(frame.function.__contains__, self.named)):
            return True
        return not (self.functions or self.named)


def form_by_place(cause: str, frames: Sequence[Frame]) -> CauseForm | None:
    """Return what a cause means at the innermost call that a place holds; ``None`` for none."""
    places = [each for each in _PLACES if cause in each.causes]
    if not places:
        return None
    return next((each.form for frame in frames for each in places if each.holds(frame)), None)


def _place(table: Mapping[str, Any]) -> Place:
    known = {cause.name for cause in CAUSES}
    keys = {"causes", "means", "remedy", "source", "part" if "part" in table else "files"}
    named = {"title"} if "part" in table else {"functions", "named", "title"}
    if wrong := sorted({*table["causes"]} - known | (table.keys() ^ keys) - named):
        raise ValueError(f"places.toml: unknown causes, or keys that are unknown or absent: {wrong}")
    part = BY_PART[table["part"]] if "part" in table else None
    return Place(
        tuple(table["files"]) if part is None else part.files,
        frozenset(table.get("functions", ())) if part is None else part.functions,
        tuple(table.get("named", ())),
        frozenset(table["causes"]),
        CauseForm(table["means"], table["remedy"], title=table.get("title", "")),
    )


_PLACES: Final = tuple(map(_place, read_toml("service.startup_log.catalogue", "places.toml")["place"]))
