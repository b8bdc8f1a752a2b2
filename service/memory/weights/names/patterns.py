"""Matches regular expressions of untrusted configs in time that is linear in the name.

Python's own engine backtracks, and for some expressions that takes exponential time. Here a pattern becomes
one or more runs of atoms; an atom is a set of characters, and whether it may be missing or repeated. All runs
are matched at once: the positions reached are bits of one number, and each character of the name updates them
by a few operations on that number. Source: Navarro and Raffinot, Flexible Pattern Matching in Strings, 2002,
section 4.3 (extended Shift-And).

Forms that runs cannot express (repeated groups, look-arounds, back references) are refused.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product
from typing import Final, NoReturn, Self, TypeAlias

MAX_PATTERN: Final = 512
MAX_RUNS: Final = 256
"""Runs of one pattern: the alternatives of its groups, multiplied."""
MAX_DEPTH: Final = 8
"""Groups within one another."""
MAX_COUNT: Final = 16
"""The greatest number in braces."""
MAX_PLACES: Final = 1 << 12
"""The most atoms of all runs together; each costs about a nanosecond per character of a name.

The lists of published checkpoints have up to 124.
"""
ALPHABET: Final = frozenset(map(chr, range(32, 127)))
"""Characters of names of modules."""

_TOKEN: Final = re.compile(
    r"(?P<atom>\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[^\\\[\](){}*+?|^$])"
    r"|(?P<group>\((?:\?:)?(?!\?))|(?P<close>\))|(?P<bar>\|)|(?P<begin>\^)|(?P<end>\$)"
)
_LITERAL: Final = re.compile(r"(?:[A-Za-z0-9_-]|\\\.)+(?![*+?{])")
_TOKENS: Final = re.compile(r"\\?.")
"""Characters that stand for themselves, up to one that may be missing or repeated."""
_REPEAT: Final = re.compile(r"([*+?]|\{[0-9]{0,2}(?:,[0-9]{0,2})?\})\??(?![*+?{])")
_OF_NO_WIDTH: Final = frozenset((r"\A", r"\b", r"\B", r"\Z"))
_SET_OPERATION: Final = re.compile(r"\[\^?\[|[^\\]\[|--|&&|~~|\|\|")
"""Set syntax that later versions of Python may read otherwise; Python warns about it."""


class UnsafePattern(ValueError):
    """The pattern is malformed, too long, or of a form that is not matched."""


@dataclass(frozen=True, slots=True)
class Atom:
    """One character of a name: which, and whether it may be missing or repeated."""

    characters: frozenset[str]
    optional: bool = False
    repeated: bool = False


Run: TypeAlias = tuple[Atom, ...]
"""Atoms that follow one another, from the beginning of a name to its end."""
ANYTHING: Final = Atom(ALPHABET, optional=True, repeated=True)


@lru_cache(maxsize=1024)
def runs_of(pattern: str) -> tuple[Run, ...]:
    """Return the runs that match the same names as ``re.match`` with a pattern.

    Raises:
        UnsafePattern: the pattern is of a form that runs cannot express, or too long.
    """
    if len(pattern) > MAX_PATTERN:
        raise UnsafePattern("it is too long")
    reader = _Reader(pattern)
    runs = reader.alternatives(depth=0)
    if reader.at < len(pattern):
        raise UnsafePattern("a parenthesis closes nothing")
    return tuple(runs)


@dataclass(slots=True)
class _Reader:
    """A pattern, and the position of the next token in it."""

    pattern: str
    at: int = 0

    def alternatives(self, depth: int) -> list[Run]:
        """Read the alternatives between bars, up to the end of the group."""
        runs: list[Run] = []
        while True:
            runs += self._sequence(depth)
            _check(runs)
            if self._peek() != "bar":
                return runs
            self.at += 1

    def _peek(self) -> str:
        token = _TOKEN.match(self.pattern, self.at)
        return "" if token is None else str(token.lastgroup)

    def _sequence(self, depth: int) -> list[Run]:
        """Read up to a bar or to the end; outside of groups any further text matches."""
        runs: list[Run] = [()]
        if depth == 0 and self._peek() == "begin":
            self.at += 1
        while (kind := self._peek()) in {"atom", "group"}:
            literal = _LITERAL.match(self.pattern, self.at)
            if literal is not None:
                self.at = literal.end()
                atoms = _atoms(literal[0])
                runs = [(*run, *atoms) for run in runs]
                _check(runs)
                continue
            more = self._piece(kind, depth)
            if len(runs) * len(more) > MAX_RUNS:
                _refuse()
            runs = [(*one, *two) for one, two in product(runs, more)]
            _check(runs)
        if depth > 0:
            return runs
        if kind == "end":
            self.at += 1
            if self._peek() not in {"", "bar"}:
                _refuse()
            return runs
        if kind != "bar" and self.at < len(self.pattern):
            _refuse()
        return [(*run, ANYTHING) for run in runs]

    def _piece(self, kind: str, depth: int) -> list[Run]:
        """Read an atom or a group with its repetition."""
        begin = _TOKEN.match(self.pattern, self.at)
        if begin is None:
            _refuse()
        self.at = begin.end()
        if kind == "group":
            if depth == MAX_DEPTH:
                _refuse()
            runs = self.alternatives(depth + 1)
            if self._peek() != "close":
                _refuse()
            self.at += 1
            return self._repeated_group(runs)
        return [self._repeated(_atom(begin[0]))]

    def _repeat(self) -> str:
        repeat = _REPEAT.match(self.pattern, self.at)
        if repeat is None:
            return ""
        self.at = repeat.end()
        return repeat[1]

    def _repeated_group(self, runs: list[Run]) -> list[Run]:
        repeat = self._repeat()
        if repeat not in {"", "?"}:
            _refuse()
        return [*runs, ()] if repeat else runs

    def _repeated(self, atom: Atom) -> Run:
        match self._repeat():
            case "":
                return (atom,)
            case "*":
                return (replace(atom, optional=True, repeated=True),)
            case "+":
                return (replace(atom, repeated=True),)
            case "?":
                return (replace(atom, optional=True),)
            case braces:
                return _counted(atom, braces)


@lru_cache(maxsize=1024)
def _atom(token: str) -> Atom:
    return Atom(_characters(token))


@lru_cache(maxsize=1024)
def _atoms(literal: str) -> Run:
    """Return the atoms of characters that stand for themselves; a dot has a backslash before it."""
    return tuple(map(_atom, _TOKENS.findall(literal)))


def _counted(atom: Atom, braces: str) -> Run:
    least, comma, most = braces[1:-1].partition(",")
    low = int(least or 0)
    high = int(most) if most else low
    if not (least or most) or max(low, high) > MAX_COUNT or high < low:
        _refuse()
    if comma and not most:
        return (*[atom] * low, replace(atom, optional=True, repeated=True))
    return (*[atom] * low, *[replace(atom, optional=True)] * (high - low))


@lru_cache(maxsize=1024)
def _characters(token: str) -> frozenset[str]:
    """Return the characters that a token matches, according to Python's own engine."""
    if token in _OF_NO_WIDTH or (len(token) > 1 and token[0] == "[" and _SET_OPERATION.search(token)):
        _refuse()
    try:
        one = re.compile(token)
    except re.error:
        raise UnsafePattern(token) from None
    return frozenset(filter(one.fullmatch, ALPHABET))


def _check(runs: list[Run]) -> None:
    if len(runs) > MAX_RUNS or sum(map(len, runs)) > MAX_PLACES:
        raise UnsafePattern("it has too many alternatives")


def _refuse() -> NoReturn:
    raise UnsafePattern("it is of a form that is not matched")


def run_of_glob(glob: str) -> Run:
    """Return the run that matches the same names as ``fnmatch`` with a shell pattern.

    Raises:
        UnsafePattern: the pattern is too long.
    """
    if len(glob) > MAX_PATTERN:
        raise UnsafePattern("it is too long")
    return tuple(_glob_atoms(glob))


def _glob_atoms(glob: str) -> Iterator[Atom]:
    at = 0
    while at < len(glob):
        end = glob.find("]", at + 3 if glob[at + 1 : at + 2] == "!" else at + 2) if glob[at] == "[" else -1
        if end > 0:
            inside = glob[at + 1 : end]
            listed = re.escape(inside.removeprefix("!")).replace(r"\-", "-")
            yield Atom(_characters(f"[{'^' if inside.startswith('!') else ''}{listed}]"))
            at = end + 1
            continue
        match glob[at]:
            case "*":
                yield ANYTHING
            case "?":
                yield Atom(ALPHABET)
            case each:
                yield Atom(frozenset(each))
        at += 1


@dataclass(frozen=True, slots=True)
class Expressions:
    """Runs that are matched together. Bit 0 of a run is its beginning; bit n means that n atoms matched."""

    steps: dict[str, tuple[int, int]]
    """By character: the atoms that match it, and those of them that may be repeated."""
    begins: int
    optional: int
    before_optional: int
    last_optional: int
    ends: int
    known: dict[tuple[str, int], int] = field(default_factory=dict, compare=False, repr=False)
    """Positions after a path, from the positions before it."""

    @classmethod
    def of(cls, runs: Iterable[Run]) -> Self:
        """Combine runs into one automaton.

        Raises:
            UnsafePattern: they have more than ``MAX_PLACES`` atoms together.
        """
        taken: Counter[frozenset[str]] = Counter()
        again: Counter[frozenset[str]] = Counter()
        begins = optional = before = last = ends = 0
        place = 0
        for run in runs:
            begins |= 1 << place
            for index, atom in enumerate(run):
                bit = 1 << (place + index + 1)
                taken[atom.characters] |= bit
                again[atom.characters] |= bit if atom.repeated else 0
                if atom.optional:
                    optional |= bit
                    before |= 0 if index and run[index - 1].optional else bit >> 1
                    last |= 0 if index + 1 < len(run) and run[index + 1].optional else bit
            place += len(run) + 1
            ends |= 1 << (place - 1)
            if place > MAX_PLACES:
                raise UnsafePattern("the patterns are too many or too long")
        by_character = _by_character(taken), _by_character(again)
        steps = {each: (by_character[0][each], by_character[1][each]) for each in ALPHABET}
        return cls(steps, begins, optional, before, last, ends)

    def after(self, text: str, reached: int | None = None) -> int:
        """Return the positions reached after a text, from the positions ``reached`` or from the beginning.

        Names of modules begin as others do, so the positions after the path before the last part are kept.
        """
        begins = self.begins if reached is None else reached
        path, dot, last = text.rpartition(".")
        if not dot:
            return self._after(last, self._passed(begins))
        known = self.known.get((path, begins))
        if known is None:
            known = self.known[path, begins] = self.after(path, begins)
        return self._after(f".{last}", known)

    def _after(self, text: str, places: int) -> int:
        steps, optional, before, last = self.steps, self.optional, self.before_optional, self.last_optional
        for character in text:
            if not places:
                break
            takes, again = steps.get(character, (0, 0))
            places = ((places << 1) & takes) | (places & again)
            filled = places | last
            places |= optional & (~(filled - before) ^ filled)
        return places

    def match(self, places: int) -> bool:
        """Whether one of the positions is the end of a run."""
        return bool(places & self.ends)

    def _passed(self, places: int) -> int:
        """Return positions with those that are reached by skipping optional atoms."""
        filled = places | self.last_optional
        return places | (self.optional & (~(filled - self.before_optional) ^ filled))


def _by_character(places: Mapping[frozenset[str], int]) -> Mapping[str, int]:
    found = dict.fromkeys(ALPHABET, 0)
    for characters, bits in places.items():
        for character in characters & ALPHABET:
            found[character] |= bits
    return found
