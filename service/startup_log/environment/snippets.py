"""Finds files and programs beside a log that start the engine: Compose, Kubernetes, Python, commands."""

import re
from collections.abc import Iterator, Sequence
from html import unescape
from itertools import chain, islice
from typing import Final

from service.launch_command.command_pairs import text_pairs
from service.launch_command.texts.word_lists import LIST
from service.startup_log.environment.arguments import (
    SENTENCE,
    Arguments,
    arguments_of_pairs,
    without_placeholders,
)

MAX_TEXT: Final = 1 << 18
"""Characters of a text in which snippets are looked for, from its beginning."""
MAX_SNIPPET: Final = 1 << 13
"""Characters of one snippet; a manifest has some hundreds."""
MAX_BLOCKS: Final = 64
"""Blocks of lines that are looked at."""
MAX_SNIPPETS: Final = 8
"""Blocks that are read, of those that may start the engine."""
MAX_LINES: Final = 200
"""Lines of one snippet."""
_FENCE: Final = re.compile(r"\s{0,8}(?:```|~~~)")
_SAYS: Final = ("vllm", "LLM", "EngineArgs", "--model", "model:", " serve ", '"serve"')
"""A snippet that starts the engine holds one of these."""
_OF_REQUEST: Final = ('"messages":', '"messages" :', '"prompt":')
"""What a request to the server holds, which names its model too."""
_DOCUMENT: Final = re.compile(r"(?:services|apiVersion|version|kind|x-[\w-]{1,40}|servingEngineSpec)\s{0,4}:")
_OF_DOCUMENT: Final = re.compile(r"(?:\s|#|-|$|[\w.\"'/-]{1,80}\s{0,4}:(?:\s|$))")
_CALL: Final = re.compile(r"\b(?:LLM|LLMConfig|(?:Async)?EngineArgs)\s{0,4}\(")
_PROMPT: Final = re.compile(r"\s{0,8}(?:>>> ?|\.\.\. ?|In \[\d{1,4}\]: ?)")
_ASSIGNS: Final = re.compile(r"\s{0,40}\w{1,80}\s{0,8}=[^=]")
_SHELL: Final = re.compile(
    r"\b(?:docker|podman|nerdctl|kubectl)\b.{0,200}\b(?:run|exec|create)\b|"
    rf"\bvllm serve\b(?!{SENTENCE})"
)
_LISTED: Final = re.compile(r"\b(?:args|command|entrypoint)\s{0,4}:\s{0,80}\[")
"""The beginning of a container's list of words."""
_QUOTED: Final = re.compile(
    r"[\"']--([a-z][a-z0-9-]{1,60})[\"'],\s{0,80}[\"']([^\"'\n-][^\"'\n]{0,200})[\"']"
)
"""A flag and its value as two items of a list."""
_PLAIN_PROMPT: Final = re.compile(r"\s{0,8}(?:> |\$ )")
_MARKS: Final = re.compile(r"^\s{0,8}`{1,3}|`{1,3}\s{0,8}$")
"""Marks of code around a command on one line."""
_CLOSING: Final = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


def snippet_arguments(text: str) -> Arguments | None:
    """Return the model and the flags of the first snippet that names a model; ``None`` without any."""
    lines = text[:MAX_TEXT].replace("\r", "").split("\n")
    for snippet in islice(_snippets(lines), MAX_SNIPPETS):
        pairs = text_pairs(snippet)
        if any(name == "model" for name, _ in pairs):
            return arguments_of_pairs(pairs)
    return _of_cut_list(text[:MAX_TEXT])


def _of_cut_list(text: str) -> Arguments | None:
    """Return what a container's list of words says whose end was cut; ``None`` without a model."""
    begin = _LISTED.search(text)
    if begin is None:
        return None
    pairs = [(each[1].replace("-", "_"), each[2]) for each in _QUOTED.finditer(text, begin.start())]
    return arguments_of_pairs(pairs) if any(name == "model" for name, _ in pairs) else None


def _snippets(lines: Sequence[str]) -> Iterator[str]:
    """Yield what may start the engine: fenced blocks first, since their ends are certain."""
    blocks = chain(_fenced(lines), _documents(lines), _calls(lines), _lists(lines), _commands(lines))
    for each in islice(blocks, MAX_BLOCKS):
        snippet = without_placeholders(unescape("\n".join(each[:MAX_LINES])))[:MAX_SNIPPET]
        of_request = any(map(snippet.__contains__, _OF_REQUEST)) and "--" not in snippet
        if any(map(snippet.__contains__, _SAYS)) and not of_request:
            yield snippet


def _fenced(lines: Sequence[str]) -> Iterator[Sequence[str]]:
    begin: int | None = None
    for at, line in enumerate(lines):
        if _FENCE.match(line):
            if begin is not None:
                yield lines[begin:at]
            begin = at + 1 if begin is None else None


def _documents(lines: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the lines of YAML documents that begin with a key that Compose or Kubernetes have."""
    end = 0
    for at, line in enumerate(lines):
        if at < end or not _DOCUMENT.match(line):
            continue
        end = next((k for k in range(at, len(lines)) if not _OF_DOCUMENT.match(lines[k])), len(lines))
        yield lines[at:end]


def _calls(lines: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield calls of the engine's classes up to their closing bracket, with the assignments above them."""
    for at, line in enumerate(lines):
        if _CALL.search(line) is None or line.lstrip().startswith(("def ", "class ", "#", "File ")):
            continue
        block: list[str] = []
        depth = 0
        for below in lines[at : at + MAX_LINES]:
            block.append(_PROMPT.sub("", below, count=1))
            depth += sum(_CLOSING.get(each, 0) for each in below[:MAX_SNIPPET])
            if depth <= 0:
                break
        begin = at
        while (
            begin and at - begin < MAX_SNIPPETS and _ASSIGNS.match(_PROMPT.sub("", lines[begin - 1], count=1))
        ):
            begin -= 1
        yield [each.strip() for each in (*lines[begin:at], *block)]


def _lists(lines: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the lines around a command that is a list of words: names above it, what is added below it."""
    text = "\n".join(lines)
    for found in LIST.finditer(text):
        at = text.count("\n", 0, found.start())
        yield lines[max(0, at - MAX_SNIPPETS) : at + MAX_LINES]


def _commands(lines: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield commands with the lines that continue them."""
    for at, line in enumerate(lines):
        if _SHELL.search(line) is None:
            continue
        end = at + 1
        while end < len(lines) and end - at < MAX_LINES and lines[end - 1].rstrip().endswith("\\"):
            end += 1
        yield [_PLAIN_PROMPT.sub("", _MARKS.sub("", each), count=1) for each in lines[at:end]]
