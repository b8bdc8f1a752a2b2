"""What is bundled: whole, true to its hashes, and found by any spelling."""

import gzip
import hashlib
import json
import re
from importlib.resources import files
from typing import Any

import pytest

from service.architecture.config import read_document
from service.architecture.reading import read_architecture, with_modelopt_file
from service.hub.bundled.snapshot import BundledSnapshot, withheld_models
from service.hub.model_files.model_ids import check_model_id

SNAPSHOT = BundledSnapshot()


def raw_models() -> dict[str, dict[str, Any]]:
    data = files("service.hub.bundled").joinpath("snapshot.json.gz").read_bytes()
    models: dict[str, dict[str, Any]] = json.loads(gzip.decompress(data))["models"]
    return models


def test_every_bundled_file_is_what_its_hash_says() -> None:
    checked = 0
    for model in raw_models().values():
        for file in model["files"].values():
            assert hashlib.sha256(file["text"].encode()).hexdigest() == file["sha256"]
            checked += 1
    assert checked > 150


def test_the_configs_of_two_models_are_those_published() -> None:
    """SHA-256 of config.json at the named commits of the models' own repositories."""
    published = {
        "google/gemma-4-31B-it": (
            "842da3794eaa0b77d5f08bae87a17459d91ff475",
            "e967dd38bc5cfd38bd09a995a7bf4a754075df2b46aba68f7fbb5a791e6d8dd1",
        ),
        "Qwen/Qwen3.6-35B-A3B": (
            "995ad96eacd98c81ed38be0c5b274b04031597b0",
            "93a4693fa9d8392fbfccd4b3c9873f4bfdcb14fdede978b123d07d19675efe99",
        ),
    }
    raw = raw_models()
    for model_id, (commit, sha256) in published.items():
        assert raw[model_id]["revision"] == commit
        assert hashlib.sha256(raw[model_id]["files"]["config.json"]["text"].encode()).hexdigest() == sha256


def test_every_bundled_model_can_be_asked_for() -> None:
    for model_id in SNAPSHOT.ids():
        check_model_id(model_id)
        fetched = SNAPSHOT.get(model_id)
        assert fetched is not None
        assert (fetched.id, fetched.source) == (model_id, "bundled")
        assert fetched.config
        assert fetched.provenance.startswith("bundled snapshot: config.json")


@pytest.mark.parametrize(
    ("model_id", "layers", "kv_heads", "head_dim"),
    [
        # Llama 3 herd of models, table 3: 32 layers, 8 key/value heads, 4096 / 32 heads.
        ("meta-llama/Llama-3.1-8B", 32, 8, 128),
        # gpt-oss model card, table 1: 24 layers, 8 key/value heads of 64.
        ("openai/gpt-oss-20b", 24, 8, 64),
    ],
)
def test_bundled_shapes_are_those_of_the_papers(
    model_id: str, layers: int, kv_heads: int, head_dim: int
) -> None:
    fetched = SNAPSHOT.get(model_id)
    assert fetched is not None
    config = fetched.config
    assert (config["num_hidden_layers"], config["num_key_value_heads"]) == (layers, kv_heads)
    assert config.get("head_dim", config["hidden_size"] // config["num_attention_heads"]) == head_dim


def test_a_bfloat16_model_weighs_two_bytes_a_parameter() -> None:
    fetched = SNAPSHOT.get("Qwen/Qwen3.6-35B-A3B")
    assert fetched is not None
    assert fetched.total_parameters is not None
    assert fetched.total_parameter_bytes == 2 * fetched.total_parameters


@pytest.mark.parametrize(
    "spelling", ["google/gemma-4-31B-it", "GOOGLE/GEMMA-4-31B-IT", "google/gemma-4-31b-it"]
)
def test_the_canonical_id_answers_any_case(spelling: str) -> None:
    fetched = SNAPSHOT.get(spelling)
    assert fetched is not None
    assert fetched.id == "google/gemma-4-31B-it"


def test_an_unknown_model_is_none_with_alike_ids() -> None:
    assert SNAPSHOT.get("google/gemma-4-31B") is None
    assert SNAPSHOT.nearest("google/gema-4-31b-it")[0] == "google/gemma-4-31B-it"
    assert SNAPSHOT.nearest("zzzzzzzzzzzz") == ()
    assert len(SNAPSHOT.nearest("Qwen/Qwen3-8", count=2)) == 2


def test_search_finds_ids_that_hold_every_word() -> None:
    found = SNAPSHOT.search("NVFP4 nvidia")
    assert found
    assert all("nvfp4" in model_id.lower() and "nvidia" in model_id.lower() for model_id in found)
    assert set(found) == {
        model_id for model_id in SNAPSHOT.ids() if model_id.startswith("nvidia/") and "NVFP4" in model_id
    }
    assert SNAPSHOT.search("") == SNAPSHOT.ids()
    assert SNAPSHOT.search("no-such-model") == ()


def test_modelopt_checkpoints_bring_their_quantization_config() -> None:
    fetched = SNAPSHOT.get("nvidia/Qwen3-235B-A22B-NVFP4")
    assert fetched is not None
    assert fetched.quantization_config is not None
    assert fetched.quantization_config["quantization"]["quant_algo"] == "NVFP4"


def test_what_one_caller_changes_no_other_sees() -> None:
    first = SNAPSHOT.get("meta-llama/Llama-3.1-8B")
    assert first is not None
    assert isinstance(first.config, dict)
    first.config["num_hidden_layers"] = 0
    second = SNAPSHOT.get("meta-llama/Llama-3.1-8B")
    assert second is not None
    assert second.config["num_hidden_layers"] == 32


def test_nothing_is_read_before_it_is_needed() -> None:
    reads: list[int] = []

    def read() -> bytes:
        reads.append(1)
        return gzip.compress(b'{"models": {}}')

    snapshot = BundledSnapshot(read)
    assert reads == []
    assert snapshot.ids() == ()
    assert snapshot.search("x") == ()
    assert reads == [1]


NAMED_FORMAT = re.compile(r"fp8|awq|gptq|nvfp4|fp4|int[48]|mxfp|w\d+a\d+|\dbit", re.IGNORECASE)
READ_AS_UNQUANTIZED = {
    "Qwen/Qwen3-14B-MLX-4bit": "MLX's own section, of which vLLM takes no notice; a plan of it says so",
}
"""Ids that name a format and whose configs, complete as they are, name no method that the engine knows."""


def test_what_is_quantized_by_its_name_is_read_as_quantized() -> None:
    named = [model_id for model_id in SNAPSHOT.ids() if NAMED_FORMAT.search(model_id.rpartition("/")[2])]
    assert len(named) > 25
    for model_id in named:
        fetched = SNAPSHOT.get(model_id)
        assert fetched is not None
        document = with_modelopt_file(fetched.config, fetched.quantization_config)
        is_quantized = read_architecture(read_document(document)).quantization is not None
        assert is_quantized is (model_id not in READ_AS_UNQUANTIZED), model_id


def test_an_incomplete_copy_is_kept_for_comparisons_and_not_offered() -> None:
    whole = BundledSnapshot(withheld={})
    for model_id, reason in withheld_models().items():
        assert reason
        fetched = whole.get(model_id)
        assert fetched is not None
        document = with_modelopt_file(fetched.config, fetched.quantization_config)
        assert read_architecture(read_document(document)).unnamed_quantization
        assert SNAPSHOT.get(model_id) is None
        assert model_id not in SNAPSHOT.ids()
    assert set(whole.ids()) == {*SNAPSHOT.ids(), *withheld_models()}
