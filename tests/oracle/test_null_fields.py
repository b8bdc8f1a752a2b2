"""How the table of null fields is written from what releases answer."""

import tomllib
from typing import Any

import pytest
from packaging.version import Version

from tests.oracle.null_fields import Answer, pair, write


def answer(since: str, asked: str, **raw: Any) -> Answer:  # noqa: ANN401 - as the driver writes it
    blank = {"transformers": "5.10.4", "typed": {}, "null_key_heads": [], "absent_key_heads": []}
    return Answer.parse(Version(since), Version(asked), {**blank, **raw})


def test_an_entry_says_what_is_refused_anew_and_what_no_longer_is() -> None:
    """Two releases by hand: the second takes the null of ``b`` again, and refuses one more."""
    written = write(
        [
            answer("0.14.0", "0.20.2", null_key_heads=["opt"]),
            answer("0.22.0", "0.26.0", typed={"mlp_bias": ["b", "a"], "head_dim": ["a"]}),
            answer("0.31.0", "0.33.0", typed={"mlp_bias": ["a"], "head_dim": ["a", "c"]}),
        ]
    )
    found = tomllib.loads("\n".join(written))

    first, second = found["typed"]
    assert (first["since"], first["fields"]) == ("0.22.0", {"mlp_bias": ["a", "b"], "head_dim": ["a"]})
    assert (second["fields"], second["taken"]) == ({"head_dim": ["c"]}, {"mlp_bias": ["b"]})
    assert second["source"] == "vLLM 0.31.0 with transformers 5.10.4; asked of 0.33.0"
    assert [entry["types"] for entry in found["key_heads"]] == [["opt"], []]


def test_nothing_is_written_of_a_release_that_answers_as_the_one_before() -> None:
    same = {"typed": {"mlp_bias": ["a"]}, "null_key_heads": ["opt"]}
    found = tomllib.loads(
        "\n".join(write([answer("0.22.0", "0.26.0", **same), answer("0.31.0", "0.33.0", **same)]))
    )

    assert [entry["since"] for entry in found["typed"]] == ["0.22.0"]
    assert [entry["since"] for entry in found["key_heads"]] == ["0.22.0"]


def test_a_release_is_told_with_the_one_that_is_asked_for_it() -> None:
    assert pair("0.22.0=0.26.0") == ("0.22.0", "0.26.0")
    with pytest.raises(Exception, match="two parts"):
        pair("0.22.0")
