"""Objects of a long section that say the same are found together, and too many kinds are not told apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.architecture.alike import MOST_KINDS, alike
from service.architecture.config import Config
from service.architecture.scheme_readers import read_scheme_groups

FIELDS = ("bits", "sym")
SAID = st.integers(1, 3) | st.lists(st.integers(0, 1), max_size=2) | st.none()


@given(st.lists(st.dictionaries(st.sampled_from(("bits", "sym", "other")), SAID), max_size=8))
def test_the_kinds_are_those_of_a_comparison_one_by_one(objects: list[dict[str, object]]) -> None:
    """An absent field and one of ``null`` say the same."""
    section = Config({f"module{index}": each for index, each in enumerate(objects)})
    expected: list[tuple[list[object], list[str]]] = []
    for name, each in section.fields.items():
        said = [each.get(field) for field in FIELDS]
        found = next((names for values, names in expected if values == said), None)
        if found is None:
            expected.append((said, [name]))
        else:
            found.append(name)

    kinds = list(alike(section, FIELDS))

    assert [names for names, _ in kinds] == [names for _, names in expected]
    assert [[part.fields.get(field) for field in FIELDS] for _, part in kinds] == [
        said for said, _ in expected
    ]


def test_too_many_kinds_are_a_layout_that_is_not_known() -> None:
    dynamic = {f"+:layers.{index}": {"group_size": index + 1} for index in range(MOST_KINDS + 1)}
    section = Config({"bits": 4, "group_size": 128, "dynamic": dynamic})

    with pytest.raises(LookupError):
        list(alike(Config(dynamic), ("group_size",)))
    assert read_scheme_groups(section, "gptq") == ()
