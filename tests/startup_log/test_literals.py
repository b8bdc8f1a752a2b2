import ast
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.startup_log.text.literals import read_pairs, read_value

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.text(
        st.characters(codec="ascii", categories=("L", "N", "Zs", "Pd", "Po")),
        max_size=12,
    )
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), VALUES, max_size=5))
def test_a_printed_dictionary_is_read_as_python_reads_it(values: dict[str, Any]) -> None:
    printed = repr(values)

    assert ast.literal_eval(printed) == values
    assert read_pairs(printed[1:-1], ":") == values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.95", 0.95),
        ("torch.bfloat16", "torch.bfloat16"),
        ("'a, b'", "a, b"),
        ("<Enum.X: 'x'>", "<Enum.X: 'x'>"),
        ("Config(a=1, b=[2])", "Config(a=1, b=[2])"),
        ("nan", "nan"),
        ("inf", "inf"),
        ("1" * 5000, "1" * 5000),
    ],
)
def test_what_is_no_literal_stays_text(text: str, value: object) -> None:
    assert read_value(text) == value


@given(st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    read_pairs(text, ":")
    read_pairs(text, "=")
    read_value(text)


def test_a_deeply_nested_value_is_not_followed() -> None:
    assert read_value("[" * 10_000 + "]" * 10_000) is not None
