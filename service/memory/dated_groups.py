"""Reads groups of dated constants from the TOML files of this package."""

from collections.abc import Hashable, Mapping
from functools import cache
from typing import Any, TypeVar

from packaging.version import Version

from service.bundled_toml import read_toml
from service.engines.dated import read_timelines, record_at
from service.engines.timeline import Timeline

Group = TypeVar("Group", bound=Hashable)


def group_at(group: type[Group], release: Version, data: str, table: str | None = None) -> Group:
    """Return a group of constants as they are in a release.

    ``data`` is a TOML file below ``service/memory``; ``table`` names the table in it that holds the group,
    ``None`` means that the whole file does.

    Raises:
        LookupError: the release is older than the first dated change.
    """
    return record_at(group, _timelines(group, data, table), release)


@cache
def _timelines(group: type, data: str, table: str | None) -> Mapping[str, Timeline[Any]]:
    tables = _bundled(data)
    return read_timelines(data if table is None else table, tables if table is None else tables[table], group)


@cache
def _bundled(data: str) -> Mapping[str, Any]:
    return read_toml("service.memory", data)
