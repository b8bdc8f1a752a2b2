"""What README and docs print is run as printed."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main
from starlette.testclient import TestClient
from typer.testing import CliRunner

from service.cli.exit_codes import ExitCode
from service.cli.main import cli
from tests.api.test_explain import GEMMA as LOG

ROOT = Path(__file__).parents[2]
PAPERS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RUN = frozenset({"plan", "check", "explain"})
"""Commands that answer without network, database or GPU. Of others the options are checked."""
ANSWERS = frozenset({ExitCode.OK, ExitCode.FAILED, ExitCode.UNCERTAIN, ExitCode.NOT_SERVED})
ELSEWHERE = frozenset({"docker", "kubectl", "helm"})
"""Programs of the printed commands that tests of the image and of the chart stand for."""
COMPOSE = """services:
  vllm:
    image: vllm/vllm-openai:v0.32.0
    command: ["--model", "Qwen/Qwen3-8B", "--max-model-len", "32k", "--port", "8000"]
"""
JQ = "jq -Rs '{log: .}' vllm.log | "
"""Makes the body of a request of a log."""


def statements(path: Path) -> Iterator[str]:
    """Yield the commands of indented blocks; one whose quotes stay open goes on in the next line."""
    held, fenced = "", False
    for line in path.read_text("utf-8").splitlines():
        fenced ^= line.startswith("```")
        if fenced or not line.startswith("    "):
            assert not held, held
            continue
        held = f"{held}\n{line.strip()}" if held else line.strip()
        try:
            shlex.split(held, comments=True)
        except ValueError:
            continue
        yield held
        held = ""


PRINTED = [(path, each) for path in PAPERS for each in statements(path) if path.name != "ARCHITECTURE.md"]


@pytest.fixture(autouse=True)
def _in_a_folder_with_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vllm.log").write_text(LOG)
    (tmp_path / "docker-compose.yaml").write_text(COMPOSE)
    for name in ("me.token", "worker.token"):
        (tmp_path / name).write_text("a token")


def test_the_papers_print_commands() -> None:
    assert len(PRINTED) >= 15
    assert {each.split()[0] for _, each in PRINTED} >= {"dryserve", "curl", "make", "jq"}


@pytest.mark.parametrize("statement", dict.fromkeys(each for _, each in PRINTED), ids=lambda each: each[:60])
def test_what_is_printed_works_as_printed(statement: str, client: TestClient) -> None:
    program, *words = shlex.split(statement.removeprefix(JQ), comments=True)
    if program == "make":
        assert re.search(rf"^{words[0]}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    elif program == "curl":
        _curl(words, client)
    else:
        if program in ELSEWHERE:
            pytest.skip(f"{program} runs on a machine of its own")
        assert program == "dryserve", statement
        _dryserve(words)


def test_the_answer_below_a_question_is_the_one_that_is_printed(client: TestClient) -> None:
    """README: the only request with an answer below it."""
    readme = (ROOT / "README.md").read_text("utf-8")
    question = next(each for path, each in PRINTED if path.name == "README.md" and each.startswith("curl"))
    shown = readme.partition("```text\n")[2].partition("```")[0]
    answer = _curl(shlex.split(question)[1:], client)

    assert shown == "".join(
        line for line in answer.splitlines(keepends=True) if not line.startswith("Note: ")
    )


QUOTED = re.compile(r"`([^`]+)`,\s+printed\s+for\s+`((?:plan|check|explain)\s[^`]+)`")
"""A line of an answer, and the command that gives it."""
EXITS = re.compile(r"^ +dryserve ((?:plan|check) [^#\n]+?) +# exits with (\d)", re.MULTILINE)
FIGURES = [found for path in PAPERS for found in QUOTED.findall(path.read_text("utf-8"))]
CODES = [found for path in PAPERS for found in EXITS.findall(path.read_text("utf-8"))]


@pytest.mark.parametrize(("printed", "command"), FIGURES)
def test_a_line_that_is_quoted_is_in_the_answer(printed: str, command: str) -> None:
    result = CliRunner().invoke(cli, [*shlex.split(command), "--format", "table"], env={"COLUMNS": "400"})

    assert result.exit_code in ANSWERS, result.stderr
    assert " ".join(printed.split()) in " ".join(result.stdout.split())


@pytest.mark.parametrize(("command", "code"), CODES)
def test_a_command_exits_as_is_printed_beside_it(command: str, code: str) -> None:
    assert CliRunner().invoke(cli, shlex.split(command)).exit_code == int(code)


def test_the_papers_quote_answers_and_exit_codes() -> None:
    assert FIGURES
    assert CODES


def _curl(words: list[str], client: TestClient) -> str:
    """Send what curl would, with the options that curl 7.76 has: no --json, which came with 7.82."""
    *options, address = words
    assert options[::2] == ["-H"] * (len(options) // 2 - 1) + ["-d"]
    headers = dict(value.split(": ") for value in options[1:-1:2])
    body = json.dumps({"log": LOG}) if options[-1] == "@-" else options[-1]
    reply = client.post(address.removeprefix("http://127.0.0.1:8000"), content=body, headers=headers)
    assert reply.status_code == 200, reply.text
    return reply.text


def _dryserve(words: list[str]) -> None:
    (command, *rest) = words
    if command in RUN:
        result = CliRunner().invoke(cli, words)
        assert result.exit_code in ANSWERS, result.stderr
        assert result.stdout
        return
    found = typer.main.get_command(cli).commands[command]  # type: ignore[attr-defined]
    if hasattr(found, "commands"):
        found, rest = found.commands[rest[0]], rest[1:]
    known = {name for each in found.params for name in (*each.opts, *each.secondary_opts)}
    assert {word for word in rest if word.startswith("--")} <= known
