"""What replaces arguments and variables that releases removed."""

from collections.abc import Mapping
from functools import cache

from service.bundled_toml import read_toml


@cache
def _successors() -> Mapping[str, Mapping[str, str]]:
    return read_toml("service.engines.arguments", "successors.toml")


def successor_of(spelling: str) -> str:
    """Return what to pass in place of a removed argument or variable, to follow its name; else nothing."""
    found = _successors().get(spelling.replace("_", "-"))
    return "" if found is None else found["says"].strip()
