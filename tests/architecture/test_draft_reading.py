"""Configs of drafts: which head the engine makes of them, and which it takes for no draft at all."""

from typing import Any

import pytest

from service.architecture.config import InvalidConfig, read_document
from service.architecture.draft_reading import read_draft_checkpoint
from service.architecture.model import DraftCheckpoint
from service.architecture.reading import read_architecture
from tests.accuracy.recorded import DRAWN, RECURRENT
from tests.memory.recorded import records

LAYER: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 1,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
SPECULATORS: dict[str, Any] = {
    "architectures": ["Eagle3Speculator"],
    "speculators_model_type": "eagle3",
    "draft_vocab_size": 32000,
    "norm_before_residual": False,
    "transformer_layer_config": LAYER,
}


def draft(document: dict[str, Any]) -> DraftCheckpoint:
    return read_draft_checkpoint("a/draft", read_document(document))


@pytest.mark.parametrize(
    "specified",
    [
        {},
        {"target_hidden_size": 5120},
        {"norm_before_fc": True},
        {"fc_norm": True, "target_hidden_size": 6144},
    ],
)
def test_the_speculators_format_is_the_plain_one_written_around_its_layer(specified: dict[str, Any]) -> None:
    """vLLM 0.32.0, configs/speculators/algos.py update_eagle3."""
    around = draft({**SPECULATORS, **specified})
    plain = draft(
        {**LAYER, **specified, "draft_vocab_size": 32000, "architectures": ["Eagle3LlamaForCausalLM"]}
    )

    assert around.eagle3 is not None
    assert around == plain
    # Three states of the target model are joined, by a layer with an input for each of their elements.
    assert [joint.inputs for joint in around.eagle3.joints] == [3 * specified.get("target_hidden_size", 4096)]
    assert (around.eagle3.output_rows, around.eagle3.mapped_rows) == (32000, 32000)


@pytest.mark.parametrize(
    ("specified", "kind"),
    [
        ({"speculators_model_type": "dflash"}, "dflash"),
        ({"transformer_layer_config": None}, "eagle3"),
        ({"transformer_layer_config": {**LAYER, "model_type": "qwen3"}}, "eagle3"),
    ],
)
def test_speculators_that_are_not_modelled_are_named(specified: dict[str, Any], kind: str) -> None:
    with pytest.raises(InvalidConfig, match=f"speculators of type '{kind}' are not modelled") as caught:
        draft({**SPECULATORS, **specified})

    assert caught.value.pointer == "/speculators_model_type"


def test_a_draft_without_a_class_is_refused_and_one_of_an_unknown_class_is_unread() -> None:
    with pytest.raises(InvalidConfig, match="No model architectures are specified") as caught:
        draft(LAYER)
    assert caught.value.pointer == "/architectures"

    unknown = draft({**LAYER, "architectures": ["LlamaForCausalLMM"]})

    assert (unknown.whole, unknown.eagle, unknown.eagle3) == (None, None, None)
    assert unknown.unread is not None
    assert "LlamaForCausalLM" in unknown.unread


NEXT: dict[str, Any] = dict(DRAWN.configs["Qwen/Qwen3-Next-80B-A3B-Instruct"])
NEMOTRON: dict[str, Any] = dict(RECURRENT.configs["NemotronHForCausalLM/nemotron-h-moe"])
MIMO: dict[str, Any] = next(
    dict(row["config"])
    for row in records("families.json")
    if row["config"]["architectures"] == ["MiMoV2FlashForCausalLM"]
)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({**NEXT, "layer_types": ["linear_attention"] * 48}, "has no full attention"),
        ({**NEXT, "num_hidden_layers": 4, "num_nextn_predict_layers": 5}, "more than the 4 layers"),
        ({**MIMO, "hybrid_layer_pattern": [0] * 6}, "has no sliding attention"),
        (
            {**NEMOTRON, "num_nextn_predict_layers": 1, "mtp_hybrid_override_pattern": "M"},
            "has other blocks than * and E",
        ),
        (
            {**NEMOTRON, "num_nextn_predict_layers": 2, "mtp_hybrid_override_pattern": "*E"},
            "more than one module",
        ),
    ],
)
def test_prediction_layers_unlike_any_layer_of_the_model_are_unread(
    document: dict[str, Any], words: str
) -> None:
    """Each engine's class builds them from a layer that the model lacks; the model itself is read."""
    model = read_architecture(read_document(document))

    assert model.drafts.own is None
    assert model.drafts.unread is not None
    assert words in model.drafts.unread
