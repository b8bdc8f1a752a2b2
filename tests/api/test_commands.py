"""Plans as commands: over HTTP, in a shell, in containers."""

import json
import shlex
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest
import yaml
from starlette.testclient import TestClient
from typer.testing import CliRunner

from service.cli.main import cli
from tests.api.plan_bodies import LLAMA_CONFIG

LLAMA = "/plan?model=meta-llama/Llama-3.1-8B&gpu=h100-sxm-80gb&engine_version=0.19.0&kv_cache_dtype=fp8"


def _text(client: TestClient, form: str, address: str = LLAMA) -> str:
    answer = client.get(f"{address}&format={form}")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    return answer.text


def _shell(script: str, argument: str) -> subprocess.CompletedProcess[str]:
    command = ["/bin/sh", "-c", script, "sh", argument]
    return subprocess.run(command, capture_output=True, check=False, text=True)  # noqa: S603 - of the test's own


def test_a_command_is_one_line_that_a_script_can_run(client: TestClient) -> None:
    line = _text(client, "command")
    script = 'vllm() { printf \'%s\\0\' "$@"; }; $(printf %s "$1")'
    ran = _shell(script, line)

    assert line == "vllm serve meta-llama/Llama-3.1-8B --kv-cache-dtype fp8\n"
    assert ran.stdout.split("\0")[:-1] == ["serve", "meta-llama/Llama-3.1-8B", "--kv-cache-dtype", "fp8"]


def test_a_guess_ahead_needs_no_quotes(client: TestClient) -> None:
    config = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}
    guess = f"&speculative_config={quote(json.dumps(config))}"
    line = _text(client, "command", LLAMA + guess)

    assert line.split() == shlex.split(line)
    assert "--speculative-config.method ngram" in line


def test_a_bare_substitution_of_a_line_with_quotes_runs_nothing(tmp_path: Path) -> None:
    """A shell that heeds no quotes would take the name's second word for a flag."""
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_CONFIG))
    words = ["plan", "a --trust-remote-code b", "--config", str(tmp_path / "config.json")]
    flags = ["--gpu", "h100-sxm-80gb", "--kv-cache-dtype", "auto", "--format", "command"]
    text = CliRunner().invoke(cli, [*words, *flags]).stdout
    script = "vllm() { printf '%s\\0' \"$@\"; }; "
    bare = _shell(script + '$(printf %s "$1")', text)
    evaluated = _shell(script + 'eval "$(printf %s "$1")"', text)

    assert bare.stdout == ""
    assert bare.returncode != 0
    assert evaluated.stdout.split("\0")[:-1] == ["serve", "a --trust-remote-code b"]


def test_docker_runs_the_releases_own_image(client: TestClient) -> None:
    words = shlex.split(_text(client, "docker", LLAMA + "&tensor_parallel_size=2&data_parallel_size=2"))

    assert words[:2] == ["docker", "run"]
    assert words[words.index("--gpus") + 1] == "4"
    assert words[words.index("--entrypoint") + 1 :] == [
        *("vllm", "vllm/vllm-openai:v0.19.0", "serve", "meta-llama/Llama-3.1-8B"),
        *("--tensor-parallel-size", "2", "--data-parallel-size", "2", "--kv-cache-dtype", "fp8"),
    ]


def test_kubernetes_takes_the_arguments_as_a_list(client: TestClient) -> None:
    (container,) = yaml.safe_load(_text(client, "kubernetes", LLAMA + "&tensor_parallel_size=2"))

    assert container["image"] == "vllm/vllm-openai:v0.19.0"
    assert container["command"] == ["vllm", "serve"]
    assert container["args"] == [
        *("meta-llama/Llama-3.1-8B", "--tensor-parallel-size", "2", "--kv-cache-dtype", "fp8"),
    ]
    assert container["resources"] == {"limits": {"nvidia.com/gpu": 2}}


@pytest.mark.parametrize("form", ["command", "docker", "kubernetes"])
def test_several_gpu_types_are_told_apart_by_comments(client: TestClient, form: str) -> None:
    text = _text(client, form, LLAMA + "&gpu=a100-sxm-80gb")

    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "# 1 x h100-sxm-80gb, fp8: starts",
        "# 1 x a100-sxm-80gb, fp8: starts",
    ]


@pytest.mark.parametrize("form", ["command", "docker", "kubernetes"])
def test_where_nothing_starts_nothing_can_be_run(client: TestClient, form: str) -> None:
    text = _text(client, form, LLAMA.replace("fp8", "turboquant_k8v4"))

    assert text == "# h100-sxm-80gb: nothing starts\n"


@pytest.mark.parametrize("form", ["docker", "kubernetes"])
def test_a_patch_is_in_no_image(client: TestClient, form: str) -> None:
    assert _text(client, form, LLAMA + "&patch=vllm%2340391").startswith("# planned with vllm#40391")
