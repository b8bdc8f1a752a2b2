"""Several engines on one GPU over HTTP and on the command line."""

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from service.cli.main import cli

TWO = (
    "vllm serve Qwen/Qwen3-8B --gpu-memory-utilization 0.5 --max-model-len 8192 &\n"
    "vllm serve meta-llama/Llama-3.1-8B --port 8001 --gpu-memory-utilization {} --max-model-len 8192\n"
)
COMPOSE = """
services:
  first:
    image: vllm/vllm-openai:v0.19.0
    command: --model Qwen/Qwen3-8B --max-model-len 8192
    deploy: {{resources: {{reservations: {{devices: [{{driver: nvidia, device_ids: ["0"]}}]}}}}}}
  second:
    image: vllm/vllm-openai:v0.19.0
    command: --model meta-llama/Llama-3.1-8B --max-model-len 8192
    deploy: {{resources: {{reservations: {{devices: [{{driver: nvidia, device_ids: ["{}"]}}]}}}}}}
"""


def colocate(client: TestClient, **body: Any) -> Any:  # noqa: ANN401 - JSON
    return client.post("/colocate", json={"gpu": "h100-sxm-80gb", **body})


def test_the_engines_of_a_script_are_planned_in_their_order(client: TestClient) -> None:
    answer = colocate(client, command=TWO.format(0.4), version="0.19.0").json()

    assert answer["verdict"] == "starts"
    assert [each["model"] for each in answer["engines"]] == ["Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B"]
    assert [each["beside"] for each in answer["engines"]] == [[], [0]]
    first, second = answer["engines"]
    assert second["free"]["bytes"] == first["free"]["bytes"] - first["held"]["bytes"]


@pytest.mark.parametrize(("device", "verdict"), [("0", "does_not_start"), ("1", "starts")])
def test_services_of_a_compose_file_meet_on_the_devices_they_name(
    client: TestClient, device: str, verdict: str
) -> None:
    answer = colocate(client, command=COMPOSE.format(device)).json()

    assert answer["engines"][1]["devices"] == [device]
    assert answer["verdict"] == verdict


def test_pods_get_gpus_of_their_own(client: TestClient) -> None:
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: m{0}}}\nspec:\n  containers:\n  - name: vllm\n"
        "    image: vllm/vllm-openai:v0.19.0\n    args: [--model, Qwen/Qwen3-8B, --max-model-len, '8192']\n"
        "    resources: {{limits: {{nvidia.com/gpu: 1}}}}\n"
    )
    answer = colocate(client, command=pod.format(1) + "---\n" + pod.format(2)).json()

    assert answer["verdict"] == "starts"
    assert [each["beside"] for each in answer["engines"]] == [[], []]


def test_bodies_of_plans_do_as_well(client: TestClient) -> None:
    serve = {"gpu_memory_utilization": 0.6, "max_model_len": 8192}
    engine = {"model": "Qwen/Qwen3-8B", "engine": {"version": "0.19.0"}, "serve": serve}
    answer = colocate(client, engines=[engine, engine]).json()

    assert answer["verdict"] == "does_not_start"
    error = answer["engines"][1]["candidate"]["error"]
    assert error["type"] == "ValueError"
    assert "less than desired GPU memory utilization (0.6" in error["message"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, ""),
        ({"command": "vllm serve a/b", "engines": [{"model": "a/b"}]}, ""),
        ({"command": "echo hello"}, "/command"),
        ({"command": "vllm serve Qwen/Qwen3-8B\n" * 9}, "/command"),
        ({"engines": [{"model": "Qwen/Qwen3-8B", "gpus": ["l4-24gb"]}]}, "/engines/0/gpus"),
        (
            {
                "engines": [
                    {"model": "Qwen/Qwen3-8B"},
                    {"model": "Qwen/Qwen3-8B", "engine": {"version": "0.1.0"}},
                ]
            },
            "/engines/1/engine/version",
        ),
    ],
)
def test_bad_input_says_where(client: TestClient, body: dict[str, Any], pointer: str) -> None:
    answer = colocate(client, **body)

    assert answer.status_code == 422
    assert pointer in [each["pointer"] for each in answer.json()["errors"]]


@pytest.mark.parametrize(("share", "code"), [("0.4", 0), ("0.6", 3)])
def test_the_command_line_exits_by_the_verdict(tmp_path: Path, share: str, code: int) -> None:
    file = tmp_path / "start.sh"
    file.write_text(TWO.format(share), "utf-8")

    found = CliRunner().invoke(cli, ["colocate", str(file), "--gpu", "h100-sxm-80gb", "--format", "table"])

    assert found.exit_code == code, found.output
    assert "beside engine 1" in found.output


def test_lines_fit_the_width_that_columns_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but commands, which are copied."""
    file = tmp_path / "start.sh"
    file.write_text(TWO.format(0.6), "utf-8")
    words = ["colocate", str(file), "--gpu", "h100-sxm-80gb", "--format", "table"]
    widest, said = {}, {}
    for columns in (70, 150):
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = CliRunner().invoke(cli, words).output.splitlines()
        assert sum(line.startswith("   vllm serve ") for line in lines) == 2
        widest[columns] = max(len(line) for line in lines if not line.startswith("   vllm serve "))
        said[columns] = " ".join(lines).split()

    assert widest[70] <= 70 < widest[150] <= 150
    assert said[70] == said[150]


def test_a_single_plan_says_where_all_are_planned(client: TestClient) -> None:
    answer = client.post("/plan", json={"command": TWO.format(0.4), "gpus": ["h100-sxm-80gb"]}).json()

    assert any("POST /colocate" in note for note in answer["command"]["notes"])


def test_a_fix_that_is_not_marked_starts_with_the_least_that_may_be_free(client: TestClient) -> None:
    """vLLM starts if utilization x total <= free, here replayed by planning the same script with each fix."""
    second = colocate(client, command=TWO.format(0.7)).json()["engines"][1]
    candidate = second["candidate"]
    least, total = second["free"]["low"], candidate["memory"]["total"]["bytes"]
    fixes = [each for each in candidate["error"]["fixes"] if "utilization" in each["change"]]
    assert {each["verdict"] for each in fixes} == {"starts", "uncertain"}
    for fix in fixes:
        share = float(fix["change"].split()[1])
        assert (share * total <= least) == (fix["verdict"] == "starts")
        replayed = colocate(client, command=TWO.format(share)).json()
        assert replayed["engines"][1]["candidate"]["verdict"] == fix["verdict"]
