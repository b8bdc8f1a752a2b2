"""Which modules a checkpoint's names and patterns mean."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache
from typing import Final, Self

PREFIXES: Final = (
    "model.language_model.",
    "language_model.model.",
    "language_model.",
    "model.",
    "backbone.",
    "",
)
"""Checkpoints and the engine name the same module differently; the first that fits is cut off."""
REGULAR: Final = "re:"
MAX_PATTERN: Final = 512
MAX_REPEATS: Final = 4
_UNSAFE: Final = re.compile(r"\)[*+?{]|\(\?|\\[1-9]|[*+}][*+{]")
"""A repeated group, a look-around, a back reference or a repeated repeat may backtrack for ever."""


def bare(name: str) -> str:
    """Return a module name without the model's own prefix."""
    return name.removeprefix(next(filter(name.startswith, PREFIXES)))


def is_safe(pattern: str) -> bool:
    """Whether a checkpoint's regular expression is sure to end soon on a short name."""
    if len(pattern) > MAX_PATTERN or _UNSAFE.search(pattern):
        return False
    if sum(pattern.count(repeat) for repeat in "*+{") > MAX_REPEATS:
        return False
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def all_readable(entries: Iterable[str]) -> bool:
    """Whether every entry can be matched."""
    return all(is_safe(entry.removeprefix(REGULAR)) for entry in entries if entry.startswith(REGULAR))


@dataclass(frozen=True, slots=True)
class ModuleNames:
    """Names and patterns, ready to be asked."""

    names: frozenset[str]
    globs: re.Pattern[str] | None
    expressions: tuple[re.Pattern[str], ...]

    @classmethod
    def parse(cls, entries: tuple[str, ...]) -> Self:
        """Sort entries into names, shell patterns and ``re:`` expressions; unsafe ones match nothing."""
        names = frozenset(
            bare(entry) for entry in entries if "*" not in entry and not entry.startswith(REGULAR)
        )
        globs = [bare(entry) for entry in entries if "*" in entry and not entry.startswith(REGULAR)]
        expressions = (entry.removeprefix(REGULAR) for entry in entries if entry.startswith(REGULAR))
        return cls(
            names,
            re.compile("|".join(map(translate, globs))) if globs else None,
            tuple(re.compile(text) for text in expressions if is_safe(text)),
        )

    def __contains__(self, name: str) -> bool:
        if name in self.names or (self.globs is not None and self.globs.match(name)):
            return True
        return any(expression.match(prefix + name) for expression in self.expressions for prefix in PREFIXES)

    def within(self, name: str) -> bool:
        """Whether a plain entry names a part of the path (AWQ's ``modules_to_not_convert``)."""
        return any(f".{entry}." in f".{name}." for entry in self.names)


@lru_cache(maxsize=256)
def module_names(entries: tuple[str, ...]) -> ModuleNames:
    """Return the entries ready to be asked."""
    return ModuleNames.parse(entries)
