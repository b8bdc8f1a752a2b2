"""Says which releases of the engine have a name that could not be imported from it."""

import gzip
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

FILE: Final = Path(__file__).with_name("released_names.json.gz")
"""Names by module and release; tests/startup_log/released_names.py writes it."""
MOST: Final = 600
"""Characters of a message that are read."""
_NAME: Final = re.compile(r"cannot import name '(\w{1,120})' from '(vllm(?:\.\w{1,80}){0,8})'", re.ASCII)
_ATTRIBUTE: Final = re.compile(r"module '(vllm(?:\.\w{1,80}){0,8})' has no attribute '(\w{1,120})'", re.ASCII)
_MODULE: Final = re.compile(r"No module named '(vllm(?:\.\w{1,80}){1,8})'", re.ASCII)


@dataclass(frozen=True, slots=True)
class ReleasedName:
    """A name of the engine, and the releases that have it."""

    name: str
    """With its module; of a module its own name."""
    first: str
    last: str
    """The first and the last of the releases that were read and have it."""
    still: bool
    """The newest release that was read has it."""


def released_name(message: str) -> ReleasedName | None:
    """Return the name that a message of Python says is missing; ``None`` where no release has it."""
    text = message[:MOST]
    if (found := _NAME.search(text)) is not None:
        return _released(found[2], found[1])
    if (found := _ATTRIBUTE.search(text)) is not None:
        return _released(found[1], found[2])
    found = _MODULE.search(text)
    return None if found is None else _released(found[1], "")


def _released(module: str, name: str) -> ReleasedName | None:
    releases: list[str] = _content()["releases"]
    names: Mapping[str, Any] = _content()["modules"].get(module, {})
    if name not in names or name in WRITTEN or module.rpartition(".")[2] in WRITTEN:
        return None
    first, last = names[name]
    words = f"{module}.{name}" if name else module
    return ReleasedName(words, releases[first], releases[last], last == len(releases) - 1)


WRITTEN: Final = frozenset({"_version", "commit_id"})
"""Modules that the building of a release writes, so that a checkout which is not built lacks them."""


@cache
def _content() -> Mapping[str, Any]:
    content: Mapping[str, Any] = json.loads(gzip.decompress(FILE.read_bytes()))
    return content
