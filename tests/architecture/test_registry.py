"""Which classes have a reader, and which of the engine's classes have a reason instead."""

from typing import Final

import pytest

from service.architecture.config import read_document
from service.architecture.readers.media.wrappers import WRAPPERS
from service.architecture.readers.registry import KNOWN, decoder_of, unmodelled, unmodelled_classes
from service.architecture.reading import UnknownArchitecture, read_architecture
from service.engines.model_classes import dropped_classes, first_releases
from service.engines.releases import RELEASES

TEXT_PARTS: Final = {"AriaTextForCausalLM", "CohereCompassTextModel", "Ernie4_5_VLTextForCausalLM"}
"""Classes that are the text part of another class alone: no release's registry lists them by themselves."""


def test_a_class_that_is_read_is_never_called_unmodelled() -> None:
    assert not [name for name in KNOWN if unmodelled(name)]


def test_a_class_with_a_reader_has_its_first_release() -> None:
    """Without an entry in engines/model_classes.toml a class would start on every release."""
    assert sorted(set(KNOWN) - set(first_releases())) == sorted(TEXT_PARTS)


def test_a_text_part_belongs_to_a_class_that_releases_list() -> None:
    outer = {
        wrapper.inner: name
        for name, wrapper in WRAPPERS.items()
        if name in first_releases() and wrapper.inner is not None
    }

    assert set(outer) >= TEXT_PARTS


def test_a_class_of_the_newest_release_has_a_reader_or_a_reason() -> None:
    """The reason stands in readers/unmodelled.toml; a class that the newest release refuses needs neither."""
    newest = RELEASES[-1]
    refused = {name for name, dropped in dropped_classes().items() if dropped.since <= newest}
    listed = {name for name, first in first_releases().items() if first <= newest} - refused

    assert sorted(name for name in listed - set(KNOWN) if unmodelled(name) is None) == []


def test_a_class_with_a_reason_is_one_that_releases_list() -> None:
    assert sorted(set(unmodelled_classes()) - set(first_releases())) == []


@pytest.mark.parametrize(
    ("class_name", "reason"),
    [
        ("NemotronParseForConditionalGeneration", "cross"),
    ],
)
def test_an_unmodelled_class_of_the_engine_differs_from_an_unknown_one(class_name: str, reason: str) -> None:
    with pytest.raises(UnknownArchitecture, match="not modelled yet") as caught:
        read_architecture(read_document({"architectures": [class_name]}))

    assert caught.value.reason is not None
    assert reason in caught.value.reason
    assert not caught.value.nearest


def test_an_unknown_class_has_no_reason() -> None:
    with pytest.raises(UnknownArchitecture, match="is not known") as caught:
        read_architecture(read_document({"architectures": ["NobodyForCausalLM"]}))

    assert caught.value.reason is None


# Classes of vLLM 0.32.0's registry whose layers no reader knows.
@pytest.mark.parametrize("class_name", ["JinaVLForRanking", "ColModernVBertForRetrieval", "Terratorch"])
def test_a_pooling_model_is_named_so_and_has_no_neighbours(class_name: str) -> None:
    with pytest.raises(UnknownArchitecture, match="is one of a pooling model") as caught:
        read_architecture(read_document({"architectures": [class_name]}))
    assert caught.value.nearest == ()


@pytest.mark.parametrize("class_name", ["LlamaForCasualLM", "SomethingChatModel", "NewLMHeadModel"])
def test_an_unknown_class_that_generates_is_not_called_a_pooling_model(class_name: str) -> None:
    with pytest.raises(UnknownArchitecture, match="is not known"):
        read_architecture(read_document({"architectures": [class_name]}))


@pytest.mark.parametrize(("name", "stores"), [("SiglipModel", False), ("TerratorchRewardModel", True)])
def test_a_refused_encoder_is_said_to_have_no_cache(name: str, stores: bool) -> None:
    assert ("no KV cache" in str(UnknownArchitecture(name))) is not stores


# vLLM 0.33.0: _normalize_arch, the classes that its lists of pooling models name, and qwen2_rm.py.
@pytest.mark.parametrize(
    ("name", "decoder"),
    [
        ("Qwen3ForSequenceClassification", "Qwen3ForCausalLM"),
        ("Qwen3VLForSequenceClassification", "Qwen3VLForConditionalGeneration"),
        ("GPT2ForSequenceClassification", "GPT2LMHeadModel"),
        ("LlamaModel", "LlamaForCausalLM"),
        ("Gemma3TextModel", "Gemma3ForCausalLM"),
        ("Qwen2ForRewardModel", None),
        ("BertModel", None),
        ("JinaForRanking", None),
        ("Qwen3ForCausalLM", None),
    ],
)
def test_the_decoder_of_a_pooling_model_is_the_class_that_the_engine_converts(
    name: str, decoder: str | None
) -> None:
    assert decoder_of(name) == decoder


# vLLM 0.33.0, qwen2.py: Qwen2DecoderLayer takes is_causal for AttentionType; mixtral.py does not read it.
@pytest.mark.parametrize(
    ("name", "is_causal", "encodes"),
    [
        ("Qwen2ForCausalLM", False, True),
        ("LlamaForCausalLM", False, True),
        ("MistralForCausalLM", False, True),
        ("Qwen2ForCausalLM", True, False),
        ("MixtralForCausalLM", False, False),
    ],
)
def test_a_decoder_that_attends_both_ways_is_an_encoder(name: str, is_causal: bool, encodes: bool) -> None:
    fields = {
        "hidden_size": 64,
        "intermediate_size": 128,
        "max_position_embeddings": 4096,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "num_key_value_heads": 2,
        "num_local_experts": 2,
        "num_experts_per_tok": 1,
        "vocab_size": 256,
    }
    document = read_document({**fields, "architectures": [name], "is_causal": is_causal})
    assert read_architecture(document).encodes is encodes
