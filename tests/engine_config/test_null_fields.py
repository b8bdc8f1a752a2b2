"""Null fields, as releases take or refuse them.

Asked of 0.20.2, 0.26.0 and 0.33.0, whose transformers are 4.57, 5.10 and 5.19: each row is what the release
raised while it made its configuration, or that it built the model.
"""

from typing import Any

import pytest
from packaging.version import Version

from service.advisor.dry_runs.dry_run import dry_start
from service.architecture.config import read_document
from service.architecture.reading import read_architecture
from service.architecture.text_part import CHECKED
from service.bundled_toml import read_toml
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.engines.releases import rules_for
from service.gpus.catalog import find_gpu

SIZES: dict[str, Any] = {
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "num_hidden_layers": 2,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
GPT2 = {"n_embd": 1024, "n_head": 8, "n_layer": 2, "n_positions": 1024, "vocab_size": 32000}
LLAMA = {**SIZES, "architectures": ["LlamaForCausalLM"], "model_type": "llama"}
NEMOTRON = {**SIZES, "architectures": ["NemotronForCausalLM"], "model_type": "nemotron"}
PERSIMMON = {**SIZES, "architectures": ["PersimmonForCausalLM"], "model_type": "persimmon"}
GEMMA = {**SIZES, "architectures": ["GemmaForCausalLM"], "model_type": "gemma"}
QWEN3 = {**SIZES, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}


def start(config: dict[str, Any], release: str) -> None:
    architecture = read_architecture(read_document(config))
    dry_start(
        architecture, ServeFlags(max_model_len=512), rules_for(Version(release)), find_gpu("h100-sxm-80gb")
    )


@pytest.mark.parametrize(
    ("config", "release"),
    [
        (NEMOTRON, "0.33.0"),
        (PERSIMMON, "0.20.2"),
        (PERSIMMON, "0.26.0"),
        (PERSIMMON, "0.33.0"),
        ({**GPT2, "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2"}, "0.20.2"),
        ({**GPT2, "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2"}, "0.33.0"),
    ],
)
def test_a_null_number_of_key_heads_is_refused_where_the_class_leaves_it(
    config: dict[str, Any], release: str
) -> None:
    with pytest.raises(EngineRefusal, match="total_num_kv_heads: Input should be a valid integer") as refused:
        start({**config, "num_key_value_heads": None}, release)

    assert (refused.value.stage, refused.value.type) == (Stage.CONFIG, "ValidationError")


def test_nemotron_needs_it_since_its_class_has_no_default() -> None:
    absent = {name: value for name, value in NEMOTRON.items() if name != "num_key_value_heads"}
    with pytest.raises(EngineRefusal, match="total_num_kv_heads"):
        start(absent, "0.33.0")

    start(absent, "0.26.0")


@pytest.mark.parametrize(
    ("config", "field"),
    [
        (GEMMA, "num_key_value_heads"),
        (QWEN3, "head_dim"),
        (LLAMA, "tie_word_embeddings"),
        (LLAMA, "attention_bias"),
        (LLAMA, "max_position_embeddings"),
    ],
)
@pytest.mark.parametrize("release", ["0.26.0", "0.33.0"])
def test_transformers_5_checks_the_types_of_fields(config: dict[str, Any], field: str, release: str) -> None:
    with pytest.raises(EngineRefusal, match=f"Validation error for field '{field}'") as refused:
        start({**config, field: None}, release)

    assert (refused.value.stage, refused.value.type) == (Stage.CONFIG, "StrictDataclassFieldValidationError")


@pytest.mark.parametrize(
    ("config", "field", "release"),
    [
        (LLAMA, "num_key_value_heads", "0.33.0"),
        (LLAMA, "num_key_value_heads", "0.26.0"),
        (NEMOTRON, "num_key_value_heads", "0.26.0"),
        (NEMOTRON, "num_key_value_heads", "0.20.2"),
        (QWEN3, "head_dim", "0.20.2"),
        (GEMMA, "num_key_value_heads", "0.13.0"),
    ],
)
def test_classes_that_fill_it_in_start(config: dict[str, Any], field: str, release: str) -> None:
    start({**config, field: None}, release)


def test_every_field_of_the_data_is_looked_at() -> None:
    typed = read_toml("service.engine_config", "null_fields.toml")["typed"]

    assert {name for entry in typed for name in entry["fields"]} == CHECKED
