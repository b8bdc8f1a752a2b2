"""Matches module names against the names and patterns of a checkpoint's config."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, cycle
from typing import Final, Self

from service.architecture.long_lists import LONG_LISTS
from service.architecture.weight_schemes import Names
from service.memory.weights.names.fragments import Fragments
from service.memory.weights.names.patterns import (
    MAX_PLACES,
    Expressions,
    Run,
    UnsafePattern,
    run_of_glob,
    runs_of,
)
from service.memory.weights.names.sorted_entries import SortedEntries

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


def bare(name: str) -> str:
    """Return a module name without the model's own prefix."""
    return name.removeprefix(next(filter(name.startswith, PREFIXES)))


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
    """Parsed names and patterns; ``name in names`` matches.

    A name of a module has no prefix of a model. Entries may have one: as there may be 250,000 of them, each
    prefix is put before the name.
    """

    names: tuple[Fragments, ...]
    beginnings: tuple[Fragments, ...]
    parts: tuple[Fragments, ...]
    globs: Expressions
    expressions: Expressions
    prefixed: int
    """The positions in ``expressions`` that are reached after any of the prefixes."""
    readable: bool
    """Whether every entry can be matched; an entry that cannot be matched matches no module."""

    @classmethod
    def parse(cls, entries: tuple[str, ...]) -> Self:
        """Sort entries into names, shell patterns and ``re:`` expressions."""
        found = SortedEntries.of(entries)
        of_globs, globs_readable = _together(found.globs, lambda glob: (run_of_glob(bare(glob)),))
        of_expressions, expressions_readable = _together(found.expressions, runs_of)
        prefixed = 0
        for prefix in PREFIXES:
            prefixed |= of_expressions.after(prefix)
        names, beginnings, parts = (
            [Fragments.of(each)] if each else [] for each in (found.names, found.beginnings, found.parts)
        )
        for part, form in found.alike:
            alike = names if form.whole else parts if form.anywhere else beginnings
            alike.append(Fragments.of(part, form))
        return cls(
            tuple(names),
            tuple(beginnings),
            tuple(parts),
            of_globs,
            of_expressions,
            prefixed,
            found.readable and globs_readable and expressions_readable,
        )

    def __contains__(self, name: str) -> bool:
        return _is_among(self, name, PREFIXES)

    def has(self, name: str, prefixes: tuple[str, ...] = PREFIXES) -> bool:
        """Whether a name matches after one of some prefixes: expressions after the first, its own."""
        return _is_among(self, name, prefixes)

    def lists(self, name: str, prefixes: tuple[str, ...] = PREFIXES) -> bool:
        """Whether an entry without operators is the name, after one of some prefixes."""
        return self._is_listed(_prefixed(name, prefixes))

    def _is_listed(self, written: Sequence[str]) -> bool:
        return any(not names.texts.isdisjoint(written) for names in self.names)

    def end(self, name: str, prefixes: tuple[str, ...] = PREFIXES) -> bool:
        """Whether an entry without operators is the last parts of the engine's name of a module."""
        inside = name if prefixes == PREFIXES else prefixes[0] + name
        ends = []
        at = inside.find(".")
        while at >= 0:
            ends.append(inside[at + 1 :])
            at = inside.find(".", at + 1)
        return self._is_listed(ends)

    def _matched(self, name: str, prefixes: tuple[str, ...]) -> bool:
        written = _prefixed(name, prefixes)
        if self._is_listed(written):
            return True
        inside = name if prefixes == PREFIXES else prefixes[0] + name
        if self.beginnings and _begins(self.beginnings, name, prefixes):
            return True
        for each in self.parts:
            if each.occur_in(inside):
                return True
        if self.globs.begins and self.globs.match(self.globs.after(name)):
            return True
        if prefixes != PREFIXES:
            return self.expressions.match(self.expressions.after(inside))
        return bool(self.prefixed) and self.expressions.match(self.expressions.after(name, self.prefixed))

    def within(self, name: str) -> bool:
        """Whether a plain entry names a part of the path (bitsandbytes' ``llm_int8_skip_modules``)."""
        return _is_within(self, name)

    def occurs_in(self, name: str, prefixes: tuple[str, ...] = PREFIXES) -> bool:
        """Whether a plain entry occurs anywhere in the name (lists of AWQ and ModelOpt).

        An entry that begins with the prefix of a model is the beginning of a name of that model.
        """
        return _occurs_in(self, name, prefixes)

    def _within(self, name: str) -> bool:
        parts = name.split(".")
        ends = combinations(range(len(parts) + 1), 2)
        paths = [".".join(parts[begin:end]) for begin, end in ends]
        paths += [prefix + path for path in paths if name.startswith(path) for prefix in PREFIXES]
        paths += [f"{path}." for path in paths]
        return self._is_listed(tuple(paths))

    def _occurs(self, name: str, prefixes: tuple[str, ...]) -> bool:
        inside = name if prefixes == PREFIXES else prefixes[0] + name
        return _begins(self.names, name, prefixes) or any(each.occur_in(inside) for each in self.names)


def _begins(several: tuple[Fragments, ...], name: str, prefixes: tuple[str, ...]) -> bool:
    """Whether a string, less the prefix of a model, is the beginning of a name."""
    for fragments in several:
        head = "" if fragments.form.escaped else fragments.form.head
        for written, prefix in zip(_prefixed(name, prefixes), cycle(prefixes), strict=False):
            if written.startswith(head) and fragments.begin(written, len(prefix)):
                return True
    return False


@lru_cache(maxsize=1 << 14)
def _prefixed(name: str, prefixes: tuple[str, ...]) -> tuple[str, ...]:
    """Return a name as entries may have it, after each prefix that a model may have."""
    return tuple(prefix + each for each in _written(name) for prefix in prefixes)


def _written(name: str) -> tuple[str, ...]:
    """Return a name as entries without operators may have it: the engine renames whole parts in these alone.

    Source: vLLM 0.13.0 to 0.33.0, gpt_oss.py hf_to_vllm_mapper.
    """
    return (name, name.replace(".attn.", ".self_attn.", 1)) if ".attn." in name else (name,)


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
@LONG_LISTS.emptied
@lru_cache(maxsize=1 << 15)
def _is_among(names: ModuleNames, name: str, prefixes: tuple[str, ...]) -> bool:
    return names._matched(name, prefixes)  # noqa: SLF001 - its own cache


@LONG_LISTS.emptied
@lru_cache(maxsize=1 << 15)
def _is_within(names: ModuleNames, name: str) -> bool:
    return names._within(name)  # noqa: SLF001 - its own cache


@LONG_LISTS.emptied
@lru_cache(maxsize=1 << 15)
def _occurs_in(names: ModuleNames, name: str, prefixes: tuple[str, ...]) -> bool:
    return names._occurs(name, prefixes)  # noqa: SLF001 - its own cache


def module_names(entries: tuple[str, ...]) -> ModuleNames:
    """Return the parsed entries, which are kept with them."""
    return (entries if isinstance(entries, Names) else Names.of(entries)).once(ModuleNames.parse)
