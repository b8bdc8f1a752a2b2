"""Commands of other engines: their notes go to standard error, so that a shell runs the commands alone."""

import pytest

from tests.api.test_cli import _run

NOTE = "`-hf` needs a repository with such a GGUF file"


@pytest.mark.parametrize("form", ["command", "docker", "kubernetes"])
def test_a_note_stands_beside_the_command(form: str) -> None:
    _, out, err = _run("plan", "Qwen/Qwen3-32B", "--engine", "llama.cpp", "--gpu", "h100", "--format", form)
    assert "-hf" in out
    assert NOTE not in out
    assert any(NOTE in line and line.startswith("# llama.cpp: ") for line in err.splitlines())
