"""Puts placeholders where a text has expressions of a template that nobody has rendered yet."""

import re
from typing import Final

_EXPRESSION: Final = re.compile(r"\{\{-?[ \t]*([.$/A-Za-z][^{}\n]{0,200}?)[ \t]*-?\}\}")
"""An expression of Go's or Jinja's templates; what begins with a quote is JSON in a program's text."""
_VALUE: Final = re.compile(r"\.?([A-Za-z_][\w.-]{0,59})")
_OF_CHART: Final = re.compile(r"\.Values\.([\w.-]{1,50})")
_CONTROLLING: Final = re.compile(rf"[ \t]*(?:{_EXPRESSION.pattern}[ \t]*)+")
NOT_RENDERED: Final = "The template is not rendered: what its expressions stand for is not known."


def with_placeholders(text: str) -> str:
    """Return a text with ``<name>`` for each expression of a template; lines of nothing else become blank."""
    if "{{" not in text:
        return text
    return "\n".join(
        "" if _CONTROLLING.fullmatch(line) else _EXPRESSION.sub(_placeholder, line)
        for line in text.split("\n")
    )


def _placeholder(found: re.Match[str]) -> str:
    named = _OF_CHART.search(found[1]) or _VALUE.search(found[1])
    return f"<{named[1]}>" if named else "<value>"
