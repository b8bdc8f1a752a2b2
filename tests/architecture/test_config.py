import json
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.architecture import config
from service.architecture.config import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_DIMENSION,
    Config,
    InvalidConfig,
    parse_config,
    read_document,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1]", "not a JSON object"),
        ("{", "not JSON"),
        ('{"a": ' + "[" * 100_000, "not JSON"),
        ('{"a": ' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1), "nested"),
        ('{"a": "' + "x" * MAX_BYTES + '"}', "larger"),
    ],
)
def test_a_document_that_is_no_config_is_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        parse_config(text)


def test_depth_at_the_limit_is_read() -> None:
    parse_config('{"a": ' * (MAX_DEPTH - 1) + "1" + "}" * (MAX_DEPTH - 1))


@given(st.dictionaries(st.sampled_from(["n", "f", "b", "s", "l", "o"]), json_values))
def test_reading_any_document_raises_nothing_else(document: dict[str, object]) -> None:
    config = read_document(document)
    readers: list[Callable[[], object]] = [
        lambda: config.integer("n", default=1),
        lambda: config.count("n", default=1),
        lambda: config.number("f", 1.0),
        lambda: config.boolean("b"),
        lambda: config.text("s"),
        lambda: config.texts("l"),
        lambda: config.counts("l"),
        lambda: config.section("o"),
        lambda: list(config.sections()),
    ]
    pointers = [pointer for read in readers if (pointer := pointer_of_refusal(read)) is not None]
    assert all(pointer.startswith("/") for pointer in pointers)


def pointer_of_refusal(read: Callable[[], object]) -> str | None:
    try:
        read()
    except InvalidConfig as refusal:
        return refusal.pointer
    return None


@given(st.integers(1, MAX_DIMENSION))
def test_whole_numbers_come_back(value: int) -> None:
    assert Config({"n": value}).integer("n") == value
    assert Config({"n": float(value)}).integer("n") == value


@pytest.mark.parametrize("value", [0, -1, MAX_DIMENSION + 1, 1.5, True, "7", [7], float("inf"), float("nan")])
def test_what_is_no_dimension_is_refused(value: object) -> None:
    with pytest.raises(InvalidConfig, match="/n"):
        Config({"n": value}).integer("n")


def test_null_means_absent() -> None:
    config = Config({"n": None, "o": None, "l": None})
    assert "n" not in config
    assert config.integer("n", default=3) == 3
    assert config.section("o") is None
    assert config.texts("l") == ()


def test_the_pointer_says_where_a_field_stands() -> None:
    nested = read_document(json.loads('{"a/b": {"c": {"d": "x"}}}')).section("a/b")
    assert nested is not None
    inner = nested.section("c")
    assert inner is not None
    with pytest.raises(InvalidConfig) as caught:
        inner.integer("d")
    assert caught.value.pointer == "/a~1b/c/d"


def test_the_first_name_that_is_there_counts() -> None:
    assert Config({"b": 2, "c": 3}).integer("a", "b", "c") == 2
    with pytest.raises(InvalidConfig, match="a or b is missing"):
        Config({}).integer("a", "b")


def test_a_config_of_millions_of_objects_is_refused() -> None:
    """Sixteen megabytes hold four million empty objects, and each one that is read takes time."""
    with pytest.raises(InvalidConfig, match="more than 160,000 objects and lists"):
        read_document({"x": [{}] * 160_001})
    assert read_document({"x": [{}] * (512 * 3 * 100)}).fields["x"]


def _containers(value: object, depth: int = 1) -> Iterator[int]:
    """Yield the depth of each object and list."""
    if isinstance(value, dict | list):
        yield depth
        for each in value.values() if isinstance(value, dict) else value:
            yield from _containers(each, depth + 1)


SCALAR = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=2) | st.just(10**400)
JSON = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=4),
)


@given(st.dictionaries(st.text(max_size=2), JSON, max_size=4), st.integers(1, 8), st.integers(1, 4))
def test_objects_and_lists_are_counted_at_every_depth(
    document: dict[str, object], most: int, chunk: int
) -> None:
    depths = [depth for depth in _containers(document) if depth > 1]
    for deepest in (2, 3, 5):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(config, "MAX_CONTAINERS", most)
            patch.setattr(config, "MAX_DEPTH", deepest)
            patch.setattr(config, "AT_ONCE", chunk)
            # Levels are read from above: what is too much is found before what is too deep.
            if sum(depth <= deepest + 1 for depth in depths) > most:
                expected = "objects and lists"
            else:
                expected = "levels deep" if max(depths, default=1) > deepest else ""
            if expected:
                with pytest.raises(InvalidConfig, match=expected):
                    read_document(document)
            else:
                read_document(document)
