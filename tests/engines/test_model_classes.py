from contextlib import nullcontext

import pytest
from packaging.version import Version

from service.engines.model_classes import check_model_class, dropped_classes, first_releases
from service.engines.refusal import EngineRefusal
from service.engines.releases import RELEASES


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("LlamaForCausalLM", "0.10.2"),
        ("Qwen3VLForConditionalGeneration", "0.11.0"),
        ("Gemma4ForConditionalGeneration", "0.19.0"),
        ("DeepseekV4ForCausalLM", "0.20.0"),
    ],
)
def test_the_first_release_of_a_class(name: str, first: str) -> None:
    assert first_releases()[name] == Version(first)
    check_model_class(name, Version(first))


def test_a_class_that_was_dropped_is_refused_from_then_on() -> None:
    # Qwen 1 ran until 0.23.0: vLLM 0.24.0, registry.py _PREVIOUSLY_SUPPORTED_MODELS.
    check_model_class("QWenLMHeadModel", Version("0.23.0"))
    with pytest.raises(EngineRefusal, match=r"was supported in vLLM until v0\.23\.0"):
        check_model_class("QWenLMHeadModel", Version("0.24.0"))


def test_a_class_that_no_release_lists_is_let_through() -> None:
    check_model_class("MyOwnForCausalLM", RELEASES[-1])


def test_classes_are_dropped_after_they_came() -> None:
    for name, dropped in dropped_classes().items():
        assert first_releases()[name] < dropped.since
        assert Version(dropped.last) < dropped.since
    assert set(first_releases().values()) <= set(RELEASES)


@pytest.mark.parametrize(
    ("class_name", "release", "supported"),
    [
        ("LlamaForCausalLM", "0.10.2", True),
        ("LlamaForCausalLM", "0.33.0", True),
        ("Glm4MoeLiteForCausalLM", "0.14.1", False),
        ("Glm4MoeLiteForCausalLM", "0.15.0", True),
        ("Qwen3_5ForConditionalGeneration", "0.16.0", False),
        ("Qwen3_5ForConditionalGeneration", "0.17.0", True),
        ("Olmo2ForCausalLM", "0.26.0", True),
    ],
)
def test_a_class_is_known_as_the_releases_registry_lists_it(
    class_name: str, release: str, supported: bool
) -> None:
    with nullcontext() if supported else pytest.raises(EngineRefusal):
        check_model_class(class_name, Version(release))


def test_a_text_class_may_be_taken_for_one_with_images() -> None:
    """Asked of 0.26.0: registry.py _normalize_arch tries other endings of a name that it does not list."""
    with pytest.raises(EngineRefusal) as raised:
        check_model_class("Qwen3_5MoeForCausalLM", Version("0.26.0"))
    assert raised.value.type == "AttributeError"
    assert str(raised.value) == "'Qwen3_5MoeTextConfig' object has no attribute 'vision_config'"

    check_model_class("Qwen3_5MoeForCausalLM", Version("0.27.0"))
    with pytest.raises(EngineRefusal, match="are not supported for now"):
        check_model_class("Qwen3_5MoeForCausalLM", Version("0.20.2"))
