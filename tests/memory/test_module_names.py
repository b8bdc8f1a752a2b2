"""Names and patterns by which checkpoints leave modules unquantized."""

import pytest

from service.memory.weights.module_names import ModuleNames, is_safe

NAME = "layers.3.mlp.experts.0.gate_proj"


@pytest.mark.parametrize(
    "entry",
    [
        "model.layers.3.mlp.experts.0.gate_proj",
        "model.language_model.layers.3.mlp.experts*",
        "language_model.model.layers.3.mlp.*",
        "*.mlp.experts.*",
        r"re:.*mlp\.experts.*",
        r"re:model\.layers\.3\.mlp.*",
    ],
)
def test_a_module_is_found_under_every_spelling(entry: str) -> None:
    assert NAME in ModuleNames.parse((entry,))


@pytest.mark.parametrize(
    "entry",
    [
        "model.layers.30.mlp.experts.0.gate_proj",
        "model.layers.3.mlp",
        r"re:.*mlp\.(gate|up|gate_up|down)_proj.*",
        "lm_head",
    ],
)
def test_a_similar_name_is_another_module(entry: str) -> None:
    assert NAME not in ModuleNames.parse((entry,))


def test_a_fragment_is_a_whole_part_of_the_path() -> None:
    names = ModuleNames.parse(("visual", "mlp.gate"))

    assert names.within("visual.blocks.0.attn.qkv")
    assert names.within("layers.3.mlp.gate")
    assert not names.within("layers.3.mlp.gate_up_proj")


@pytest.mark.parametrize(
    "pattern", [r"(a+)+$", r"(a|a)*b", r"(?=a*)b", r"(a)\1", "a" * 1000, r".*.*.*.*.*x", "("]
)
def test_an_expression_that_may_run_for_ever_matches_nothing(pattern: str) -> None:
    assert not is_safe(pattern)
    assert "a" not in ModuleNames.parse((f"re:{pattern}",))


@pytest.mark.parametrize(
    "pattern", [r".*self_attn.*", r".*mlp\.(gate|up|gate_up|down)_proj.*", r"visual\..*$"]
)
def test_the_expressions_of_real_checkpoints_are_safe(pattern: str) -> None:
    assert is_safe(pattern)
