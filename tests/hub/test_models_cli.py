"""`dryserve models`: pulled, imported and checked, then answered without any Hub."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from service.cli.main import cli
from tests.hub.fake_hub import (
    COMMIT,
    LLAMA,
    MODEL,
    FakeHub,
    Repository,
)
from tests.hub.hub_server import serving
from tests.hub.test_contract import asked_by_the_hubs_own_library

GEMMA = Path(__file__).parents[1] / "data" / "hub_snapshot" / "google" / "gemma-2b"
PLAN = [
    "--gpu",
    "rtx-3090-24gb",
    "--kv-cache-dtype",
    "auto",
    "--tensor-parallel-size",
    "1",
    "--format",
    "json",
]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "hub.sqlite3"
    monkeypatch.setenv("DRYSERVE_CACHE", str(path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def planned(model: str) -> dict[str, object]:
    result = run("plan", model, *PLAN)
    assert result.exit_code in {0, 3, 4}, result.output
    answer: dict[str, object] = json.loads(result.stdout)["model"]
    return answer


def test_what_was_pulled_is_planned_offline(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = (GEMMA / "config.json").read_bytes()
    with serving(FakeHub({"acme/gemma": Repository({"config.json": config})})) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.endpoint)
        monkeypatch.setenv("HF_HUB_OFFLINE", "0")
        result = run("models", "pull", "acme/gemma", "acme/none")
    assert result.exit_code == 1
    assert f"stored acme/gemma at commit {COMMIT}" in result.stdout
    assert "acme/none: the Hub has no model acme/none" in result.stderr
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    answer = planned("acme/gemma")
    assert (answer["source"], answer["revision"], answer["stale"]) == ("hub", COMMIT, False)
    assert "this was stored at" in str(answer["note"])
    assert run("models", "pull", "acme/gemma").exit_code == 2
    assert run("models", "verify").exit_code == 0
    assert cache.exists()


@pytest.mark.usefixtures("cache")
def test_a_cache_of_the_hubs_own_tools_is_imported(tmp_path: Path) -> None:
    config = (GEMMA / "config.json").read_text()
    repository = Repository({"config.json": config.encode(), "README.md": b"#"}, parameters={"BF16": 7})
    with serving(FakeHub({"acme/gemma": repository})) as server:
        asked_by_the_hubs_own_library(server.endpoint, tmp_path / "home", "acme/gemma", "main")
    result = run("models", "import", str(tmp_path / "home" / "hub"))
    assert (result.exit_code, result.stdout.partition(" in ")[0]) == (
        0,
        f"stored acme/gemma at commit {COMMIT}",
    )
    assert planned("acme/gemma")["revision"] == COMMIT


@pytest.mark.usefixtures("cache")
def test_a_tree_of_models_is_imported(tmp_path: Path) -> None:
    shutil.copytree(GEMMA, tmp_path / "site" / "google" / "gemma-mine")
    (tmp_path / "site" / "google" / "broken").mkdir()
    (tmp_path / "site" / "google" / "broken" / "config.json").write_text("<html>")
    result = run("models", "import", str(tmp_path / "site"))
    assert result.exit_code == 1
    assert result.stdout.startswith("stored google/gemma-mine (its files do not say their commit) in ")
    assert "google/broken: config.json of google/broken is not a JSON object" in result.stderr
    answer = planned("google/gemma-mine")
    assert (answer["source"], answer["revision"]) == ("hub", None)
    # As its index states them: 2,506,172,416 parameters of bfloat16.
    assert answer["checkpoint_bytes"] == 5_012_344_832


@pytest.mark.usefixtures("cache")
def test_a_single_model_takes_the_id_it_is_given(tmp_path: Path) -> None:
    shutil.copytree(GEMMA, tmp_path / "weights")
    result = run("models", "import", str(tmp_path / "weights"), "--id", "acme/mine")
    assert result.exit_code == 0
    assert result.stdout.endswith("plan it: dryserve plan acme/mine --gpu GPU\n")
    listed = run("models", "stored")
    (entry,) = json.loads(run("models", "stored", "--format", "json").stdout)
    assert f"{entry['id']}  {entry['bytes']:,} B  {', '.join(entry['revisions'])}\n" == listed.stdout
    assert (listed.exit_code, listed.stdout.split()[0]) == (0, "acme/mine")
    assert run("models", "import", str(tmp_path / "weights"), "--id", "../mine").exit_code == 1
    assert run("models", "import", str(tmp_path), "--id", "acme/mine").exit_code in {0, 1}
    (tmp_path / "empty").mkdir()
    assert run("models", "import", str(tmp_path / "empty")).exit_code == 2


def test_what_is_damaged_is_named_and_dropped(cache: Path, tmp_path: Path) -> None:
    folder = tmp_path / "acme" / "tiny"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(LLAMA))
    run("models", "import", str(tmp_path / "acme"), "--id", MODEL)
    with sqlite3.connect(cache) as other:
        other.execute("UPDATE entries SET body = '{}' WHERE file = 'config.json'")
    other.close()
    result = run("models", "verify")
    assert result.exit_code == 1
    assert "dropped, since it was damaged: config.json of acme/tiny" in result.stderr
    assert run("models", "verify").exit_code == 0


def test_a_file_that_is_no_database_is_named_and_deleted(cache: Path) -> None:
    cache.parent.mkdir(parents=True, exist_ok=True)
    cache.write_bytes(b"garbage" * 1000)
    result = run("models", "verify")
    assert result.exit_code == 1
    assert f"deleted, since the whole file was damaged: {cache}" in result.stderr
    assert "whole" not in result.stdout
    assert run("models", "verify").exit_code == 0
