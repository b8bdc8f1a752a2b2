"""Finds lines of a text that no failing program wrote: lists of packages, and source beside calls."""

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from service.startup_log.errors.shown_code import below_calls
from service.startup_log.errors.tracebacks import BELOW_A_HEADING, COLLECTS, is_numbered_source
from service.startup_log.text.lines import LogLine
from service.startup_log.text.pytest_reports import ERROR_MARK, call_of

_PINNED: Final = re.compile(r"^[A-Za-z0-9][\w.-]{0,80}==\d[\w.+!-]{0,60}$", re.ASCII)
"""A package as `pip freeze` and collect_env print it."""
_LISTED: Final = re.compile(
    r"^[a-z0-9_][\w.-]{0,80} {2,60}\d[\w.+!]{0,40}(?: {2,60}[\w.+-]{1,80}){0,2}$", re.ASCII
)
"""A package as `pip list` and `conda list` print it: name, version, build, channel."""
_HEAD: Final = re.compile(r"^(?:(?:async )?def \w{1,120}\(|@pytest\.)", re.ASCII)
"""The first line of a function's source in a report of pytest; the marks of a test stand above it."""
_PLACE: Final = re.compile(r"^/?[\w./-]{3,300}\.py:[0-9]{1,7}:", re.ASCII)
"""Where pytest says that a call stands, below the source: _pytest/_code/code.py ReprFileLocation."""
_NO_RUNTIME: Final = "No CUDA runtime is found"
"""torch, utils/cpp_extension.py: said wherever the file is imported without a GPU, as where one only asks."""
_STEP: Final = re.compile(r"^#\d{1,4} ", re.ASCII)
"""Head of a step of an image's build, and of what it prints: BuildKit, util/progress/progressui."""
_NOTED: Final = re.compile(r"^(?:frame #\d{1,3}: |\[\[.{1,300}\bcuInit\(\)=\d{1,4}\]\]$)", re.ASCII)
"""A call of C++ below an error, which names classes that raised nothing: PyTorch, c10/util/Backtrace.cpp; and
what the entry point of NVIDIA's images says of a driver with which it goes on."""
_NOT_BUILT: Final = "failed to solve: "
_CANCELED: Final = "failed to solve: Canceled"
_BUILT: Final = (_CANCELED, " naming to ", " exporting to image")
"""What BuildKit writes of a build that failed, that somebody ended, and that has an image."""
_FENCE: Final = "```"
_COMMANDS: Final = ("export ", "docker run ", "sudo docker run ", "vllm serve ", "python -m ", "python3 -m ")
"""Beginnings of lines that start a program or set what it reads."""


def of_no_program(lines: Sequence[LogLine], raised: AbstractSet[int] = frozenset()) -> set[int]:
    """Return the positions of lines whose words say nothing of a failure.

    ``raised``: positions of lines that hold an exception, as the output behind a command on its line.
    """
    listed = {at for at, line in enumerate(lines) if is_listed(line.text) or is_numbered_source(at, lines)}
    listed |= {at for at, line in enumerate(lines) if at not in raised and is_command(line)}
    listed |= {at for at, line in enumerate(lines) if _NOTED.match(line.text)}
    return listed | source_of_tests(lines) | set(below_calls(lines))


def of_whole_builds(lines: Sequence[LogLine]) -> set[int]:
    """Return the positions of what the steps of an image's build print which did not fail."""
    steps = {at for at, line in enumerate(lines) if _STEP.match(line.text)}
    ended = steps and any(words in line.text for line in lines for words in _BUILT)
    failed = any(_NOT_BUILT in line.text and _CANCELED not in line.text for line in lines)
    return steps if ended and not failed else set()


def without_devices(lines: Sequence[LogLine]) -> set[int]:
    """Return the positions at which torch says, while collect_env runs, that it finds no CUDA runtime."""
    collects = [at for at, line in enumerate(lines) if COLLECTS in line.text]
    near = {each for at in collects for each in range(max(0, at - BELOW_A_HEADING), at + BELOW_A_HEADING)}
    return {at for at in near if at < len(lines) and _NO_RUNTIME in lines[at].text}


def is_command(line: LogLine) -> bool:
    """Whether a line is a command of a shell, which says what is to be started and not what happened."""
    return line.text.startswith(_COMMANDS) and not (line.level or line.origin)


def is_listed(text: str) -> bool:
    """Whether a line is a package with its version."""
    return (_PINNED if "==" in text else _LISTED).match(text) is not None


def source_of_tests(lines: Sequence[LogLine]) -> set[int]:
    """Return the positions of the source that pytest shows of a function that failed.

    It begins at the function's head, and ends at the exception, or at the place of the next call; what has
    neither below is not shown by pytest.
    """
    found: set[int] = set()
    head: int | None = None
    for at, line in enumerate(lines):
        if line.level or line.text.startswith(_FENCE):
            head = None
        elif head is None:
            head = at if _HEAD.match(line.text) else None
        elif line.text.startswith(ERROR_MARK) or call_of(line.text) or _PLACE.match(line.text):
            found.update(range(head, at))
            head = None
    return found
