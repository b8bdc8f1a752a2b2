"""A part of the engine or of a library: which calls are in it, and what its exceptions mean."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from service.startup_log.catalogue.phrases import CAUSES, FailureCause
from service.startup_log.errors.tracebacks import Frame

PACKAGES: Final = "-packages/"
"""End of the folder that packages are installed in: site-packages, dist-packages."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the engine or of a library, by its files and functions, with the fields of origins.toml."""

    name: str
    """In words that follow "in"."""
    files: tuple[str, ...]
    functions: frozenset[str]
    causes: Mapping[str, FailureCause]
    """Causes by the class of the exception; ``*`` stands for all others."""
    folders: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    only_call: frozenset[str] = frozenset()

    def has_raised(self, frames: Sequence[Frame]) -> bool:
        """Whether an exception passed this part and is of its kind; its innermost frame comes first."""
        if self.within and not any(each in f"/{frames[0].path}" for each in self.within):
            return False
        return any(self.counts(at, frame) for at, frame in enumerate(frames))

    def counts(self, at: int, frame: Frame) -> bool:
        """Whether a call of an exception is one of this part, and not one that only passed it on."""
        return self.holds(frame) and not (at and frame.function in self.only_call)

    def holds(self, frame: Frame) -> bool:
        """Whether a frame is in this part.

        The folder of an environment can be called as a package is: /vllm/.venv/lib/python3.12/site-packages.
        """
        path = f"/{frame.path}"
        installed = f"/{path.rpartition(PACKAGES)[2].lstrip('/')}"
        placed = any(map(installed.__contains__, self.files)) or any(map(path.__contains__, self.folders))
        if not placed and (self.files or self.folders):
            return False
        return not self.functions or frame.function in self.functions


def part_of(table: Mapping[str, Any]) -> Part:
    """Return the part that a table of origins.toml describes."""
    known = {cause.name: cause for cause in CAUSES}
    causes = table.get("causes", {})
    unknown = sorted({*causes.values()} - known.keys())
    if unknown:
        raise ValueError(f"origins.toml, {table['name']}: unknown causes: {unknown}")
    return Part(
        table["name"],
        tuple(table.get("files", ())),
        frozenset(table.get("functions", ())),
        {name: known[cause] for name, cause in causes.items()},
        tuple(table.get("folders", ())),
        tuple(table.get("within", ())),
        frozenset(table.get("only_call", ())),
    )
