"""The arguments of two releases against the releases' own parsers, which were run and recorded."""

import json
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from service.engines.arguments.arguments import Argument, ArgumentKind, arguments_of

DATA = Path(__file__).parents[1] / "data" / "engines"
RECORDED: dict[str, dict[str, Any]] = {
    release: json.loads((DATA / f"parser-{release}.json").read_text("utf-8"))["arguments"]
    for release in ("0.27.1", "0.32.0")
}
CLASSES = {
    ArgumentKind.BOOL: "BooleanOptionalAction",
    ArgumentKind.SWITCH: "_StoreTrueAction",
    ArgumentKind.APPEND: "_AppendAction",
}
TYPES = {
    ArgumentKind.INT: {"int", "_optional_type"},
    ArgumentKind.FLOAT: {"float", "_optional_type"},
    ArgumentKind.HUMAN_INT: {"human_readable_int", "_optional_type"},
    ArgumentKind.HUMAN_INT_OR_AUTO: {"human_readable_int_or_auto"},
    ArgumentKind.JSON: {"loads", "_parse_type", "parse_dataclass", "_optional_type"},
    ArgumentKind.JSON_OR_STR: {"union_dict_and_str"},
}
CASES = [(release, name) for release, rows in RECORDED.items() for name in sorted(rows)]


def argument(release: str, name: str) -> Argument:
    return arguments_of(Version(release))[name]


@pytest.mark.parametrize("release", RECORDED)
def test_the_names_are_those_of_the_parser(release: str) -> None:
    assert arguments_of(Version(release)).names == RECORDED[release].keys()


@pytest.mark.parametrize(("release", "name"), CASES)
def test_an_argument_is_what_the_parser_makes_of_it(release: str, name: str) -> None:
    cls, spellings, choices, default, kind = RECORDED[release][name]
    found = argument(release, name)
    table = arguments_of(Version(release))

    assert {table.find(spelling).argument.name for spelling in spellings} == {name}
    assert {table.find(spelling).negated for spelling in spellings if spelling.startswith("--no-")} <= {True}
    assert sorted(found.choices) == sorted(each for each in choices or [] if each != "None")
    assert cls == CLASSES.get(found.kind, cls)
    assert (cls in CLASSES.values()) == (found.kind in CLASSES)
    if found.kind in TYPES:
        assert kind in TYPES[found.kind]
    if found.default is not None:
        value = json.loads(found.default)
        assert repr(value) == default or str(value) in default
