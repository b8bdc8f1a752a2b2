"""What can be planned, by name: the command line and the routes say the same."""

import json
import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from service.cli.main import cli


def _run(*words: str) -> str:
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("kind", ["gpus", "engines", "models"])
def test_the_command_line_prints_what_the_service_answers(kind: str, client: TestClient) -> None:
    answer = client.get(f"/{kind}").json()
    # A page of the service says where the next one begins; the command line prints all at once.
    answer.pop("next", None)
    printed = json.loads(_run(kind, "list", "--json"))
    printed.pop("next", None)
    assert printed == answer


@pytest.mark.parametrize("kind", ["gpus", "engines", "models"])
def test_every_list_takes_the_option_of_a_plan(kind: str, client: TestClient) -> None:
    answer = client.get(f"/{kind}").json()[kind]
    printed = json.loads(_run(kind, "list", "--format", "json"))[kind]
    assert [each for each in printed if each not in answer] == []
    (first, *_) = answer
    first = first if isinstance(first, str) else first["name"]
    table = _run(kind, "list", "--format", "table", "--json")
    assert first in table
    assert not table.lstrip().startswith("{")


def test_values_of_a_flag_are_those_that_the_service_answers(client: TestClient) -> None:
    answer = client.get("/engines").json()["engines"][0]["flag_values"]
    assert json.loads(_run("engines", "values", "--format", "json")) == answer
    found = json.loads(_run("engines", "values", "kv-cache-dtype", "--format", "json"))
    assert found in answer
    assert found["flag"] == "kv_cache_dtype"


# Billions of parameters, as the makers publish them on the model's card or in its paper.
SIZES = {
    "deepseek-ai/DeepSeek-V3": (671, "DeepseekV3ForCausalLM", "fp8"),
    "openai/gpt-oss-120b": (116.8, "GptOssForCausalLM", "mxfp4"),
    "openai/gpt-oss-20b": (20.9, "GptOssForCausalLM", "mxfp4"),
    "Qwen/Qwen3-235B-A22B-FP8": (235, "Qwen3MoeForCausalLM", "fp8"),
    "nvidia/Qwen3-30B-A3B-NVFP4": (30.5, "Qwen3MoeForCausalLM", "modelopt_fp4"),
    "mistralai/Mixtral-8x7B-v0.1": (46.7, "MixtralForCausalLM", None),
    "meta-llama/Meta-Llama-3.1-405B": (405, "LlamaForCausalLM", None),
    "Qwen/Qwen3-32B": (32.8, "Qwen3ForCausalLM", None),
    "moonshotai/Kimi-K2.6": (1026, "KimiK25ForConditionalGeneration", "compressed-tensors"),
}


@pytest.mark.parametrize(("model", "published"), SIZES.items(), ids=SIZES)
def test_a_model_has_its_size_class_and_quantization(
    model: str, published: tuple[float, str, str | None], client: TestClient
) -> None:
    found = client.get("/models", params={"search": model}).json()
    (entry,) = (each for each in found["details"] if each["id"] == model)
    billions, class_name, quantization = published
    assert entry["parameters"] / 1e9 == pytest.approx(billions, rel=0.005)
    assert (entry["architecture"], entry["quantization"]) == (class_name, quantization)


def test_quantized_checkpoints_stand_beside_their_model(client: TestClient) -> None:
    found = client.get("/models", params={"search": "qwen3-235b-a22b"}).json()
    entries = {each["id"]: each for each in found["details"]}
    assert list(entries) == found["models"]
    siblings = set(entries["Qwen/Qwen3-235B-A22B"]["siblings"])
    assert siblings >= {"Qwen/Qwen3-235B-A22B-FP8", "nvidia/Qwen3-235B-A22B-NVFP4"}


def test_a_model_that_cannot_be_planned_says_why(client: TestClient) -> None:
    found = client.get("/models", params={"search": "logics-thinking"}).json()["details"]
    assert [each["architecture"] for each in found] == ["LogicsForConditionalGeneration"]
    assert "not known" in found[0]["unmodelled"]


def test_every_listed_model_that_is_modelled_can_be_read(client: TestClient) -> None:
    details = client.get("/models").json()["details"]
    assert all((each["dtype"] is None) == (each["unmodelled"] is not None) for each in details)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gpus", "list", "H100"], ["h100-sxm-80gb", "NVIDIA H100 80GB HBM3", "79.19", "9.0"]),
        (["gpus", "list", "rtx 4090"], ["rtx-4090-24gb", "rtx-4090-48gb-modded"]),
        (["gpus", "list", "h200", "mig"], ["h200-sxm-141gb-mig-3g.71gb", "69.75"]),
        (["gpus", "list", "mi300x"], ["mi300x-192gb", "not modelled yet"]),
        (["engines", "list"], ["0.33.0", "2026-11-02", "oracle"]),
        (["models", "list", "gemma-4-31b"], ["google/gemma-4-31B-it", "31.3", "bfloat16", "modelopt_fp4"]),
    ],
)
def test_tables_are_lines_that_can_be_searched(words: list[str], said: list[str]) -> None:
    printed = _run(*words)
    assert all(word in printed for word in said), printed


@pytest.mark.parametrize("columns", [60, 100, 130])
def test_lines_fit_the_width_that_columns_says(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    names = json.loads(_run("models", "list", "qwen3-8b", "--json"))["models"]
    monkeypatch.setenv("COLUMNS", str(columns))

    lines = _run("models", "list", "qwen3-8b").splitlines()

    assert max(len(line) for line in lines) <= columns
    assert names
    assert set(names) <= {line.split()[0] for line in lines if line.split()}
    assert ("Qwen3ForCausalLM" in " ".join(lines)) == (columns >= 120)
    assert "GiB" in lines[0] or columns < 80
    # What is left out is said beside the list, which scripts read.
    said = " ".join(CliRunner().invoke(cli, ["models", "list", "qwen3-8b"]).stderr.split())
    assert ("also show:" in said and "class" in said) == (columns < 120)


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("kind", ["models", "gpus"])
def test_whole_lists_fit_a_line_and_keep_every_name(
    kind: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = json.loads(_run(kind, "list", "--json"))
    names = answer["models"] if kind == "models" else [gpu["id"] for gpu in answer["gpus"]]
    monkeypatch.setenv("COLUMNS", str(columns))

    lines = _run(kind, "list").splitlines()

    assert max(len(line) for line in lines) <= columns
    assert set(names) <= {line.split()[0] for line in lines if line.split()}


def test_the_readme_counts_the_bundled_models() -> None:
    said = re.search(r"configs of (\d+) well-known models", Path("README.md").read_text("utf-8"))
    assert said is not None
    assert int(said[1]) == len(json.loads(_run("models", "list", "--json"))["models"])


def test_quantized_checkpoints_stand_below_their_model_with_their_sizes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Qwen3-32B: 31,205,621,760 elements in linear layers, 2 x 151,936 x 5,120 of 16 bits in its vocabulary.

    In FP8 the former take a byte each, in AWQ 4 bits, and 20 for each 128 inputs.
    """
    monkeypatch.setenv("COLUMNS", "80")
    rows = [line.split() for line in _run("models", "list", "qwen3-32b").splitlines()]
    linear, vocabulary = 31_205_621_760, 2 * 2 * 151_936 * 5120
    fp8 = (linear + vocabulary) / 2**30
    awq = (linear * (0.5 + 2.5 / 128) + vocabulary) / 2**30

    assert ["Qwen/Qwen3-32B", "32.8", "61.02", "bfloat16"] in rows
    assert ["Qwen/Qwen3-32B-FP8", f"~{fp8:.1f}", "fp8"] in rows
    assert ["Qwen/Qwen3-32B-AWQ", f"~{awq:.1f}", "awq"] in rows
    assert rows.index(["Qwen/Qwen3-32B-FP8", f"~{fp8:.1f}", "fp8"]) == 3


def test_a_checkpoint_that_is_not_bundled_leads_to_its_model(client: TestClient) -> None:
    found = client.get("/models", params={"search": "qwen3-32b-fp8"}).json()
    assert found["models"] == ["Qwen/Qwen3-32B"]
    variants = {each["id"]: each for each in found["details"][0]["variants"]}
    fp8 = variants["Qwen/Qwen3-32B-FP8"]
    assert (fp8["quantization"], fp8["is_computed"], fp8["is_bundled"]) == ("fp8", True, False)
    assert fp8["source"].startswith("github xorbitsai/inference")


def test_no_name_or_number_is_cut_where_lines_are_too_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = json.loads(_run("models", "list", "--json"))["details"]
    monkeypatch.setenv("COLUMNS", "40")

    rows = [line.split() for line in _run("models", "list").splitlines()[2:]]

    sizes = {each["id"]: each["parameters"] for each in listed}
    assert {row[0] for row in rows} == sizes.keys()
    for name, size, *_ in (row for row in rows if sizes[row[0]] is not None):
        assert abs(float(size) - sizes[name] / 10**9) <= 0.05 + 1e-9


def test_a_quantized_checkpoint_that_is_read_as_plain_has_no_size(client: TestClient) -> None:
    """vLLM 0.33.0 looks for w1, w2, w3 among the targets, which name gate, up and down: 2 B each."""
    found = client.get("/models", params={"search": "deepseek-v4-flash"}).json()
    entries = {each["id"]: each for each in found["details"]}
    (variant,) = entries["deepseek-ai/DeepSeek-V4-Flash"]["variants"]

    assert variant["id"] == "RedHatAI/DeepSeek-V4-Flash-NVFP4-FP8"
    assert variant["weight_bytes"] is None
    assert entries[variant["id"]]["weight_bytes"] is None
    assert entries["deepseek-ai/DeepSeek-V4-Flash"]["weight_bytes"] < 200 * 2**30
