"""The service with a worker of its own, and the command that asks it: all as real processes."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from service.cli.probe import summary
from service.units import GIB
from tests.bench.server import free_port, wait_until_ready

PROGRAM = (sys.executable, "-m", "service")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {
        **os.environ,
        "HOME": str(tmp_path),
        "HF_HUB_OFFLINE": "1",
        "DRYSERVE_DATABASE_URL": f"sqlite:///{tmp_path}/probes.db",
    }


@pytest.fixture
def token_file(environment: dict[str, str], tmp_path: Path) -> Path:
    command = (*PROGRAM, "token", "create", "me", "--scope", "operator")
    made = subprocess.run(command, env=environment, check=True, capture_output=True)  # noqa: S603 - our own
    (tmp_path / "token").write_bytes(made.stdout)
    return tmp_path / "token"


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """Return another Python than ours, which says that it was asked."""
    program = tmp_path / "python-of-the-engine"
    program.write_text(f'#!/bin/sh\ntouch {tmp_path}/asked\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)
    return program


@pytest.fixture
def service(
    environment: dict[str, str], python: Path, tmp_path: Path
) -> Iterator[tuple[int, "subprocess.Popen[bytes]"]]:
    port = free_port()
    command = (*PROGRAM, "serve", "--port", str(port), "--local-worker", "--worker-python", str(python))
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(command, env=environment, stderr=log, stdout=log) as process,  # noqa: S603
    ):
        try:
            wait_until_ready(port)
            yield port, process
        finally:
            process.kill()


@pytest.mark.slow
def test_a_probe_that_the_local_worker_refuses(
    service: tuple[int, "subprocess.Popen[bytes]"],
    environment: dict[str, str],
    token_file: Path,
    tmp_path: Path,
) -> None:
    """Nothing here has that GPU, so nobody takes the job; the worker is there, and ends with the service."""
    port, process = service
    server = f"http://127.0.0.1:{port}"
    options = ("--server", server, "--token-file", str(token_file), "--gpu", "h100-sxm-80gb")
    command = (*PROGRAM, "probe", "Qwen/Qwen3-8B", *options, "--max-model-len", "4096", "--format", "json")
    requested = subprocess.run(command, env=environment, check=True, capture_output=True)  # noqa: S603 - our own
    assert json.loads(requested.stdout)["state"] == "queued"
    bad = subprocess.run(  # noqa: S603 - our own
        (*command, "--block-size", "7"), env=environment, check=False, capture_output=True, text=True
    )
    assert (bad.returncode, bad.stdout) == (2, "")
    assert "A probe cannot measure this" in bad.stderr
    _check_that_waiting_ends_with_the_probe((*command[:-2], "--wait"), server, environment, token_file)
    until = time.monotonic() + 20
    while '"ready"' not in (tmp_path / "log").read_text():
        assert time.monotonic() < until
        time.sleep(0.1)
    assert (tmp_path / "asked").exists()
    process.terminate()
    assert process.wait(15) == -15
    listed = (*PROGRAM, "token", "list")
    tokens = subprocess.run(listed, env=environment, check=True, capture_output=True, text=True)  # noqa: S603
    assert "local" not in tokens.stdout


def _check_that_waiting_ends_with_the_probe(
    command: tuple[str, ...], server: str, environment: dict[str, str], token_file: Path
) -> None:
    headers = {"Authorization": f"Bearer {token_file.read_text().strip()}"}
    with (
        httpx2.Client(base_url=server, headers=headers) as http,
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as waiting,  # noqa: S603
    ):
        before = len(http.get("/probes").json()["probes"])
        until = time.monotonic() + 20
        while len(found := http.get("/probes").json()["probes"]) == before:
            assert time.monotonic() < until
            time.sleep(0.1)
        assert waiting.poll() is None
        assert http.delete(f"/probes/{found[0]['id']}").json()["state"] == "cancelled"
        output, _ = waiting.communicate(timeout=20)
    assert (waiting.returncode, output.split()[-1]) == (3, "cancelled")


def test_the_summary_holds_measured_against_predicted() -> None:
    estimate = {"bytes": 10 * GIB, "low": 9 * GIB, "high": 11 * GIB}
    terms = ("requested", "weights", "activation", "non_torch", "cuda_graphs", "available_kv")
    ranks = [
        dict.fromkeys((*terms, "graphs_estimated"))
        | {"available_kv": {"bytes": size * GIB}, "weights": {"bytes": 12 * GIB}}
        for size in (50, 40)
    ]
    specified = {
        "id": "abc",
        "state": "succeeded",
        "predicted": {"memory": dict.fromkeys(terms, estimate), "kv_cache": {"num_blocks": 1000}},
        "result": {
            "detail": "",
            "allocation": {},
            "measurement": {"ranks": ranks, "cache": {"num_blocks": 1001}},
        },
    }
    text = summary(specified)
    (weights,) = (line for line in text.splitlines() if line.lstrip().startswith("weights"))
    assert weights.split() == ["weights", "10.00", "9.00", "to", "11.00", "12.00"]
    assert "40.00" in text
    assert "50.00" not in text
    assert "1,001" in text
    assert "not known" in text


@pytest.mark.slow
def test_what_is_kept_and_teaches_nothing_is_no_part_of_an_answer(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """Standard output is the answer's alone, whatever there is to be logged."""
    start = {
        "schema_version": 1,
        "node": "n",
        "measured_at": 1.0,
        "device": {"name": "cpu", "compute_capability": "0.0", "total_bytes": GIB},
        "release": "0.32.0",
        "flags": {},
        "utilization": 0.9,
        "model": {"id": "a/b", "config": {"architectures": ["X"]}},
        "ranks": [{}],
        "origin": "probe",
    }
    (tmp_path / "one.jsonl").write_text(json.dumps(start))
    imported = (*PROGRAM, "measurements", "import", str(tmp_path / "one.jsonl"))
    subprocess.run(imported, env=environment, check=True, capture_output=True)  # noqa: S603 - our own
    options = ("--gpu", "l4-24gb", "--format", "json")
    requested = subprocess.run(  # noqa: S603 - our own
        (*PROGRAM, "plan", "Qwen/Qwen3-8B", *options), env=environment, check=False, capture_output=True
    )
    assert json.loads(requested.stdout)["plans"]
    assert requested.stderr == b""
