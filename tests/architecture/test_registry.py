"""Which classes are known, and which are known but not modelled."""

import pytest

from service.architecture.config import read_document
from service.architecture.readers.registry import KNOWN, unmodelled
from service.architecture.reading import UnknownArchitecture, read_architecture


def test_a_class_that_is_read_is_never_called_unmodelled() -> None:
    assert not [name for name in KNOWN if unmodelled(name)]


@pytest.mark.parametrize(
    ("class_name", "reason"),
    [
        ("NemotronHPuzzleForCausalLM", "recurrent"),
        ("DeepseekV41ForCausalLM", "compressed"),
        ("NemotronParseForConditionalGeneration", "cross"),
    ],
)
def test_a_class_of_the_engine_that_is_not_modelled_is_told_from_an_unknown_one(
    class_name: str, reason: str
) -> None:
    with pytest.raises(UnknownArchitecture, match="not modelled yet") as caught:
        read_architecture(read_document({"architectures": [class_name]}))

    assert caught.value.reason is not None
    assert reason in caught.value.reason
    assert not caught.value.nearest


def test_an_unknown_class_has_no_reason() -> None:
    with pytest.raises(UnknownArchitecture, match="is not known") as caught:
        read_architecture(read_document({"architectures": ["NobodyForCausalLM"]}))

    assert caught.value.reason is None
