"""A whole command in place of its parts: by body, by query and on the command line."""

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from service.cli.main import cli

LINE = "vllm serve Qwen/Qwen3-8B -tp 2 --max-model-len 32k --port 8000 --api-key my-own-secret"
GPUS = ["h100-sxm-80gb"]
SAME: dict[str, Any] = {
    "model": "Qwen/Qwen3-8B",
    "gpus": GPUS,
    "serve": {"tensor_parallel_size": 2, "max_model_len": 32_000, "kv_cache_dtype": "auto"},
}


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def answer(client: TestClient, command: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - a body
    response = client.post("/plan", json={"gpus": GPUS, "command": command, **more})
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def problem(client: TestClient, command: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - a body
    response = client.post("/plan", json={"gpus": GPUS, "command": command, **more})
    assert response.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = response.json()
    return found


def test_a_command_is_planned_as_its_parts_are(client: TestClient) -> None:
    by_parts = client.post("/plan", json=SAME).json()
    by_command = answer(client, LINE)

    for written, parts in zip(by_command["plans"], by_parts["plans"], strict=True):
        # The command repeats its port, and says that it does not repeat its key.
        assert written["recommended"].pop("command").startswith(parts["recommended"].pop("command"))
        warnings = [words for words in written["recommended"].pop("warnings") if "--api-key" not in words]
        assert warnings == parts["recommended"].pop("warnings")
        assert written == parts
    assert by_parts["command"] is by_parts["flags"] is None
    assert by_command["flags"]["used"] == ["tensor_parallel_size", "max_model_len"]
    assert {flag["name"] for flag in by_command["flags"]["no_effect"]} == {"port", "api_key"}
    assert by_command["flags"]["not_modelled"] == []


def test_flags_that_are_left_out_have_the_engines_defaults(client: TestClient) -> None:
    (plan,) = answer(client, "vllm serve Qwen/Qwen3-8B")["plans"]
    best = plan["recommended"]

    assert (best["tensor_parallel_size"], best["kv_cache_dtype"]) == (1, "auto")
    assert sum(plan["tried"].values()) == 1


def test_the_query_says_the_same(client: TestClient) -> None:
    by_query = client.get("/plan", params={"command": LINE, "gpu": GPUS}).json()

    assert by_query == answer(client, LINE)


def test_no_answer_has_the_secrets(client: TestClient) -> None:
    command = (
        f"HF_TOKEN=hf_0123456789abcdef docker run -e A_TOKEN=topsecret vllm/vllm-openai:v0.19.0 {LINE[11:]}"
    )
    for text in (command, f"{command} --no-such-flag", f"{command} --max-num-seqs many", f"{command} 'x"):
        written = client.post("/plan", json={"command": text, "gpus": GPUS}).text
        assert not any(secret in written for secret in ("my-own-secret", "0123456789abcdef", "topsecret"))


def test_a_flag_that_is_not_modelled_makes_a_start_uncertain(client: TestClient) -> None:
    found = answer(client, "vllm serve Qwen/Qwen3-8B --ubatch-size 4")
    best = found["plans"][0]["recommended"]

    assert [flag["name"] for flag in found["flags"]["not_modelled"]] == ["ubatch_size"]
    assert best["verdict"] == "uncertain"
    assert any("--ubatch-size is not modelled" in words for words in best["warnings"])


def test_a_flag_without_effect_leaves_a_start_certain(client: TestClient) -> None:
    found = answer(client, "vllm serve Qwen/Qwen3-8B --tool-call-parser hermes --enable-auto-tool-choice")

    assert found["plans"][0]["recommended"]["verdict"] == "starts"


def test_more_ranks_than_gpus_are_a_doubt(client: TestClient) -> None:
    found = answer(client, "CUDA_VISIBLE_DEVICES=0,1 vllm serve Qwen/Qwen3-8B -tp 4")

    assert found["command"]["gpus_per_node"] == 2
    assert any("4 ranks" in words for words in found["plans"][0]["recommended"]["warnings"])


def test_the_release_is_that_of_the_image(client: TestClient) -> None:
    found = answer(client, "docker run --gpus all vllm/vllm-openai:v0.19.0 --model Qwen/Qwen3-8B")

    assert (found["engine"]["version"], found["command"]["form"]) == ("0.19.0", "docker")


def test_a_field_beside_the_command_wins(client: TestClient) -> None:
    command = "docker run vllm/vllm-openai:v0.19.0 --model /models/mine --max-model-len 4096 -tp 2"
    found = answer(
        client,
        command,
        model="Qwen/Qwen3-8B",
        engine={"version": "0.20.2"},
        serve={"max_model_len": 8192},
    )

    assert (found["model"]["id"], found["engine"]["version"]) == ("Qwen/Qwen3-8B", "0.20.2")
    assert found["plans"][0]["recommended"]["command"].endswith(
        "--tensor-parallel-size 2 --max-model-len 8192"
    )


def test_a_release_without_a_name_is_the_newest_that_has_every_flag(client: TestClient) -> None:
    # vLLM 0.11.0 is the last release with --rope-scaling; 0.11.1 has --hf-overrides alone.
    found = answer(client, "vllm serve Qwen/Qwen3-8B --rope-scaling '{}'")

    assert found["engine"]["version"] == "0.11.0"
    assert any("--rope-scaling" in note for note in found["command"]["notes"])


@pytest.mark.parametrize(
    ("command", "type_", "words"),
    [
        ("vllm serve Qwen/Qwen3-8B --max-model-length 5", "command-refused", "--max-model-len"),
        ("vllm serve Qwen/Qwen3-8B --max-num-seqs many", "command-refused", "whole number"),
        ("vllm serve Qwen/Qwen3-8B --enforce-eager=true", "command-refused", "takes no value"),
        ("vllm serve Qwen/Qwen3-8B '--max-num-seqs 8'", "command-refused", "two words"),
        ("docker run vllm/vllm-openai:v0.10.2 --model a/b -cc.mode=3", "command-refused", "it came with"),
        ("docker run vllm/vllm-openai:v0.6.3 --model Qwen/Qwen3-8B", "unknown-release", "0.6.3"),
        ("echo hello", "unreadable-command", "no start of vLLM"),
        ("vllm serve 'Qwen/Qwen3-8B", "unreadable-command", "quote"),
        ("services:\n  a: [b\n", "unreadable-command", "YAML"),
        ("vllm serve /models/mine", "local-model", "`model`"),
        ("vllm serve $MODEL", "invalid-request", "MODEL"),
        ("vllm serve Qwen/Qwen3-8B --max-model-len 0", "invalid-request", "--max-model-len"),
        ("vllm serve Qwen/Qwen3-8B --kv-cache-dtype fp9", "unknown-kv-cache-dtype", "fp9"),
        ("vllm serve Qwen/Qwen3-8B --attention-backend nope", "unknown-attention-backend", "nope"),
    ],
)
def test_a_fault_in_the_command_points_to_it(
    client: TestClient, command: str, type_: str, words: str
) -> None:
    found = problem(client, command)

    assert found["type"].endswith(f"/{type_}"), found
    assert found["status"] == 422
    assert found["errors"][0]["pointer"] == "/command"
    assert words in json.dumps(found)


def test_a_fault_beside_the_command_points_to_its_field(client: TestClient) -> None:
    found = problem(client, LINE, serve={"kv_cache_dtype": "fp9"})

    assert found["errors"][0]["pointer"] == "/serve/kv_cache_dtype"


def test_a_model_that_cannot_be_had_is_the_hubs_error(client: TestClient) -> None:
    assert problem(client, "vllm serve nobody/nothing")["type"].endswith("/model-not-found")


def run(*words: str, given: str | None = None) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, words, input=given)
    return result.exit_code, result.stdout, result.stderr


def test_the_command_line_takes_words_behind_two_hyphens(client: TestClient) -> None:
    code, out, _ = run("plan", "--gpu", GPUS[0], "--", *LINE.split())

    assert code == 0
    assert json.loads(out) == answer(client, LINE)


def test_the_command_line_takes_a_command_in_quotes(client: TestClient) -> None:
    assert json.loads(run("plan", LINE, "--gpu", GPUS[0])[1]) == answer(client, LINE)


def test_the_command_line_takes_a_file_and_standard_input(client: TestClient, tmp_path: Path) -> None:
    text = "services:\n  llm:\n    image: vllm/vllm-openai:v0.19.0\n    command: --model Qwen/Qwen3-8B\n"
    (tmp_path / "compose.yaml").write_text(text)
    expected = answer(client, text)

    assert (
        json.loads(run("plan", "--command-file", str(tmp_path / "compose.yaml"), "--gpu", GPUS[0])[1])
        == expected
    )
    assert json.loads(run("plan", "--command-file", "-", "--gpu", GPUS[0], given=text)[1]) == expected


def test_the_table_has_the_three_lists_in_a_few_lines() -> None:
    _, out, _ = run("plan", "--format", "table", "--gpu", GPUS[0], "--", *LINE.split(), "--ubatch-size", "4")
    heading = out.partition("\n\n")[0].splitlines()

    assert "Flags used: tensor_parallel_size, max_model_len" in heading
    assert "Without effect on this plan: port, api_key" in heading
    assert "Not modelled: ubatch_size" in heading
    assert len(heading) <= 9


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("plan", "--no-such", "a/b"), "--no-such"),
        (("plan", "Qwen/Qwen3-8B", "more"), "no start of vLLM"),
        (("plan", "--gpu", "h100-sxm-80gb"), "MODEL is missing"),
    ],
)
def test_bad_input_exits_with_2(words: tuple[str, ...], said: str) -> None:
    code, _, err = run(*words)
    assert (code, said in err) == (2, True), err


def test_a_command_that_the_engine_refuses_exits_as_a_failed_start() -> None:
    code, _, err = run("plan", "--", "vllm", "serve", "a/b", "--no-such")
    assert (code, "--no-such" in err) == (3, True), err


def test_weights_without_room_are_refused_whatever_takes_more_memory(client: TestClient) -> None:
    # 31 billion parameters in bfloat16 take 58 GiB, and an L4 has 22 GiB.
    refused = answer(client, "vllm serve google/gemma-4-31B-it", gpus=["l4-24gb"])
    layout = answer(client, "vllm serve google/gemma-4-31B-it --ubatch-size 4", gpus=["l4-24gb"])

    assert refused["plans"][0]["nearest_refused"]["verdict"] == "does_not_start"
    assert layout["plans"][0]["nearest_refused"]["verdict"] == "does_not_start"


def test_a_file_that_is_no_text_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(bytes(range(256)) * 4)
    code, _, err = run("plan", "--command-file", str(tmp_path / "noise"))

    assert (code, "no start of vLLM was found" in err) == (2, True)


CARRIED = (
    "VLLM_LOGGING_LEVEL=DEBUG vllm serve Qwen/Qwen3-8B -tp 2 --port 9000 --api-key my-own-secret "
    "--trust-remote-code --no-enable-log-requests --tool-call-parser hermes"
)


def test_printed_commands_repeat_what_the_plan_does_not_use() -> None:
    _, line, comments = run("plan", "--format", "command", "--gpu", GPUS[0], "--", *CARRIED.split())
    words = line.split()

    assert words[:4] == ["VLLM_LOGGING_LEVEL=DEBUG", "vllm", "serve", "Qwen/Qwen3-8B"]
    assert {"--trust-remote-code", "--no-enable-log-requests"} <= set(words)
    assert "--port 9000" in line
    assert "--tool-call-parser hermes" in line
    assert "my-own-secret" not in line + comments
    assert "left out, add it: --api-key" in comments


def test_a_container_gets_the_port_and_the_variables_of_the_command() -> None:
    _, line, _ = run("plan", "--format", "docker", "--gpu", GPUS[0], "--", *CARRIED.split())

    assert "-p 9000:9000" in line
    assert "-e VLLM_LOGGING_LEVEL=DEBUG" in line
    image, _, arguments = line.partition(" serve ")
    assert image.rpartition("/")[2].startswith("vllm-openai:v")
    assert "VLLM_LOGGING_LEVEL" not in arguments
