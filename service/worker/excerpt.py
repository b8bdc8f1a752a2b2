"""Returns the end of a child's log without secrets and private paths, which must not leave the node."""

import re
from pathlib import Path
from typing import Final

from service.redaction import hide_secrets

LONGEST: Final = 8192
"""Characters of an excerpt at most."""
_SECRETS: Final = re.compile(
    r"\b(?:hf|dry|sk|ghp|glpat)[_-][\w-]{8,}|(?i:bearer\s+)\S+|(?i:(?:token|password|secret|key)\s*[=:]\s*)\S+"
)
_HOMES: Final = re.compile(r"/(?:home|Users)/[^/\s:]+|/root\b")


def excerpt(log: str, folder: Path) -> str:
    """Return the last lines of a log, with tokens and private paths masked."""
    text = log.replace(str(folder), ".")
    text = _HOMES.sub("~", _hidden(text))
    return text if len(text) <= LONGEST else text[-LONGEST:].partition("\n")[2]


def last_error(log: str) -> str:
    """Return the last line that names an error, else the last line; at most 500 characters."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\b\w*(?:Error|Exception)\b:", line)]
    return _hidden((errors or lines or ["the child wrote nothing"])[-1])[:500]


def _hidden(text: str) -> str:
    return hide_secrets(_SECRETS.sub("***", text))
