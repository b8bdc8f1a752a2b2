"""How families write their configs."""

import random
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.architecture.config import InvalidConfig, read_document
from service.architecture.families.config_classes import config_class
from service.architecture.layers import Attention, LatentAttention, NoAttention, NoFeedForward
from service.architecture.model import ModelArchitecture
from service.architecture.reading import UnknownArchitecture, read_architecture
from tests.memory.recorded import records

CONFIGS = [row["config"] for row in records("families.json")]


def read(**fields: object) -> ModelArchitecture:
    return read_architecture(read_document(fields))


def attention_of(architecture: ModelArchitecture) -> Attention:
    mixer = architecture.lead_attention
    assert isinstance(mixer, Attention)
    return mixer


def test_a_field_is_read_under_the_name_that_its_class_gives_it() -> None:
    text = config_class("gpt2").view(read_document({"n_embd": 1600, "n_layer": 48}))

    assert text.integer("hidden_size") == 1600
    assert text.layers("num_hidden_layers") == 48
    assert text.at("hidden_size") == "/n_embd"


def test_an_absent_field_has_the_default_of_its_class_and_null_has_none() -> None:
    absent = config_class("mistral").view(read_document({}))
    null = config_class("mistral").view(read_document({"sliding_window": None}))

    assert absent.integer("sliding_window") == 4096
    assert "sliding_window" not in null


def test_a_field_at_fault_is_called_by_its_own_name() -> None:
    with pytest.raises(InvalidConfig) as caught:
        read(architectures=["GPT2LMHeadModel"], model_type="gpt2", n_head=0)

    assert caught.value.pointer == "/n_head"


def test_falcon_has_one_key_head_or_groups_of_them() -> None:
    small = read(architectures=["FalconForCausalLM"], model_type="falcon", multi_query=True)
    large = read(
        architectures=["FalconForCausalLM"],
        model_type="falcon",
        hidden_size=14848,
        num_attention_heads=232,
        num_kv_heads=8,
        new_decoder_architecture=True,
    )

    assert attention_of(small).num_kv_heads == 1
    assert attention_of(large).num_kv_heads == 8


def test_a_pruned_block_has_no_attention_or_no_network() -> None:
    """Two blocks in the spelling of Nemotron-NAS (Llama-3.3-Nemotron-Super-49B)."""
    whole = {"no_op": False, "n_heads_in_group": 8}
    blocks = [
        {"attention": whole, "ffn": {"no_op": True, "ffn_mult": None}},
        {"attention": {"no_op": True, "n_heads_in_group": None}, "ffn": {"no_op": False, "ffn_mult": 5.25}},
    ]

    model = read(
        architectures=["DeciLMForCausalLM"],
        model_type="nemotron-nas",
        hidden_size=8192,
        num_attention_heads=64,
        num_hidden_layers=2,
        vocab_size=128256,
        block_configs=blocks,
    )

    first, second = model.layers
    assert isinstance(first.mixer, Attention)
    assert first.mixer.num_kv_heads == 8
    assert isinstance(first.feed_forward, NoFeedForward)
    assert isinstance(second.mixer, NoAttention)
    # 2 * 5.25 * 8192 / 3 = 28672, a multiple of 256 already.
    assert getattr(second.feed_forward, "intermediate_size", None) == 28672


def test_llama_4_looks_at_chunks_but_on_every_fourth_layer() -> None:
    text = {"model_type": "llama4_text", "num_hidden_layers": 8, "attention_chunk_size": 8192}
    model = read(architectures=["Llama4ForConditionalGeneration"], model_type="llama4", text_config=text)

    chunks = [
        mixer.attention_chunk_size for _, mixer in model.attention_layers if isinstance(mixer, Attention)
    ]
    assert chunks == [8192, 8192, 8192, None] * 2


def test_a_wrapper_reads_the_class_that_its_text_part_names() -> None:
    text = {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": None}
    model = read(architectures=["LlavaForConditionalGeneration"], model_type="llava", text_config=text)

    assert model.multimodal
    assert not model.media_known
    assert attention_of(model).num_kv_heads == 8


def test_a_text_part_without_a_class_of_its_own_is_the_wrappers_default() -> None:
    """LLaVA 1.5: a Llama 2 7B, of which the config says its vocabulary alone."""
    model = read(
        architectures=["LlavaForConditionalGeneration"], model_type="llava", text_config={"vocab_size": 32064}
    )

    assert (model.hidden_size, len(model.layers), model.vocab_size) == (4096, 32, 32064)


def test_deepseek_ocr_keeps_its_text_model_in_a_section_of_its_own() -> None:
    text = {"model_type": "deepseek_v2", "architectures": ["DeepseekV2ForCausalLM"], "num_experts_per_tok": 6}
    model = read(architectures=["DeepseekVLV2ForCausalLM"], model_type="deepseek_vl_v2", language_config=text)

    assert isinstance(model.lead_attention, LatentAttention)


JUNK: tuple[object, ...] = (None, 0, -1, 1, 3, 2.5, 1 << 40, True, "x", [], [0, 0], ["x"], {}, {"a": 1})


@given(st.sampled_from(CONFIGS), st.randoms(use_true_random=False), st.sampled_from(JUNK))
def test_a_mutated_config_of_any_family_is_read_or_refused_and_nothing_else(
    config: dict[str, Any], dice: random.Random, value: object
) -> None:
    document = {**config, dice.choice(sorted(set(config) - {"architectures"})): value}
    with suppress(InvalidConfig, UnknownArchitecture):
        assert read_architecture(read_document(document)).layers
