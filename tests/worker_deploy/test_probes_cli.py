"""`dryserve probes` and `dryserve probe`, as processes against a service that is one too."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.bench.server import free_port, wait_until_ready

Ended: TypeAlias = "subprocess.CompletedProcess[str]"
PROGRAM = (sys.executable, "-m", "service")
ASKED = ("probe", "Qwen/Qwen3-8B", "--gpu", "RTX 4090", "--max-model-len", "4k", "--label", "rack-3")
pytestmark = pytest.mark.slow


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Ended]]:
    """Return what runs a command against a service that is up."""
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "DRYSERVE_DATABASE_URL": f"sqlite:///{tmp_path}/probes.db",
    }
    port = free_port()
    token = tmp_path / "token"

    def ran(*words: str, code: int = 0) -> Ended:
        ended = subprocess.run(  # noqa: S603 - our own
            (*PROGRAM, *words), env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert ended.returncode == code, ended.stderr
        return ended

    def at_service(*words: str, code: int = 0) -> Ended:
        return ran(*words, "--server", f"http://127.0.0.1:{port}", "--token-file", str(token), code=code)

    token.write_text(ran("token", "create", "ada", "--scope", "operator").stdout)
    with subprocess.Popen(  # noqa: S603 - our own
        (*PROGRAM, "serve", "--port", str(port)),
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            wait_until_ready(port)
            yield at_service
        finally:
            process.terminate()
            process.wait(20)


def test_the_life_of_a_probe_that_nobody_takes(run: Callable[..., Ended]) -> None:
    waited = run(*ASKED, "--wait", "--timeout", "1", code=4)
    first, last = waited.stderr.splitlines()[0], waited.stderr.splitlines()[-1]
    probe_id = first.split()[0]
    assert len(probe_id) == 32
    assert "no worker with label rack-3, vLLM" in first
    assert last.startswith(f"not ended after 1 s: {probe_id} queued")

    (listed,) = json.loads(run("probes", "list", "--json").stdout)
    assert (listed["id"], listed["state"]) == (probe_id, "queued")
    assert probe_id in run("probes", "list", "--state", "queued").stdout
    shown = run("probes", "show", probe_id[:6]).stdout
    for words in ("Qwen/Qwen3-8B", "rtx-4090-24gb", "max_model_len=4000", "rack-3", "ada", "no worker"):
        assert words in shown

    assert run("probes", "cancel", probe_id[:6]).stdout.strip() == f"{probe_id} cancelled"
    assert "cancelled" in run("probes", "wait", probe_id, code=3).stdout
    assert "no probe begins with 'zz'" in run("probes", "show", "zz", code=2).stderr


def test_a_service_that_is_not_there_is_named() -> None:
    ended = subprocess.run(  # noqa: S603 - our own
        (*PROGRAM, "probes", "list", "--server", f"http://127.0.0.1:{free_port()}"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2
    assert "cannot be reached" in ended.stderr
    assert "Traceback" not in ended.stderr
