"""Reads single headers of a request as the server hands them over.

Starlette's own view of them encodes the name and decodes every value that it passes, for each look-up.
"""

from starlette.types import Scope


def header(scope: Scope, name: bytes) -> str:
    """Return the first value of a header, by its name in lower case; empty where there is none."""
    for each, value in scope["headers"]:
        if each == name:
            text: str = value.decode("latin-1")
            return text
    return ""
