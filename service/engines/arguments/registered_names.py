"""What each release has under a name that a flag gives: parsers, tokenizers, formats of a config.

``registered_names.toml`` is written by ``python -m tests.oracle.registered_names`` from the source of every
release.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from packaging.version import Version

from service.bundled_toml import read_toml
from service.engines.arguments.arguments import members_at

NAMING_FLAGS: Final = ("tool_call_parser", "reasoning_parser", "tokenizer_mode", "config_format")


@cache
def _names() -> Mapping[str, Any]:
    return read_toml("service.engines.arguments", "registered_names.toml")


@cache
def registered_names(flag: str, release: Version) -> tuple[str, ...]:
    """Return what a release registers itself, of what one of ``NAMING_FLAGS`` names."""
    return members_at(_names()[flag], release)
