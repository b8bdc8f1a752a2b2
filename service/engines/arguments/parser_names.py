"""The parsers of tool calls and of reasoning that each release has.

``parser_names.toml`` is written by ``python -m tests.oracle.parser_names`` from the source of every release.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from packaging.version import Version

from service.bundled_toml import read_toml
from service.engines.arguments.arguments import members_at

PARSER_FLAGS: Final = ("tool_call_parser", "reasoning_parser")


@cache
def _names() -> Mapping[str, Any]:
    return read_toml("service.engines.arguments", "parser_names.toml")


@cache
def parser_names(flag: str, release: Version) -> tuple[str, ...]:
    """Return the parsers that a release registers itself, of those that one of ``PARSER_FLAGS`` names."""
    return members_at(_names()[flag], release)
