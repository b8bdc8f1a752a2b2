import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.startup_log.catalogue.phrases import CAUSES, TEMPLATES
from service.startup_log.catalogue.templates import InvalidTemplate, Template, lines_containing


@pytest.mark.parametrize(
    ("template", "line", "values"),
    [
        ("size: {tokens} tokens", "GPU KV cache size: 25,200 tokens", [{"tokens": 25200.0}]),
        (
            "size: {tokens} tokens",
            "cache size: 1,2 tokens, size: 3 tokens",
            [{"tokens": 12.0}, {"tokens": 3.0}],
        ),
        ("took {gib} GiB", "took -0.12 GiB", [{"gib": -0.12}]),
        ("Using {name:word} backend", "Using FLASH_ATTN backend.", [{"name": "FLASH_ATTN"}]),
        ("size: {tokens} tokens", "size: many tokens", []),
        (
            "engine (v{release:word}) with",
            "engine (v0.19.1rc1.dev2+gabc) with",
            [{"release": "0.19.1rc1.dev2+gabc"}],
        ),
    ],
)
def test_holes_take_values(template: str, line: str, values: list[dict[str, float | str]]) -> None:
    assert list(Template.parse(template).find(line)) == values


@pytest.mark.parametrize("text", ["{tokens} tokens", "ab {tokens}", "size: {tokens:words}"])
def test_a_sentence_without_a_start_or_of_an_unknown_kind_is_refused(text: str) -> None:
    with pytest.raises(InvalidTemplate):
        Template.parse(text)


def test_no_two_sentences_are_the_same() -> None:
    patterns = [each.pattern for each in TEMPLATES] + [
        each.pattern for cause in CAUSES for each in cause.templates
    ]

    assert len(patterns) == len(set(patterns))


@given(
    st.lists(st.text(st.characters(codec="ascii", exclude_characters="\n"), max_size=12), max_size=8),
    st.lists(
        st.text(st.characters(codec="ascii", exclude_characters="\n"), min_size=1, max_size=3), max_size=4
    ),
)
def test_lines_that_say_something_are_those_that_hold_it(lines: list[str], words: list[str]) -> None:
    assert lines_containing(lines, words) == [
        (at, which) for at, line in enumerate(lines) for which, word in enumerate(words) if word in line
    ]
