"""Matches module names against the names and patterns of a checkpoint's config."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Final, Self

from service.memory.weights.patterns import (
    MAX_PLACES,
    Expressions,
    Run,
    UnsafePattern,
    run_of_glob,
    runs_of,
)

PREFIXES: Final = (
    "thinker.model.",
    "thinker.",
    "model.language_model.",
    "language_model.model.",
    "language_model.",
    "model.",
    "backbone.",
    "",
)
"""Checkpoints and the engine name a module with different prefixes; the first that matches is removed."""
REGULAR: Final = "re:"


def bare(name: str) -> str:
    """Return a module name without the model's own prefix."""
    return name.removeprefix(next(filter(name.startswith, PREFIXES)))


_PREFIX: Final = re.compile("^(?:" + "|".join(map(re.escape, filter(None, PREFIXES))) + ")", re.MULTILINE)


def _all_bare(names: list[str]) -> list[str]:
    """Return the same of many names, at once: lists of a checkpoint reach 250,000 names."""
    joined = _PREFIX.sub("", "\n".join(names)).split("\n")
    return joined if len(joined) == len(names) else list(map(bare, names))


def is_safe(pattern: str) -> bool:
    """Whether a regular expression is of a form that can be matched in linear time."""
    try:
        runs_of(pattern)
    except UnsafePattern:
        return False
    return True


def all_readable(entries: tuple[str, ...]) -> bool:
    """Whether every entry can be matched."""
    return module_names(entries).readable


@dataclass(frozen=True, slots=True, eq=False)
class ModuleNames:
    """Parsed names and patterns; ``name in names`` matches."""

    entries: tuple[str, ...]
    names: frozenset[str]
    globs: Expressions
    expressions: Expressions
    prefixed: int
    """The positions in ``expressions`` that are reached after any of the prefixes."""
    readable: bool
    """Whether every entry can be matched; an entry that cannot be matched matches no module."""

    @classmethod
    def parse(cls, entries: tuple[str, ...]) -> Self:
        """Sort entries into names, shell patterns and ``re:`` expressions."""
        expressions = [entry.removeprefix(REGULAR) for entry in entries if entry.startswith(REGULAR)]
        others = _all_bare([entry for entry in entries if not entry.startswith(REGULAR)])
        globs = [entry for entry in others if "*" in entry]
        of_globs, globs_readable = _together(globs, lambda glob: (run_of_glob(glob),))
        of_expressions, expressions_readable = _together(expressions, runs_of)
        prefixed = 0
        for prefix in PREFIXES:
            prefixed |= of_expressions.after(prefix)
        return cls(
            entries,
            frozenset(entry for entry in others if "*" not in entry),
            of_globs,
            of_expressions,
            prefixed,
            globs_readable and expressions_readable,
        )

    def __contains__(self, name: str) -> bool:
        return _is_among(self, name)

    def _matched(self, name: str) -> bool:
        if name in self.names or self.globs.match(self.globs.after(name)):
            return True
        return self.expressions.match(self.expressions.after(name, self.prefixed))

    def within(self, name: str) -> bool:
        """Whether a plain entry names a part of the path (bitsandbytes' ``llm_int8_skip_modules``)."""
        return _is_within(self, name)

    def occurs_in(self, name: str) -> bool:
        """Whether a plain entry occurs anywhere in the name (lists of AWQ and ModelOpt).

        An entry that begins with the prefix of a model is the beginning of a name of that model.
        """
        return _occurs_in(self, name)

    def _within(self, name: str) -> bool:
        parts = name.split(".")
        ends = combinations(range(len(parts) + 1), 2)
        paths = (".".join(parts[begin:end]) for begin, end in ends)
        return any(path in self.names or f"{path}." in self.names for path in paths)

    def _occurs(self, name: str) -> bool:
        anywhere, first = _parts(self)
        if any(name[:end] in first for end in range(1, len(name) + 1)):
            return True
        if len(anywhere) <= len(name) ** 2:
            return any(entry in name for entry in anywhere)
        return any(name[begin:end] in anywhere for begin, end in combinations(range(len(name) + 1), 2))


def _together(patterns: Sequence[str], read: Callable[[str], tuple[Run, ...]]) -> tuple[Expressions, bool]:
    """Return one automaton of all patterns, empty if they are too many, and whether all could be read."""
    runs: list[Run] = []
    places, readable = 0, True
    for pattern in patterns:
        try:
            more = read(pattern)
        except UnsafePattern:
            readable = False
            continue
        runs += more
        places += sum(len(run) + 1 for run in more)
        if places > MAX_PLACES:
            return Expressions.of(()), False
    return Expressions.of(runs), readable


# Each number of GPUs and each release looks up the same modules again.
@lru_cache(maxsize=1 << 15)
def _is_among(names: ModuleNames, name: str) -> bool:
    return names._matched(name)  # noqa: SLF001 - its own cache


@lru_cache(maxsize=1 << 15)
def _is_within(names: ModuleNames, name: str) -> bool:
    return names._within(name)  # noqa: SLF001 - its own cache


@lru_cache(maxsize=1 << 15)
def _occurs_in(names: ModuleNames, name: str) -> bool:
    return names._occurs(name)  # noqa: SLF001 - its own cache


@lru_cache(maxsize=64)
def _parts(names: ModuleNames) -> tuple[frozenset[str], frozenset[str]]:
    """Return the plain entries as they are, and what those with a model's prefix have after it."""
    plain = [entry for entry in names.entries if "*" not in entry and not entry.startswith(REGULAR)]
    rest = (bare for entry, bare in zip(plain, _all_bare(plain), strict=True) if bare != entry)
    return frozenset(plain), frozenset(rest)


@lru_cache(maxsize=64)
def module_names(entries: tuple[str, ...]) -> ModuleNames:
    """Return the parsed entries."""
    return ModuleNames.parse(entries)
