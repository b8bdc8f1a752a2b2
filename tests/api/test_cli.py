"""The command line says the same as the service."""

import json
import shlex
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from service import __version__
from service.application.schemas.serve import ServeInput
from service.cli.main import cli
from tests.api.plan_bodies import GEMMA, LLAMA_CONFIG

README = Path(__file__).parents[2] / "README.md"
GEMMA_LINE = shlex.split(
    "plan google/gemma-4-31B-it --gpu rtx-3090-24gb --engine-version 0.19.0 --tensor-parallel-size 2 "
    "--max-model-len 131072 --max-num-batched-tokens 2048 --kv-cache-memory-bytes 12390980648 "
    "--kv-cache-dtype auto"
)


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def _run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, words)
    return result.exit_code, result.stdout, result.stderr


def test_it_answers_as_the_service_does(client: TestClient) -> None:
    code, out, _ = _run(*GEMMA_LINE)
    assert code == 4  # the bytes given are exact, but not beside bfloat16 weights on this card
    assert json.loads(out) == client.post("/plan", json=GEMMA).json()


def test_a_table_and_a_command(client: TestClient) -> None:
    table = client.post("/plan", json=GEMMA, headers={"Accept": "text/plain"}).text
    assert _run(*GEMMA_LINE, "--format", "table") == (4, table, "")
    assert _run(*GEMMA_LINE, "--format", "command")[1].splitlines()[-1] == table.splitlines()[-1]


def test_the_readme_shows_what_is_printed() -> None:
    shown = README.read_text("utf-8").partition("```text\n")[2].partition("```")[0]
    _, out, _ = _run(*GEMMA_LINE, "--format", "table")

    assert shown == "".join(line for line in out.splitlines(keepends=True) if not line.startswith("Note: "))


def test_a_refusal_exits_with_3() -> None:
    line = [*GEMMA_LINE, "--engine-version", "0.20.2", "--kv-cache-dtype", "int8_per_token_head"]
    assert _run(*line)[0] == 3


def test_a_patch_is_given_by_name() -> None:
    line = [*GEMMA_LINE, "--engine-version", "0.20.2", "--kv-cache-dtype", "int8_per_token_head"]
    assert _run(*line, "--patch", "vllm#40391")[0] == 4


def test_a_sure_start_exits_with_0() -> None:
    line = shlex.split("plan meta-llama/Llama-3.1-8B --gpu h100-sxm-80gb --kv-cache-dtype auto")
    assert _run(*line)[0] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["google/gemma-4-31B-it", "--gpu", "rtx-3090"], "rtx-3090-24gb"),
        (["google/gemma-4-31B-it", "--engine-version", "0.18.7"], "0.33.0"),
        (["google/gemma-4-31B-it", "--patch", "vllm#1"], "vllm#40391"),
        (["google/gemma-4-31B-it", "--kv-cache-dtype", "fp9"], "fp8"),
        (["google/gemma-4-31B-it", "--gpu-memory-utilization", "1.5"], "gpu_memory_utilization"),
        (["google/gemma-4-31B"], "google/gemma-4-31B-it"),
        (["google/gemma-4-31B-it", "--max-model-len", "long"], "--max-model-len"),
        (["google/gemma-4-31B-it", "--tensor-paralel-size", "2"], "--tensor-parallel-size"),
        (["google/gemma-4-31B-it", "--config", "nowhere.json"], "nowhere.json"),
        ([], "MODEL"),
    ],
)
def test_bad_input_exits_with_2_and_says_what_instead(words: list[str], said: str) -> None:
    code, out, err = _run("plan", *words)
    assert (code, out) == (2, "")
    assert said.lower() in err.lower()


def test_a_config_is_planned_without_any_hub(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(LLAMA_CONFIG))
    line = ["plan", "mine", "--config", str(config), "--gpu", "rtx-3090-24gb", "--max-model-len", "8192"]
    code, out, err = _run(*line, "--tensor-parallel-size", "1", "--kv-cache-memory-bytes", "2000000000")
    assert (code, err) == (0, "")
    assert json.loads(out)["model"]["source"] == "inline"


@pytest.mark.parametrize("content", ["{", "[]", "\x00"])
def test_a_config_that_is_none_is_bad_input(content: str, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(content)
    assert _run("plan", "mine", "--config", str(config))[0] == 2


def test_a_table_shows_all_ranks_that_are_needed() -> None:
    """550 GiB of weights: 8 x 31.4 GiB are too few, four times as many are not."""
    _, out, _ = _run("plan", "moonshotai/Kimi-K2.6", "--gpu", "rtx-5090-32gb", "--kv-cache-dtype", "auto")
    planned = json.loads(out)["plans"][0]["recommended"]
    _, table, _ = _run(
        *("plan", "moonshotai/Kimi-K2.6", "--gpu", "rtx-5090-32gb", "--kv-cache-dtype", "auto"),
        *("--format", "table"),
    )

    assert planned["tensor_parallel_size"] * planned["pipeline_parallel_size"] >= 550 / 31.4
    assert f"TP {planned['tensor_parallel_size']} x PP {planned['pipeline_parallel_size']}," in table
    (row,) = [line for line in table.splitlines() if line.startswith("auto (") and "starts" in line]
    assert row.split()[2:4] == [str(planned[f"{way}_parallel_size"]) for way in ("tensor", "pipeline")]


def test_a_folder_is_no_config(tmp_path: Path) -> None:
    code, _, err = _run("plan", "a/model", "--config", str(tmp_path))

    assert code == 2
    assert "is a directory" in " ".join(err.split())


def test_every_flag_of_the_engine_is_an_option() -> None:
    words = _run("plan", "--help")[1].split()
    for flag in ServeInput.model_fields:
        assert any(word.startswith(f"--{flag.replace('_', '-')}") for word in words)


def test_openapi_is_what_is_committed() -> None:
    committed = Path(__file__).parents[2] / "openapi.yaml"
    assert _run("openapi")[1] == committed.read_text("utf-8")


def test_the_version_is_printed() -> None:
    assert _run("--version") == (0, f"{__version__}\n", "")
