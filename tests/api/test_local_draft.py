"""A draft model in a folder, and words about folders that name what the caller can do."""

import json
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tests.api.test_cli import _run

MODEL = "Qwen/Qwen3-8B"
DRAFT = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 1,
    "head_dim": 128,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 151936,
    "draft_vocab_size": 32000,
    "max_position_embeddings": 40960,
    "tie_word_embeddings": False,
}
METHOD = {"method": "eagle3", "num_speculative_tokens": 3}


def test_a_folder_plans_as_its_config_in_a_body(tmp_path: Path, client: TestClient) -> None:
    (tmp_path / "config.json").write_text(json.dumps(DRAFT))
    draft = {**METHOD, "model": str(tmp_path)}
    code, out, err = _run("plan", MODEL, "--gpu", "l40s", "--speculative-config", json.dumps(draft))
    body = {"model": MODEL, "gpus": ["l40s"], "serve": {"speculative_config": draft}, "draft_config": DRAFT}

    assert code in {0, 4}, err
    assert json.loads(out)["plans"] == client.post("/plan", json=body).json()["plans"]


def test_a_folder_without_a_config_is_named(tmp_path: Path) -> None:
    draft = json.dumps({**METHOD, "model": str(tmp_path)})
    code, _, err = _run("plan", MODEL, "--gpu", "l40s", "--speculative-config", draft)
    assert code == 2
    assert f"{tmp_path} holds no config.json" in " ".join(err.split())


def test_over_http_no_folder_is_read(tmp_path: Path, client: TestClient) -> None:
    (tmp_path / "config.json").write_text(json.dumps(DRAFT))
    draft = {**METHOD, "model": str(tmp_path)}
    reply = client.post("/plan", json={"model": MODEL, "serve": {"speculative_config": draft}})
    assert reply.status_code == 422
    (error,) = reply.json()["errors"]
    assert error["pointer"] == "/serve/speculative_config/model"
    assert "`draft_config`" in error["detail"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["--", "vllm", "serve", "/my/folder"], "--config FILE"),
        ([MODEL, "--engine", "llama.cpp", "--engine-flags", "-hff x -zz"], "--engine-flags"),
    ],
)
def test_a_command_line_names_its_own_options(line: list[str], said: str) -> None:
    code, _, err = _run("plan", "--gpu", "l40s", *line)
    assert code == 2
    assert said in err
    assert "/serve" not in err
