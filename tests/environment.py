"""Variables by which the shell of whoever runs the tests would change their outcome."""

import os
from typing import Final

from coverage import Coverage

PREFIXES: Final = ("DRYSERVE_", "HF_", "OTEL_", "HUGGING_FACE_", "HUGGINGFACE_")
"""Of the service's own settings, and of tools that read theirs: the Hub's, and OpenTelemetry's."""
NAMES: Final = frozenset(
    {"XDG_CACHE_HOME", "COLUMNS", "NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "TERM_PROGRAM"}
)
"""Of caches, and of how wide and how coloured text is printed."""
PROXIES: Final = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy", "ftp_proxy"})


def is_cleared(name: str) -> bool:
    """Return whether tests must not see a variable of the environment."""
    return name.startswith(PREFIXES) or name in NAMES or name.lower() in PROXIES


def clear_environment() -> None:
    """Remove these variables from this process, and so from every process that tests start."""
    for name in tuple(filter(is_cleared, os.environ)):
        del os.environ[name]


def is_traced() -> bool:
    """Return whether coverage is measured, which slows every line down and takes locks of its own."""
    return Coverage.current() is not None
