"""Finds where the engine raises an error, by the message alone: for logs that hold no traceback."""

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).with_name("engine_errors.json.gz")
"""Errors with words of their own in the releases' sources; tests/startup_log/engine_errors.py writes it."""
LEAST_WORDS: Final = 3
"""Words of the longest fixed part of a message at least; fewer are found in other messages too."""
LEAST_SHARE: Final = 0.4
"""Share of a message that the fixed parts make up at least: values are short."""
MOST: Final = 600
"""Characters of a message that are compared."""


@dataclass(frozen=True, slots=True)
class EngineError:
    """An error that releases of the engine raise."""

    type: str
    file: str
    """Path in the package ``vllm``."""
    function: str
    first: str
    """The first release that was read and has it."""
    last: str
    parts: tuple[str, ...]
    """The fixed parts of the first line of its message, in their order."""

    @property
    def source(self) -> str:
        """Release, file and function."""
        releases = self.first if self.first == self.last else f"{self.first} to {self.last}"
        return f"vLLM {releases}, {self.file} {self.function}".rstrip()

    @property
    def fixed(self) -> int:
        """Characters of the fixed parts."""
        return sum(map(len, self.parts))

    def says(self, message: str) -> bool:
        """Whether a message has all parts in their order, or, where a log cut it, the first of them."""
        at = 0
        for part in self.parts:
            found = message.find(part, at)
            if found < 0:
                return False
            at = found + len(part)
        return self.fixed >= LEAST_SHARE * min(len(message), at)


def engine_error(type_name: str, message: str) -> EngineError | None:
    """Return the error of the engine with this message; of several the one with the longest fixed parts."""
    line = message[:MOST]
    found = [each for each in _errors() if each.says(line)]
    same = [each for each in found if each.type == type_name] or found
    return max(same, key=lambda each: (each.fixed, each.file), default=None)


@cache
def _errors() -> Sequence[EngineError]:
    rows = json.loads(gzip.decompress(FILE.read_bytes()))
    return tuple(
        EngineError(name, file, function, first, last, tuple(parts))
        for name, file, function, first, last, parts in rows
    )
