"""Models in folders of this host, and GGUF files."""

import json
from pathlib import Path

import pytest

from service.hub.errors import FolderWithoutModel, GgufNotPlanned, HubError
from service.hub.local_model import local_model
from tests.api.plan_bodies import LLAMA_CONFIG
from tests.hub.test_weights import gguf, safetensors


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_CONFIG))
    return tmp_path


def test_a_folder_with_a_config_is_a_model(folder: Path) -> None:
    found = local_model(str(folder), folder)

    assert found is not None
    assert (found.id, found.source, found.revision) == (str(folder), "inline", None)
    assert found.config == LLAMA_CONFIG
    assert found.total_parameter_bytes is None


def test_its_weights_are_counted_by_their_headers(folder: Path) -> None:
    (folder / "model-00001-of-00002.safetensors").write_bytes(safetensors({"a": ("BF16", [3, 5])}))
    (folder / "model-00002-of-00002.safetensors").write_bytes(safetensors({"b": ("F32", [7])}))
    (folder / "consolidated.safetensors").write_bytes(safetensors({"a": ("BF16", [3, 5])}))

    found = local_model("./mine", folder)
    assert found is not None
    assert found.total_parameter_bytes == 3 * 5 * 2 + 7 * 4


def test_a_broken_header_leaves_the_bytes_unknown(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"\x10\x00")

    found = local_model("./mine", folder)
    assert found is not None
    assert found.total_parameter_bytes is None


def test_modelopt_s_file_is_read_too(folder: Path) -> None:
    (folder / "hf_quant_config.json").write_text('{"quantization": {"quant_algo": "FP8"}}')

    found = local_model("./mine", folder)
    assert found is not None
    assert found.quantization_config == {"quantization": {"quant_algo": "FP8"}}


@pytest.mark.parametrize("given", ["Qwen/Qwen3-8B", "gpt2", "org/name"])
def test_an_id_is_left_to_the_hub(given: str, tmp_path: Path) -> None:
    assert local_model(given, tmp_path / given) is None


@pytest.mark.parametrize("given", ["./nothing", "/nothing/here", "~/nothing", "../nothing", "model.gguf"])
def test_a_path_to_nothing_is_said_to_be_one(given: str, tmp_path: Path) -> None:
    with pytest.raises(FolderWithoutModel, match="does not exist"):
        local_model(given, tmp_path / Path(given).name)


def test_a_folder_of_gguf_files_names_them(tmp_path: Path) -> None:
    (tmp_path / "q4.gguf").write_bytes(gguf())
    with pytest.raises(FolderWithoutModel, match=r"q4\.gguf"):
        local_model("./folder", tmp_path)


def test_a_gguf_file_says_what_its_weights_take(tmp_path: Path) -> None:
    # Two tensors: 512 x 8 elements of Q4_K (blocks of 256 elements in 144 bytes), 512 of F32.
    file = tmp_path / "model.gguf"
    file.write_bytes(gguf())
    with pytest.raises(GgufNotPlanned, match=f" {512 * 8 // 256 * 144 + 512 * 4:,} bytes .* 2 tensors"):
        local_model("model.gguf", file)


def test_a_gguf_file_with_a_config_is_a_model_of_its_tensors(folder: Path) -> None:
    file = folder / "model.gguf"
    file.write_bytes(gguf())

    beside = local_model("./model.gguf", file)
    given = local_model("./model.gguf", file, {**LLAMA_CONFIG, "num_hidden_layers": 1})
    assert beside is not None
    assert given is not None
    assert beside.config == {**LLAMA_CONFIG, "quantization_config": {"quant_method": "gguf"}}
    assert given.config["num_hidden_layers"] == 1
    assert {each.total_parameter_bytes for each in (beside, given)} == {512 * 8 // 256 * 144 + 512 * 4}


def test_all_parts_of_a_split_file_count(folder: Path) -> None:
    names = [f"model-0000{part}-of-00002.gguf" for part in (1, 2)]
    for name in (*names, "other-00001-of-00002.gguf"):
        (folder / name).write_bytes(gguf())

    found = local_model(f"./{names[0]}", folder / names[0])
    assert found is not None
    assert found.total_parameter_bytes == 2 * (512 * 8 // 256 * 144 + 512 * 4)


@pytest.mark.parametrize("content", [b"", b"GGUF", b"not one of those"])
def test_a_file_that_is_no_gguf_is_said_to_be_none(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(content)
    with pytest.raises(GgufNotPlanned, match=r"header|start"):
        local_model("model.gguf", file)


def test_a_config_that_is_no_json_is_an_error(folder: Path) -> None:
    (folder / "config.json").write_text("{")
    with pytest.raises(HubError, match="not a JSON object"):
        local_model("./mine", folder)
