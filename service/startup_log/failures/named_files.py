"""Places an exception without calls in the only file of the engine that a person names beside it."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from service.startup_log.catalogue.origins import likely_origin
from service.startup_log.errors.known_classes import file_of_call
from service.startup_log.errors.tracebacks import Frame
from service.startup_log.failures.logged_failure import Failure
from service.startup_log.text.lines import LogLine

_FILE: Final = re.compile(r"(?<![\w./-])(?:\S{1,120}/)?(vllm/(?:[\w-]{1,60}/){1,8}[\w-]{1,80}\.py)\b")
"""A file of the engine, with its path."""
_PLACE: Final = re.compile(r"(?<![\w./-])([a-z]\w{2,60}\.py):\d{1,6}\b")
"""The name of a file with a line, as people shorten a call of a traceback: `core_client.py:630`."""
_FUNCTION: Final = re.compile(r"(?i)\bfunction[*_:` ]{1,8}([a-z_]\w{2,80})\b|`([a-z_]\w{2,80})\(\)`")


def with_named_file(failure: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return an exception without a cause and without calls with the part whose file the text names."""
    if failure.cause is not None or failure.frames or not failure.type or failure.raised_in is not None:
        return failure
    said = [line.text for line in lines if not line.is_logged]
    paths = {found[1] for text in said for found in _FILE.finditer(text)}
    paths = paths or {file_of_call(found[1], "") for text in said for found in _PLACE.finditer(text)} - {""}
    if len(paths) != 1:
        return failure
    functions = (found[1] or found[2] for text in said for found in _FUNCTION.finditer(text))
    frames = (Frame(f"/{paths.pop()}", next(functions, "")),)
    origin = likely_origin(failure.type, failure.message, frames)
    if origin.cause is None:
        return failure
    return replace(failure, cause=origin.cause, origin=origin, frames=frames, follows=False)
