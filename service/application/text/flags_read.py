"""Says which flags of a start were read where no plan shows them as a command."""

import json
import shlex
from collections.abc import Iterator
from typing import Any, Final

from service.application.text.words import cut
from service.startup_log.log import StartupLog

MOST: Final = 400
"""Characters of flags that are shown."""


def flags_read(log: StartupLog) -> Iterator[str]:
    """Yield the flags of a start as they were read: those that plans take with their values."""
    words = [_flag(name, value) for name, value in log.flags.items() if name != "model"]
    if words:
        yield f"Flags read: {cut(' '.join(words), MOST)}"
    if log.unmodelled:
        names = " ".join(f"--{name.replace('_', '-')}" for name in log.unmodelled)
        yield f"Read without their values, which no plan takes: {cut(names, MOST)}"


def _flag(name: str, value: Any) -> str:  # noqa: ANN401 - whatever the log shows
    option = f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        return option if value else f"--no-{option.removeprefix('--')}"
    return f"{option} {shlex.quote(value if isinstance(value, str) else json.dumps(value, default=str))}"
