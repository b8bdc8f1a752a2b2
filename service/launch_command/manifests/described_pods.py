"""Starts in what ``kubectl describe`` prints of a pod."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from service.launch_command.launch import Invocation, LaunchForm, Word
from service.launch_command.manifests.document_values import GPU_RESOURCE, references_replaced, whole_of
from service.launch_command.shell.starts import argv_starts, entrypoint_start

DESCRIBED: Final = re.compile(r"^[ \t│|]*(?:Command|Args):[ \t│|]*$", re.MULTILINE)
"""A line above the words of a container, one a line."""
_FRAME: Final = re.compile(r"^[│|]|[ \t]*[│|]?[ \t]*$")
_KEY: Final = re.compile(r"([A-Za-z][\w. /-]{0,80}?):(?:[ \t]+(.*))?")
_LISTS: Final = frozenset({"Command", "Args"})
_TABLES: Final = frozenset({"Limits", "Requests", "Environment"})


@dataclass(slots=True)
class _Described:
    """A container as it is printed."""

    image: str = ""
    words: list[Word] = field(default_factory=list)
    has_command: bool = False
    environment: dict[str, Word] = field(default_factory=dict)
    gpus: int | None = None


def described_starts(text: str) -> Iterator[Invocation]:
    """Yield the starts of the containers that ``kubectl describe pod`` prints.

    Source: Kubernetes 1.34, kubectl/pkg/describe: describeContainers.
    """
    lines = [_FRAME.sub("", line) for line in text.split("\n")]
    for found in _containers(lines):
        environment = found.environment
        words = [
            replace(references_replaced(word.text, environment, word.line), line=word.line)
            for word in found.words
        ]
        starts = (
            argv_starts(words, environment, LaunchForm.KUBERNETES, image=found.image or None)
            if found.has_command
            else entrypoint_start(words, environment, LaunchForm.KUBERNETES, found.image)
        )
        for start in starts:
            gpus = found.gpus or start.placement.gpus_per_node
            yield replace(start, placement=replace(start.placement, gpus_per_node=gpus))


def _containers(lines: Sequence[str]) -> Iterator[_Described]:
    found, section, depth = _Described(), "", 0
    for number, line in enumerate(lines, 1):
        stripped = line.strip()
        indent = len(line) - len(line.lstrip())
        if not stripped:
            continue
        if section and indent > depth:
            _take(found, section, Word(stripped, number))
            continue
        key = _KEY.fullmatch(stripped)
        section, depth = (key[1], indent) if key is not None and key[1] in _LISTS | _TABLES else ("", 0)
        if key is not None and key[1] == "Image":
            yield found
            found = _Described(image=(key[2] or "").strip())
    yield found


def _take(found: _Described, section: str, word: Word) -> None:
    """Keep a line of a section."""
    if section in _LISTS:
        found.words.append(word)
        found.has_command = found.has_command or section == "Command"
    elif section in _TABLES and (key := _KEY.fullmatch(word.text)) is not None:
        name, value = key[1], (key[2] or "").strip()
        if section == "Environment":
            missing = (name,) if value.startswith("<") else ()
            found.environment[name] = Word("" if missing else value, word.line, missing)
        elif GPU_RESOURCE.fullmatch(name):
            found.gpus = whole_of(value)
