"""Mistral's own format: which file a release reads and what it makes of it, against real engines."""

import gzip
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from service.advisor.dry_runs.dry_run import dry_start
from service.architecture.config import InvalidConfig
from service.architecture.mistral_format.dialect import Dialect
from service.architecture.mistral_format.translation import translate
from service.architecture.model import ModelArchitecture
from service.architecture.model_files import ModelFiles, is_params
from service.architecture.reading import UnknownArchitecture
from service.engine_config.config_format import as_written_for, read_files
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.engines.releases import RELEASES, find_release, rules_for
from service.gpus.catalog import find_gpu
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.parameters import parameter_bytes_per_stage
from tests.accuracy.oracle import difference

DATA = Path(__file__).parents[1] / "data" / "params"
H100 = find_gpu("h100-sxm-80gb")
PLAIN: Mapping[str, Any] = {
    "dim": 2048,
    "n_layers": 8,
    "head_dim": 128,
    "hidden_dim": 4096,
    "n_heads": 16,
    "n_kv_heads": 4,
    "vocab_size": 32768,
}
CONFIG: Mapping[str, Any] = {
    "architectures": ["MistralForCausalLM"],
    "model_type": "mistral",
    "hidden_size": 2048,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
    "sliding_window": None,
    "vocab_size": 32768,
}


def _rows() -> list[dict[str, Any]]:
    with gzip.open(DATA / "rows.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@cache
def _files(name: str) -> ModelFiles:
    with gzip.open(DATA / "configs.json.gz", "rt", encoding="utf-8") as text:
        found = json.load(text)[name]
    return ModelFiles(found["params"], found["config"], consolidated=found["consolidated"])


def _read(files: ModelFiles, version: str) -> ModelArchitecture:
    return read_files(files, rules_for(Version(version)).checkpoints)


def _dialect(version: str) -> Dialect:
    rules = rules_for(Version(version))
    return Dialect(rules.checkpoints.params_parts, rules.checkpoints.params_class)


ROWS = _rows()
NAMES = sorted({row["config"] for row in ROWS})


@pytest.mark.parametrize("name", NAMES)
def test_every_answer_of_an_engine_agrees(name: str) -> None:
    disagreements = [
        f"{row['engine_version']} {row['serve']}: {found}"
        for row in ROWS
        if row["config"] == name and (found := _difference(row)) is not None
    ]
    assert not disagreements


def _difference(row: Mapping[str, Any]) -> str | None:
    rules = rules_for(find_release(row["engine_version"]))
    try:
        architecture = read_files(_files(row["config"]), rules.checkpoints)
    except InvalidConfig as unread:
        # Such a model starts in no release, so it is refused before any plan.
        return f"not read ({unread}), but the engine starts" if row["expect"]["starts"] else None
    return difference(row, architecture, rules)


REFUSED = [row for row in ROWS if row["expect"].get("error", {}).get("stage") in {"config", "model"}]
UNREAD = "no release of vLLM reads it: "


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: f"{row['engine_version']}-{row['config']}")
def test_refusals_are_in_the_engines_words(row: Mapping[str, Any]) -> None:
    theirs, ours = row["expect"]["error"]["message"], _words(row)
    if ours is not None:
        assert ours in theirs


def _words(row: Mapping[str, Any]) -> str | None:
    """Return what we say of a row, if it is meant to be the engine's."""
    rules = rules_for(find_release(row["engine_version"]))
    try:
        as_written_for(read_files(_files(row["config"]), rules.checkpoints), rules.checkpoints, rules.release)
    except EngineRefusal as refusal:
        return refusal.message
    except InvalidConfig as unread:
        specified = unread.detail.startswith(UNREAD) and "no attribute" not in unread.detail
        return unread.detail.removeprefix(UNREAD) if specified else None
    return None


TEXT = {"plain", "tied", "mixtral_hf", "fp8", "fp8d", "ct", "windows", "large3", "large3fp8", "mladense"}


@pytest.mark.parametrize("name", sorted(TEXT))
def test_weights_are_those_that_the_release_allocates(name: str) -> None:
    for row in ROWS:
        stages = row["expect"].get("parameter_bytes_per_pp_rank")
        if row["config"] != f"params/{name}" or not stages:
            continue
        deployment = Parallelism(
            tensor_parallel_size=row["serve"]["tensor_parallel_size"],
            pipeline_parallel_size=row["serve"].get("pipeline_parallel_size", 1),
        )
        architecture = _read(_files(row["config"]), row["engine_version"])
        ours = parameter_bytes_per_stage(architecture, deployment, Version(row["engine_version"]))
        assert ours == pytest.approx(stages, rel=1e-3), row["serve"]


@pytest.mark.parametrize(
    ("version", "consolidated", "kv_heads"),
    [
        # vLLM 0.10.2 to 0.11.2 look for config.json first, 0.12.0 to 0.15.1 for params.json, and since 0.16.0
        # for params.json beside weights in Mistral's files.
        ("0.11.2", True, 8),
        ("0.12.0", False, 4),
        ("0.15.1", True, 4),
        ("0.16.0", True, 4),
        ("0.16.0", False, 8),
        ("0.33.0", False, 8),
    ],
)
def test_which_of_two_files_counts(version: str, consolidated: bool, kv_heads: int) -> None:
    architecture = _read(ModelFiles(PLAIN, CONFIG, consolidated=consolidated), version)
    attention = architecture.lead_attention
    assert attention is not None
    assert getattr(attention, "num_kv_heads", None) == kv_heads


def test_without_mistrals_weights_newer_releases_find_no_config() -> None:
    architecture = _read(ModelFiles(PLAIN, consolidated=False), "0.15.1")
    with pytest.raises(EngineRefusal) as refusal:
        as_written_for(architecture, rules_for(Version("0.16.0")).checkpoints, Version("0.16.0"))
    assert (refusal.value.type, refusal.value.stage) == ("ValidationError", Stage.CONFIG)
    assert "consolidated" in refusal.value.detail


def test_a_model_that_the_planned_release_refuses_is_shown_as_another_reads_it() -> None:
    quantized = {**PLAIN, "quantization": {"quant_method": "compressed-tensors", "config_groups": {}}}
    files = ModelFiles(quantized)
    architecture = _read(files, "0.16.0")
    assert architecture.quantization is not None
    with pytest.raises(EngineRefusal, match="Found unknown quantization="):
        dry_start(architecture, ServeFlags(), rules_for(Version("0.16.0")), H100)
    assert dry_start(architecture, ServeFlags(), rules_for(Version("0.17.0")), H100).layout.groups


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"dim": "wide"}, "/dim"),
        ({"n_layers": 10**9, "sliding_window": 4096}, "/n_layers"),
        ({"n_heads": None}, "/n_heads"),
        ({"moe": [8]}, "/moe"),
        ({"moe": {"num_shared_experts": "one"}}, "/moe/num_shared_experts"),
        ({"quantization": "fp8"}, "/quantization"),
        ({"quantization": {"qformat_weight": "int3"}}, "/quantization"),
        ({"sliding_window": "long"}, "/sliding_window"),
        ({"sliding_window": [[4096]]}, "/sliding_window"),
        ({"yarn": 8}, "/yarn"),
        ({"llama_4_scaling": True}, "/llama_4_scaling"),
        ({"tied_embeddings": "no"}, "/tied_embeddings"),
        ({"vision_encoder": 24}, "/vision_encoder"),
        ({"multimodal": {"whisper_model_args": []}}, "/multimodal/whisper_model_args"),
        ({"max_position_embeddings": -1}, "/max_position_embeddings"),
        ({"model_type": {}}, "/model_type"),
    ],
)
def test_a_malformed_file_is_refused_where_it_is_at_fault(changes: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidConfig) as fault:
        _read(ModelFiles({**PLAIN, **changes}), "0.33.0")
    assert fault.value.pointer == pointer


@pytest.mark.parametrize("value", [None, 7, "x", [], {}, [None], True, -1, 1.5])
def test_no_value_of_any_field_breaks_the_reader(value: object) -> None:
    fields = {key for name in NAMES for key in _files(name).params}
    for field in sorted(fields):
        for release in RELEASES:
            files = ModelFiles({**PLAIN, field: value})
            try:
                assert read_files(files, rules_for(release).checkpoints).layers
            except (InvalidConfig, UnknownArchitecture):
                continue


def test_windows_are_repeated_over_the_layers() -> None:
    """Four layers of a pattern of two: vLLM 0.16.0, _remap_mistral_sliding_window, by hand."""
    params = {**PLAIN, "n_layers": 4, "sliding_window": [None, 4096]}
    document = translate(ModelFiles(params), _dialect("0.16.0"))
    assert document["layer_types"] == ["full_attention", "sliding_attention"] * 2
    assert document["sliding_window"] == 4096


def test_a_length_that_is_not_told_comes_from_the_config_beside() -> None:
    files = ModelFiles(PLAIN, CONFIG)
    newer, older = translate(files, _dialect("0.12.0")), translate(files, _dialect("0.11.2"))
    assert (newer["max_position_embeddings"], newer["max_seq_len"]) == (8192, 8192)
    assert (older["max_position_embeddings"], older["max_seq_len"]) == (8192, 128_000)


def test_a_config_beside_that_tells_no_length_leaves_the_engines_own() -> None:
    """vLLM 0.33.0, _maybe_retrieve_max_pos_from_hf: whatever is wrong with the file, 128,000."""
    for specified in ({"max_position_embeddings": "long"}, {"max_position_embeddings": None}):
        document = translate(
            ModelFiles(PLAIN, {**CONFIG, "model_type": "x", **specified}), _dialect("0.33.0")
        )
        assert document["max_position_embeddings"] == 128_000


@pytest.mark.parametrize(
    ("version", "causal", "class_name"),
    [
        ("0.13.0", True, "VoxtralForConditionalGeneration"),
        ("0.15.0", True, "VoxtralStreamingGeneration"),
        ("0.16.0", True, "VoxtralRealtimeGeneration"),
        ("0.33.0", True, "VoxtralRealtimeGeneration"),
        ("0.33.0", False, "VoxtralForConditionalGeneration"),
    ],
)
def test_a_causal_encoder_of_sound_has_a_class_of_its_own(
    version: str, causal: bool, class_name: str
) -> None:
    """The names that each release's transformers_utils/configs/mistral.py _remap_mistral_audio_args holds."""
    sound = {"whisper_model_args": {"encoder_args": {"dim": 1280, "n_layers": 32, "causal": causal}}}
    document = translate(ModelFiles({**PLAIN, "multimodal": sound}), _dialect(version))

    assert document["architectures"] == [class_name]


def test_a_document_is_recognized_by_what_it_names() -> None:
    assert is_params(PLAIN)
    assert not is_params(CONFIG)
    assert not is_params({"architectures": ["DistilBertModel"], "dim": 768, "n_layers": 6})
