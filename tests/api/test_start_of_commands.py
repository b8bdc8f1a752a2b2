"""The list of commands names them as they describe themselves, and a command imports only what it needs."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer import _adapters
from typer.testing import CliRunner

from service.cli.lazy_group import COMMANDS
from service.cli.main import cli
from service.store.stored_measurements import may_have_measurements

SERVER = {"fastapi", "starlette", "uvicorn", "prometheus_client", "service.api", "service.worker"}
DATABASE = {"sqlalchemy", "alembic", "aiosqlite", "asyncpg"}
OVER_HTTP = {"httpx2", "huggingface_hub", "stamina"}
LOGS = {"structlog", "rich"}
EVENTS = {"anyio", "trio"}

RUN = """
import json, sys
from service.cli.main import cli
try:
    cli(sys.argv[1:])
except SystemExit as end:
    code = end.code
print("\\n" + json.dumps([code, sorted(sys.modules)]))
"""


def _imported(home: Path, *words: str) -> tuple[int, set[str]]:
    """Return the exit code of a command that runs in a process of its own, and what it imported."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DRYSERVE_")}
    run = subprocess.run(  # noqa: S603 - this interpreter, with words of this test
        [sys.executable, "-c", RUN, *words],
        capture_output=True,
        text=True,
        check=True,
        env={**kept, "HOME": str(home), "HF_HUB_OFFLINE": "1"},
    )
    code, modules = json.loads(run.stdout.splitlines()[-1])
    return code, set(modules)


def test_an_option_that_is_left_out_is_read_without_a_validator(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[object] = []
    build = _adapters.build_leaf_adapter

    def counted(annotation: object, **options: Any) -> Any:  # noqa: ANN401 - Typer has no public type for it
        built.append(annotation)
        return build(annotation, **options)

    monkeypatch.setattr(_adapters, "build_leaf_adapter", counted)
    words = ["check", "Qwen/Qwen3-8B", "--gpu", "l4", "--max-model-len", "4k"]
    answer = CliRunner().invoke(cli, words)
    assert answer.exit_code == 0, answer.output
    assert built.count(str) == 3, "the model, the GPU and the length"
    assert set(built) <= {str, bool}, "and --help"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_of_a_command_what_its_own_help_says(name: str) -> None:
    command = typer.main.get_command(cli).commands[name]  # type: ignore[attr-defined]
    first = command.help.split("\n\n")[0]
    assert COMMANDS[name].words == " ".join(first.split())


def test_the_help_of_all_commands_imports_none_of_them(tmp_path: Path) -> None:
    code, modules = _imported(tmp_path, "--help")
    assert code == 0
    assert not modules & {entry.module for entry in COMMANDS.values()}
    assert not modules & {"pydantic", *SERVER, *DATABASE, *OVER_HTTP, *LOGS}


@pytest.mark.parametrize("form", ["json", "table"])
@pytest.mark.parametrize("command", ["plan", "check"])
def test_a_plan_imports_neither_a_server_nor_a_database_nor_http(
    tmp_path: Path, command: str, form: str
) -> None:
    code, modules = _imported(tmp_path, command, "Qwen/Qwen3-8B", "--gpu", "h100-sxm-80gb", "--format", form)
    assert code == 0
    assert not modules & (SERVER | DATABASE | OVER_HTTP | LOGS | EVENTS)


def test_a_plan_reads_the_measurements_of_a_database_that_exists(tmp_path: Path) -> None:
    database = tmp_path / ".local/share/dryserve/dryserve.db"
    database.parent.mkdir(parents=True)
    database.touch()
    code, modules = _imported(tmp_path, "plan", "Qwen/Qwen3-8B", "--gpu", "h100-sxm-80gb")
    assert code == 0
    assert "sqlalchemy" in modules
    assert not modules & SERVER


def test_a_database_without_measurements_is_not_read_by_its_libraries(tmp_path: Path) -> None:
    database = tmp_path / ".local/share/dryserve/dryserve.db"
    question = ("plan", "Qwen/Qwen3-8B", "--gpu", "h100-sxm-80gb")
    assert not may_have_measurements(database)
    code, _ = _imported(tmp_path, "database", "upgrade")
    assert code == 0
    assert not may_have_measurements(database)
    code, modules = _imported(tmp_path, *question)
    assert code == 0
    assert not modules & DATABASE
    with closing(sqlite3.connect(database)) as connection, connection:
        columns = ("digest", "key", "measured_at", "stored_at", "document")
        insert = f"INSERT INTO measurements ({', '.join(columns)}) VALUES ('d', 'k', 0, 0, '{{}}')"  # noqa: S608
        connection.execute(insert)
    assert may_have_measurements(database)
    database.write_bytes(b"no database at all")
    assert may_have_measurements(database), "whoever reads it says what is wrong"
