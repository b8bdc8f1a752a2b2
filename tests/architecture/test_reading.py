"""What well-known models are, as their papers and cards say."""

import random
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.architecture.config import InvalidConfig, read_document
from service.architecture.layers.attention import Attention
from service.architecture.layers.experts import MixtureOfExperts
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.layers.recurrence import GatedDeltaNet
from service.architecture.model import ModelArchitecture
from service.architecture.reading import UnknownArchitecture, read_architecture, with_modelopt_file
from service.hub.bundled.snapshot import BundledSnapshot
from tests.accuracy.oracle import bundled_architecture
from tests.accuracy.recorded import RECURRENT

SNAPSHOT = BundledSnapshot()


def attention_of(architecture: ModelArchitecture) -> list[Attention]:
    return [layer.mixer for layer in architecture.layers if isinstance(layer.mixer, Attention)]


def test_gemma_4_31b_mixes_50_sliding_and_10_global_layers() -> None:
    layers = attention_of(bundled_architecture("google/gemma-4-31B-it"))
    shapes = Counter((m.sliding_window, m.num_kv_heads, m.head_size) for m in layers)
    assert shapes == {(1024, 16, 256): 50, (None, 4, 512): 10}


def test_gemma_4_e4b_shares_the_caches_of_its_last_layers() -> None:
    layers = attention_of(bundled_architecture("google/gemma-4-E4B-it"))
    sharing = [mixer.shares_cache_of for mixer in layers if mixer.shares_cache_of is not None]
    assert sharing
    for target in sharing:
        assert layers[target].shares_cache_of is None


def test_a_layer_shares_with_the_last_owner_of_its_own_kind() -> None:
    layers = attention_of(bundled_architecture("google/gemma-4-E4B-it"))
    for index, mixer in enumerate(layers):
        if mixer.shares_cache_of is None:
            continue
        assert mixer.shares_cache_of < index
        assert layers[mixer.shares_cache_of].sliding_window == mixer.sliding_window


def test_qwen_3_6_has_30_delta_nets_and_10_attention_layers() -> None:
    architecture = bundled_architecture("Qwen/Qwen3.6-35B-A3B")
    kinds = Counter(type(layer.mixer) for layer in architecture.layers)
    assert kinds == {GatedDeltaNet: 30, Attention: 10}
    assert architecture.is_hybrid
    assert architecture.states.dtype == "float32"


def test_deepseek_v3_keeps_576_elements_per_token() -> None:
    architecture = bundled_architecture("deepseek-ai/DeepSeek-V3")
    assert isinstance(architecture.lead_attention, MultiHeadLatentAttention)
    assert architecture.lead_attention.head_size == 576
    experts = [layer for layer in architecture.layers if isinstance(layer.feed_forward, MixtureOfExperts)]
    assert (len(architecture.layers), len(experts)) == (61, 58)


def test_gpt_oss_slides_on_every_other_layer_with_sinks() -> None:
    layers = attention_of(bundled_architecture("openai/gpt-oss-20b"))
    assert [mixer.sliding_window for mixer in layers] == [128, None] * 12
    assert all(mixer.sinks for mixer in layers)


def test_mistral_without_a_window_has_none_and_without_a_word_has_4096() -> None:
    specified = dict(SNAPSHOT.get("mistralai/Mistral-7B-v0.1").config)  # type: ignore[union-attr]
    for window, expected in ((None, None), (0, None), (2048, 2048)):
        architecture = read_architecture(read_document({**specified, "sliding_window": window}))
        assert attention_of(architecture)[0].sliding_window == expected
    del specified["sliding_window"]
    assert attention_of(read_architecture(read_document(specified)))[0].sliding_window == 4096


def test_an_unknown_architecture_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownArchitecture) as caught:
        read_architecture(read_document({"architectures": ["LlamaForCausalLMM"]}))
    assert "LlamaForCausalLM" in caught.value.nearest


def test_no_architecture_at_all_is_said_in_the_engines_words() -> None:
    with pytest.raises(InvalidConfig, match="No model architectures are specified"):
        read_architecture(read_document({}))


@pytest.mark.parametrize(
    ("model_type", "hint"),
    [("minimax_m2", "; MiniMaxM2ForCausalLM generates text for this model_type"), ("no_such", "")],
)
def test_a_class_that_goes_by_the_model_type_is_hinted_at(model_type: str, hint: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        read_architecture(read_document({"model_type": model_type}))
    assert str(caught.value).endswith(f"No model architectures are specified{hint}")


def test_modelopts_own_file_counts_only_where_the_config_is_silent() -> None:
    stated = {"quantization_config": {"quant_method": "fp8"}}
    assert with_modelopt_file(stated, {"quant_method": "modelopt"}) is stated
    assert with_modelopt_file({}, None) == {}
    assert with_modelopt_file({}, {"a": 1}) == {"quantization_config": {"a": 1}}


@pytest.mark.parametrize("model_id", SNAPSHOT.ids())
def test_every_bundled_config_is_read_or_refused_by_name(model_id: str) -> None:
    with suppress(UnknownArchitecture, InvalidConfig):
        architecture = bundled_architecture(model_id)
        assert architecture.layers
        assert hash(architecture) == hash(bundled_architecture(model_id))


MUTABLE = [
    model_id
    for model_id in (
        "google/gemma-4-E4B-it",
        "Qwen/Qwen3.6-35B-A3B",
        "openai/gpt-oss-20b",
        "deepseek-ai/DeepSeek-V3",
    )
    if SNAPSHOT.get(model_id) is not None
]
junk: st.SearchStrategy[object] = (
    st.none()
    | st.booleans()
    | st.integers(-5, 1 << 70)
    | st.floats()
    | st.text(max_size=5)
    | st.just([])
    | st.just({})
)


@given(st.sampled_from(MUTABLE), st.randoms(use_true_random=False), junk)
def test_a_mutated_config_is_read_or_refused_and_nothing_else(
    model_id: str, dice: random.Random, value: object
) -> None:
    fetched = SNAPSHOT.get(model_id)
    assert fetched is not None
    document = dict(fetched.config)
    section = document
    if isinstance(document.get("text_config"), dict) and dice.random() < 0.8:
        section = document["text_config"] = dict(document["text_config"])
    section[dice.choice(sorted(section))] = value
    with suppress(InvalidConfig, UnknownArchitecture):
        assert read_architecture(read_document(document)).layers


def test_a_block_of_weights_without_elements_is_refused() -> None:
    quantization = {"quant_method": "fp8", "weight_block_size": [0, 128]}
    config = {**RECURRENT.configs["JambaForCausalLM/Jamba-v0.1"], "quantization_config": quantization}

    with pytest.raises(InvalidConfig) as caught:
        read_architecture(read_document(config))
    assert caught.value.pointer == "/quantization_config/weight_block_size"


@pytest.mark.parametrize(
    ("name", "change", "field"),
    [
        ("JambaForCausalLM/Jamba-v0.1", {"mamba_expand": 0}, "/mamba_expand"),
        ("Lfm2ForCausalLM/LFM2-350M", {"conv_L_cache": 1}, "/conv_L_cache"),
        ("JambaForCausalLM/Jamba-v0.1", {"mamba_ssm_cache_dtype": "silu"}, "/mamba_ssm_cache_dtype"),
    ],
)
def test_a_state_without_bytes_or_of_no_type(name: str, change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        read_architecture(read_document({**RECURRENT.configs[name], **change}))
    assert caught.value.pointer == field
