"""What the command line says about its own options."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.cli.main import cli


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HOME", str(tmp_path))


def test_a_workload_without_prompts_names_the_option_to_add() -> None:
    found = CliRunner().invoke(cli, ["plan", "Qwen/Qwen3-8B", "--gpu", "h100", "--concurrent-requests", "5"])
    assert found.exit_code == 2
    assert "--prompt-tokens is missing: --concurrent-requests" in found.output


def test_help_lists_what_is_asked_before_the_flags_of_the_engine() -> None:
    words = CliRunner().invoke(cli, ["plan", "--help"]).output
    assert max(map(words.index, ("--gpu", "--format", "--sort"))) < words.index("--tensor-parallel-size")
    assert "null:" not in words


def test_a_variable_without_effect_says_why() -> None:
    """VLLM_ATTENTION_BACKEND is not read any more in 0.33.0."""
    line = ["check", "--gpu", "h100", "--format", "table", "--"]
    command = ["VLLM_ATTENTION_BACKEND=FLASHINFER", "vllm", "serve", "Qwen/Qwen3-8B"]
    words = CliRunner().invoke(cli, [*line, *command]).output
    assert (
        "VLLM_ATTENTION_BACKEND has no effect: vLLM 0.33.0 does not read it; pass --attention-backend"
        in words
    )


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ("HF_TOKEN", "it is about which files are read and how; the tensors are the same"),
        ("CUDA_VISIBLE_DEVICES", "it says which GPUs and hosts the processes use"),
        ("VLLM_NO_SUCH_THING", "no release that is modelled reads it"),
    ],
)
def test_a_note_on_a_variable_is_a_sentence(variable: str, words: str) -> None:
    line = [
        "check",
        "--gpu",
        "h100",
        "--format",
        "table",
        "--",
        f"{variable}=0",
        "vllm",
        "serve",
        "Qwen/Qwen3-8B",
    ]
    assert f"{variable} has no effect: {words}" in " ".join(CliRunner().invoke(cli, line).output.split())


def test_help_of_a_probe_requires_one_gpu() -> None:
    words = " ".join(CliRunner().invoke(cli, ["probe", "--help"]).output.split())
    assert "exactly one, by id" in words
    assert "every type that is modelled" not in words
