"""Tells which of the arguments that an engine prints, all of them, were given."""

from collections.abc import Mapping
from typing import Any, Final

from packaging.version import InvalidVersion, Version

from service.bundled_toml import read_toml

_TABLES: Final = read_toml("service.startup_log.environment", "printed_defaults.toml")
_ALWAYS: Final[Mapping[str, Any]] = _TABLES["always"]
_UNTIL: Final[tuple[tuple[Version, Mapping[str, Any]], ...]] = tuple(
    (Version(release), values) for release, values in _TABLES["until"].items()
)


def given_of(flags: Mapping[str, Any], release: str | None) -> dict[str, Any]:
    """Return the flags whose value is not the default of the release; of the newest such one without any."""
    defaults = dict(_ALWAYS)
    version = _version(release)
    if version is not None:
        for until, values in _UNTIL:
            defaults |= values if version < until else {}
    return {name: value for name, value in flags.items() if name not in defaults or value != defaults[name]}


def _version(release: str | None) -> Version | None:
    try:
        return Version(release or "")
    except InvalidVersion:
        return None
