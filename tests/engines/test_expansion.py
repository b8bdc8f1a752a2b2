"""Every rule of every release, against the values that were recorded when changes were still restated whole.

The recording was made before changes could be stated as additions and removals. Rules that were added since
are not in it. If a release turns out to behave otherwise, change the recorded value too, and give the source
in the commit.
"""

import gzip
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from service.engines.releases import RELEASES, RULES, rules_for

RECORDED = Path(__file__).parents[1] / "data" / "engines" / "expanded.json.gz"


@cache
def recorded() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """Return the values by release, topic and field."""
    found: Mapping[str, Mapping[str, Mapping[str, Any]]] = json.loads(gzip.decompress(RECORDED.read_bytes()))
    return found


def plain(value: object) -> object:
    """Return a value as JSON states it: sets as sorted lists, records as tables."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, frozenset):
        return sorted(map(plain, value), key=str)
    if isinstance(value, tuple):
        return list(map(plain, value))
    return value


@pytest.mark.parametrize("release", [str(release) for release in RELEASES if str(release) in recorded()])
def test_every_rule_has_its_recorded_value(release: str) -> None:
    rules, expected = rules_for(Version(release)), recorded()[release]
    found = {rule.name: plain(rule.of(rules)) for rule in RULES if rule.field in expected.get(rule.topic, {})}
    assert found == {rule.name: expected[rule.topic][rule.field] for rule in RULES if rule.name in found}


def test_the_recording_covers_the_rules() -> None:
    """No recorded release or rule is gone: a renamed rule would be compared with nothing."""
    assert set(recorded()) <= set(map(str, RELEASES))
    names = {rule.name for rule in RULES}
    for topics in recorded().values():
        assert {f"{topic}.{field}" for topic, entries in topics.items() for field in entries} <= names
