"""Reads which variables a text sets for the engine, and which flags and variables a person has tried."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from service.startup_log.environment.host_facts import ENDS, HELPED, IN_VAIN
from service.startup_log.text.lines import LogLine

MOST: Final = 128
"""Settings of a text that are kept."""
_VALUE: Final = r"[\"']?([A-Z][A-Z0-9_]{3,60})=[\"']?([\w./:,-]{1,80})[\"']?"
_SETS: Final = re.compile(
    rf"(?:^(?:[$#>] ?)?(?:export |set |ENV |env |sudo |- |Environment=)?|(?<=\s)(?:-e|--env)[ =]){_VALUE}"
)
"""A variable that a shell, docker, Compose or a unit sets: at the beginning of a line or behind -e."""
_MORE: Final = re.compile(rf"\s{_VALUE}(?=\s)")
"""The next one of the same line, before the command."""
_IN_PROGRAM: Final = re.compile(
    r"os\.environ\[[\"']([A-Z][A-Z0-9_]{3,60})[\"']\]\s?=\s?[\"']([\w./:,-]{1,80})[\"']"
)
_IN_YAML: Final = re.compile(r"^[\"']?([A-Z][A-Z0-9_]{3,60})[\"']?: [\"']?([\w./,-]{1,80})[\"']?,?$")
_NAMED: Final = re.compile(
    r"(?<![\w-])(--[a-z][a-z0-9-]{2,60})(?![\w-])|(?<![\w-])([A-Z][A-Z0-9_]{3,60}=[\w./:-]{1,40})"
)


def given_settings(lines: Sequence[LogLine]) -> tuple[str, ...]:
    """Return variables as ``NAME=value``, and flags that did not help, as they are written."""
    found: dict[str, None] = {}
    for each in _found(lines):
        found.setdefault(each)
        if len(found) == MOST:
            break
    return tuple(found)


def _found(lines: Sequence[LogLine]) -> Iterator[str]:
    for line in lines:
        if line.origin is not None or line.level:
            continue
        if "=" in line.text or ": " in line.text:
            yield from _variables(line.text)
        if ("--" in line.text or "=" in line.text) and IN_VAIN.search(line.text.lower()):
            yield from _in_vain(line.text)


def _in_vain(text: str) -> Iterator[str]:
    """Yield what a person has tried, of sentences that do not say that it helped."""
    for sentence in ENDS.split(text):
        said = sentence.lower()
        if IN_VAIN.search(said) and not HELPED.search(said):
            yield from (each[1] or each[2] for each in _NAMED.finditer(sentence))


def _variables(text: str) -> Iterator[str]:
    for pattern in (_IN_PROGRAM, _IN_YAML):
        yield from (f"{each[1]}={each[2]}" for each in pattern.finditer(text))
    for each in _SETS.finditer(text):
        yield f"{each[1]}={each[2]}"
        at = each.end()
        while (more := _MORE.match(text, at)) is not None:
            yield f"{more[1]}={more[2]}"
            at = more.end()
