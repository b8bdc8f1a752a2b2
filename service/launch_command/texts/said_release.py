"""Finds the release that the lines around a start say: the engine's own banner, or a list of versions."""

import re
from typing import Final

from service.launch_command.launch import LaunchRelease

_VERSION: Final = r"v?(?P<version>[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}(?:\.?(?:post|rc)[0-9]{1,3})?)"
_SAID: Final = (
    re.compile(rf"\bvLLM (?:API )?server version {_VERSION}(?![\w.])"),
    re.compile(rf"\bInitializing an? (?:V1 )?LLM engine \({_VERSION}\)"),
    re.compile(rf"█[ \t]+version {_VERSION}(?![\w.+])"),
    re.compile(rf"\bvllm-openai:{_VERSION}(?![\w.])"),
    # A line of a list of versions: pip freeze, collect_env, a person's.
    re.compile(
        rf"^[ \t>*-]*(?:vLLM(?: version)?)[ \t]*(?:==|[:=\uff1a]|[ \t])[ \t]*{_VERSION}[ \t]*$",
        re.IGNORECASE | re.MULTILINE,
    ),
)


def said_release(text: str) -> LaunchRelease | None:
    """Return the release that a text says in a line of its own; ``None`` where it says none, or several."""
    found = {each["version"]: each for pattern in _SAID for each in pattern.finditer(text)}
    if len(found) != 1:
        return None
    ((version, line),) = found.items()
    number = text.count("\n", 0, line.start("version")) + 1
    return LaunchRelease(version, f"line {number} of the text says vLLM {version}")
