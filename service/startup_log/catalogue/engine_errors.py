"""Finds where the engine or a library raises an error, by the message alone: for logs without a traceback."""

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final

from packaging.version import Version

from service.startup_log.catalogue.templates import SentenceIndex, without_backticks
from service.startup_log.errors.tracebacks import Frame

FILE: Final = Path(__file__).with_name("engine_errors.json.gz")
"""Errors with words of their own in the releases' sources; tests/startup_log/engine_errors.py writes it."""
LIBRARIES: Final = FILE.with_name("library_errors.json.gz")
"""The same of packages that the engine uses; the path of a file begins with its package."""
REQUESTS: Final = FILE.with_name("request_errors.json.gz")
"""The same of the engine's files that answer requests."""
ENGINE: Final = "vllm"
LEAST_WORDS: Final = 3
"""Words of the longest fixed part of a message at least; fewer are found in other messages too."""
LEAST_BEGUN: Final = 2
"""Words of the first fixed part at least by which a message is known of which no more is left."""
LEAST_SHARE: Final = 0.4
"""Share of a message that the fixed parts make up at least: values are short."""
MOST: Final = 600
"""Characters of a message that are compared."""


_CHECKS: Final = re.compile(r"_?(?:get_and_)?(?:check|verify|validate|ensure|raise|assert)_")
"""Beginnings of the names of functions that do nothing but check."""
LONG: Final = 24
"""Characters of a fixed part by which an error is known in any sentence."""
CERTAIN: Final = 80
"""Characters of a first part that only one message has."""
MANY_WORDS: Final = 4
"""Words of such a part at least."""


@dataclass(frozen=True, slots=True)
class EngineError:
    """An error that releases of the engine, or of a package that it uses, raise."""

    type: str
    package: str
    file: str
    """Path in the package."""
    function: str
    first: str
    """The first release that was read and has it."""
    last: str
    parts: tuple[str, ...]
    """The fixed parts of the first line of its message, in their order, without backticks."""

    @property
    def source(self) -> str:
        """Release, file and function."""
        releases = self.first if self.first == self.last else f"{self.first} to {self.last}"
        name = "vLLM" if self.package == ENGINE else self.package
        return f"{name} {releases}, {self.file} {self.function}".rstrip()

    @property
    def frame(self) -> Frame:
        """Where it is raised."""
        return Frame(f"{self.package}/{self.file}", self.function)

    @property
    def fixed(self) -> int:
        """Characters of the fixed parts."""
        return sum(map(len, self.parts))

    def says(self, message: str) -> bool:
        """Whether a message without backticks has all parts in their order."""
        at = 0
        for part in self.parts:
            found = message.find(part, at)
            if found < 0:
                return False
            at = found + len(part)
        # A first part of this length shows the message, however long the values behind it are.
        return len(self.parts[0]) >= CERTAIN or self.fixed >= LEAST_SHARE * min(len(message), at)

    def begins(self, message: str) -> bool:
        """Whether a message that someone cut has the first part at its beginning."""
        return len(self.parts[0].split()) >= LEAST_BEGUN and message.startswith(self.parts[0])


def engine_error(type_name: str, message: str) -> EngineError | None:
    """Return the error with this message; of several the one with the longest fixed parts."""
    line = without_backticks(message[:MOST])
    errors, index = _by_longest_part()
    found = [each for _, part in index.pairs([line]) for each in errors[part] if each.says(line)]
    if not found and (begun := line.rstrip(". \u2026")) != line.rstrip("."):
        found = [each for each in _errors() if each.type == type_name and each.begins(begun)]
    return _likeliest(found, type_name)


def _likeliest(found: Sequence[EngineError], type_name: str) -> EngineError | None:
    same = [each for each in found if each.type == type_name] or found
    return max(
        same,
        key=lambda each: (each.fixed, each.package == ENGINE, Version(each.last), each.file),
        default=None,
    )


def errors_of_check(function: str) -> Sequence[EngineError]:
    """Return the errors of a function of the engine that only checks, by its name; none for any other."""
    if _CHECKS.match(function) is None:
        return ()
    return [each for each in _errors() if each.package == ENGINE and each.function == function]


@cache
def packages_read() -> frozenset[str]:
    """Return the packages whose errors are known, the engine among them."""
    return frozenset(each.package for each in _errors())


@cache
def files_of_errors() -> frozenset[str]:
    """Return the paths of the engine's files, inside of its package, whose errors are known."""
    return frozenset(each.file for each in _errors() if each.package == ENGINE)


def error_in_text(lines: Sequence[str]) -> tuple[int, EngineError] | None:
    """Return the first line that has an error's own words anywhere, without the class of an exception.

    Only errors with a part so long count that no other sentence has it by chance.
    """
    errors, index = _by_longest_part(LONG, MANY_WORDS)
    lines = list(map(without_backticks, lines))
    for at, pairs in groupby(index.pairs(lines), key=itemgetter(0)):
        found = [each for _, position in pairs for each in errors[position] if _rests_on(each, lines[at])]
        if (error := _likeliest(found, "")) is not None:
            return at, error
    return None


def _rests_on(error: EngineError, line: str) -> bool:
    start = line.find(error.parts[0])
    return start >= 0 and error.says(line[start : start + MOST])


@cache
def _by_longest_part(least: int = 0, words: int = 0) -> tuple[Sequence[Sequence[EngineError]], SentenceIndex]:
    """Return the errors of each longest part, and the index of these parts; many errors have the same.

    ``least``, ``words``: characters and words of the parts that count.
    """
    found: dict[str, list[EngineError]] = defaultdict(list)
    for each in _errors():
        longest = max(each.parts, key=len)
        if len(longest) >= least and len(longest.split()) >= words:
            found[longest].append(each)
    return list(found.values()), SentenceIndex(list(found))


@cache
def _errors() -> Sequence[EngineError]:
    return tuple(
        EngineError(name, *_of_package(file, packaged), function, first, last, _unmarked(parts))
        for path, packaged in ((FILE, False), (LIBRARIES, True), (REQUESTS, False))
        for name, file, function, first, last, parts in json.loads(gzip.decompress(path.read_bytes()))
    )


def _unmarked(parts: Sequence[str]) -> tuple[str, ...]:
    """Return the parts without backticks and the full stop at the end, which people leave out."""
    *before, last = map(without_backticks, parts)
    return tuple(filter(None, (*before, last.removesuffix("."))))


def _of_package(file: str, packaged: bool) -> tuple[str, str]:
    package, _, path = file.partition("/")
    return (package, path) if packaged else (ENGINE, file)
