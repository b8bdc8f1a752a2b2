"""How tables of changes become timelines: what each kind of change does, and what is refused."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from service.engines.dated import parse_value, read_timeline, read_timelines, record_at
from service.engines.timeline import InvalidTimeline

FIRST, SECOND, THIRD = "0.10.2", "0.11.0", "0.12.0"
SOURCE = "vLLM 0.12.0, config/cache.py CacheConfig"
WORDS = tuple[str, ...]


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Case:
    name: str
    sizes: tuple[int, ...] = ()
    limit: int | None = None


@dataclass(frozen=True)
class Rules:
    words: tuple[str, ...]
    limit: int | None


def change(**stated: object) -> dict[str, Any]:
    return {"source": SOURCE, **stated}


def last(annotation: object, *changes: Mapping[str, Any]) -> Any:  # noqa: ANN401 - of the annotated type
    """Return the value after some changes, one a release."""
    table = dict(zip((FIRST, SECOND, THIRD), changes, strict=False))
    return read_timeline("topic.rule", table, annotation).at(Version(THIRD))


names = st.text("abcdef", min_size=1, max_size=3)
unique = st.lists(names, unique=True, max_size=6)


@st.composite
def old_and_new(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """Draw two lists that share no member; the second is not empty."""
    members = draw(st.lists(names, unique=True, min_size=1, max_size=8))
    cut = draw(st.integers(0, len(members) - 1))
    return members[:cut], members[cut:]


@given(old_and_new())
def test_what_is_added_and_then_removed_from_a_set_leaves_the_old_one(
    lists: tuple[list[str], list[str]],
) -> None:
    old, new = lists
    changes = change(value=old), change(add=new), change(remove=new)
    assert last(frozenset[str], *changes[:2]) == {*old, *new}
    assert last(frozenset[str], *changes) == set(old)


@given(old_and_new(), st.data())
def test_what_is_added_and_then_removed_from_a_list_leaves_the_old_one(
    lists: tuple[list[str], list[str]], data: st.DataObject
) -> None:
    old, new = lists
    place = data.draw(st.integers(0, len(old)))
    before = {"before": old[place]} if place < len(old) else {}
    changes = change(value=old), change(add=new, **before), change(remove=new)
    grown = last(WORDS, *changes[:2])
    assert grown == (*old[:place], *new, *old[place:])
    assert last(WORDS, *changes) == tuple(old)


@given(old_and_new(), st.integers())
def test_what_is_added_and_then_removed_from_a_map_leaves_the_old_one(
    lists: tuple[list[str], list[str]], number: int
) -> None:
    old, new = ({name: number + place for place, name in enumerate(each)} for each in lists)
    changes = change(value=old), change(add=new), change(remove=list(new))
    assert last(Mapping[str, int], *changes[:2]) == {**old, **new}
    assert last(Mapping[str, int], *changes) == old


@given(old_and_new())
def test_one_change_may_add_and_remove(lists: tuple[list[str], list[str]]) -> None:
    old, new = lists
    assert last(frozenset[str], change(value=old), change(add=new, remove=old)) == set(new)
    assert last(WORDS, change(value=old), change(add=new, remove=old)) == tuple(new)


@given(unique)
def test_a_change_holds_until_the_next_one(words: list[str]) -> None:
    timeline = read_timeline("topic.rule", {FIRST: change(value=words), THIRD: change(value=["z"])}, WORDS)
    assert timeline.at(Version(FIRST)) == timeline.at(Version("0.11.9")) == tuple(words)
    assert timeline.at(Version("0.40.0")) == ("z",)
    with pytest.raises(LookupError):
        timeline.at(Version("0.10.1"))


def test_an_added_entry_of_a_map_may_replace_one() -> None:
    assert last(Mapping[str, int], change(value={"a": 1, "b": 2}), change(add={"a": 3})) == {"a": 3, "b": 2}


def test_members_are_removed_by_value_whatever_their_type() -> None:
    cases = [{"name": "a", "sizes": [16]}, {"name": "b"}]
    assert last(tuple[Case, ...], change(value=cases), change(remove=cases[:1])) == (Case("b"),)
    added = last(tuple[Case, ...], change(value=cases), change(add=[{"name": "c"}], before={"name": "b"}))
    assert [case.name for case in added] == ["a", "c", "b"]
    colours = change(value=["red", "blue"]), change(remove=["red"])
    assert last(frozenset[Colour], *colours) == {Colour.BLUE}


def test_a_value_may_be_absent_where_the_annotation_allows_it() -> None:
    assert last(int | None, change(value=5), change(none=True)) is None
    assert last(frozenset[str] | None, change(value=["a"]), change(add=["b"])) == {"a", "b"}


@pytest.mark.parametrize(
    ("annotation", "raw", "value"),
    [
        (bool, True, True),
        (float, 2, 2.0),
        (Colour, "red", Colour.RED),
        (tuple[str, int], ["a", 1], ("a", 1)),
        (Mapping[str, tuple[int, ...]], {"a": [1, 2]}, {"a": (1, 2)}),
        (Case, {"name": "a", "limit": 3}, Case("a", (), 3)),
    ],
)
def test_values_are_read_by_annotation(annotation: object, raw: object, value: object) -> None:
    found = parse_value(annotation, raw)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("annotation", "stated", "reason"),
    [
        pytest.param(int, {"value": 1, "until": "0.12.0"}, "unknown keys.*until", id="unknown key"),
        pytest.param(int, {"value": 1, "none": True}, "one of value, none", id="two ways"),
        pytest.param(int, {}, "one of value, none", id="no way"),
        pytest.param(int, {"value": "1"}, "'1' is not", id="text for a number"),
        pytest.param(int, {"value": True}, "True is not", id="truth value for a number"),
        pytest.param(bool, {"value": 1}, "1 is not", id="number for a truth value"),
        pytest.param(str, {"value": 1.5}, "1.5 is not", id="number for a text"),
        pytest.param(WORDS, {"value": "ab"}, "no list", id="text for a list"),
        pytest.param(WORDS, {"value": {"a": "b"}}, "no list", id="map for a list"),
        pytest.param(Mapping[str, int], {"value": ["a=1"]}, "no table", id="list for a map"),
        pytest.param(Mapping[str, int], {"value": {"a": "1"}}, "'1' is not", id="wrong entry of a map"),
        pytest.param(Colour, {"value": "green"}, "green", id="no member of the enumeration"),
        pytest.param(Case, {"value": {"name": "a", "size": 1}}, "unknown keys.*size", id="unknown field"),
        pytest.param(Case, {"value": {"sizes": [1]}}, "absent keys.*name", id="absent field"),
        pytest.param(tuple[str, str], {"value": ["a"]}, "argument 2", id="too short"),
        pytest.param(tuple[str, str], {"value": ["a", "b", "c"]}, "argument 2", id="too long"),
        pytest.param(frozenset[str], {"value": ["a", "a"]}, "stand twice", id="repeated member"),
        pytest.param(int, {"none": True}, "None", id="none without None in the annotation"),
        pytest.param(int | None, {"none": False}, "none = true", id="none that is not true"),
        pytest.param(WORDS, {"add": ["b"], "before": "c"}, "c", id="before an absent item"),
        pytest.param(WORDS, {"add": ["b"], "remove": ["a"], "before": "a"}, "a", id="before a removed item"),
        pytest.param(WORDS, {"remove": ["a"], "before": "a"}, "none are added", id="before without add"),
        pytest.param(frozenset[str], {"add": ["b"], "before": "a"}, "no order", id="before in a set"),
        pytest.param(WORDS, {"add": ["a"]}, "were there before", id="added again"),
        pytest.param(WORDS, {"remove": ["b"]}, "were not there before", id="removed without being there"),
        pytest.param(WORDS, {"add": ["b", "b"]}, "stand twice", id="added twice"),
        pytest.param(WORDS, {"remove": "a"}, "no list", id="removed as a text"),
        pytest.param(tuple[str, str], {"add": ["c"]}, "no collection", id="added to a pair"),
        pytest.param(int, {"add": [1]}, "no collection", id="added to a number"),
    ],
)
def test_an_invalid_change_is_refused_with_rule_and_release(
    annotation: object, stated: Mapping[str, object], reason: str
) -> None:
    # The oldest change is valid wherever the annotation has collections to add to.
    valid: dict[object, object] = {
        WORDS: ["a"],
        frozenset[str]: ["a"],
        tuple[str, str]: ["a", "b"],
        int: 5,
        int | None: 5,
    }
    table = {SECOND: change(**stated)}
    if annotation in valid:
        table = {FIRST: change(value=valid[annotation]), **table}
    with pytest.raises(InvalidTimeline, match=rf"^topic\.rule in 0\.11\.0: .*{reason}"):
        read_timeline("topic.rule", table, annotation)


@pytest.mark.parametrize(
    ("stated", "reason"),
    [
        ({"add": {"a": 1}}, "were there before"),
        ({"remove": ["b"]}, "were not there before"),
        ({"add": {"a": 2}, "remove": ["a"]}, "added and removed"),
        ({"add": {"b": 1}, "before": "a"}, "no order"),
    ],
)
def test_an_invalid_change_of_a_map_is_refused(stated: Mapping[str, object], reason: str) -> None:
    table = {FIRST: change(value={"a": 1}), SECOND: change(**stated)}
    with pytest.raises(InvalidTimeline, match=rf"^topic\.rule in 0\.11\.0: .*{reason}"):
        read_timeline("topic.rule", table, Mapping[str, int])


@pytest.mark.parametrize("entry", [{"value": 1}, {"value": 1, "source": ""}, {"value": 1, "source": 3}, 1])
def test_a_change_without_a_source_is_refused(entry: object) -> None:
    with pytest.raises(InvalidTimeline, match=r"^topic\.rule in 0\.10\.2: "):
        read_timeline("topic.rule", {FIRST: entry}, int)


@pytest.mark.parametrize("stated", [{"add": ["a"]}, {"remove": ["a"]}])
def test_the_oldest_change_has_nothing_to_change(stated: Mapping[str, object]) -> None:
    with pytest.raises(InvalidTimeline, match="oldest change"):
        read_timeline("topic.rule", {FIRST: change(**stated)}, WORDS)


@pytest.mark.parametrize("releases", [(SECOND, FIRST), (FIRST, "0.10.2.0"), (FIRST, "someday"), ()])
def test_releases_must_be_versions_in_order(releases: tuple[str, ...]) -> None:
    with pytest.raises(InvalidTimeline, match=r"topic\.rule"):
        read_timeline("topic.rule", {release: change(value=1) for release in releases}, int)


def test_every_field_has_a_table_and_every_table_a_field() -> None:
    tables = {"words": {FIRST: change(value=["a"])}, "limit": {FIRST: change(none=True)}}
    timelines = read_timelines("topic", tables, Rules)
    assert record_at(Rules, timelines, Version(SECOND)) == Rules(("a",), None)
    for others in ({"words": tables["words"]}, {**tables, "length": tables["limit"]}):
        with pytest.raises(InvalidTimeline, match=r"limit|length"):
            read_timelines("topic", others, Rules)
